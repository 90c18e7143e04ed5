//! Which changes of a HelmOp are news.

use std::hash::{DefaultHasher, Hash, Hasher};

use helmops_shared::api::{Guarded, HelmOp, labels};
use kube::Resource;

/// A number that changes with everything about a HelmOp that the controller acts on: what is asked for, who works on it,
/// what keeps it from going, and whether its status was wiped. What the controller itself writes is no news.
#[expect(clippy::unnecessary_wraps, reason = "it is how predicates are")]
pub fn is_news(helmop: &Guarded<HelmOp>) -> Option<u64> {
    let metadata = helmop.meta();
    let mut hasher = DefaultHasher::new();
    metadata.generation.hash(&mut hasher);
    metadata.finalizers.hash(&mut hasher);
    let annotation = metadata.annotations.as_ref();
    annotation
        .and_then(|annotations| annotations.get(labels::POLL))
        .hash(&mut hasher);
    let label = metadata.labels.as_ref();
    label
        .and_then(|labels| labels.get(labels::SHARD))
        .hash(&mut hasher);
    has_status(helmop).hash(&mut hasher);
    Some(hasher.finish())
}

fn has_status(helmop: &Guarded<HelmOp>) -> bool {
    match helmop {
        Guarded::Good(helmop) => helmop
            .status
            .as_ref()
            .is_some_and(|status| !status.base.conditions.is_empty()),
        Guarded::Odd { .. } => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn news(object: &Value) -> Option<u64> {
        is_news(&serde_json::from_str(&object.to_string()).unwrap())
    }

    #[test]
    fn what_the_controller_writes_is_no_news() {
        let object = json!({
            "metadata": { "name": "web", "generation": 1, "resourceVersion": "1" },
            "spec": {},
            "status": { "conditions": [{ "type": "Accepted", "status": "True" }] }
        });
        let changed = |pointer: &str, value: Value| {
            let mut changed = object.clone();
            let (parent, key) = pointer.rsplit_once('/').unwrap();
            changed.pointer_mut(parent).unwrap()[key] = value;
            news(&changed) != news(&object)
        };
        assert!(!changed("/metadata/resourceVersion", json!("2")));
        assert!(!changed("/metadata/annotations", json!({ "other": "1" })));
        assert!(!changed("/status/version", json!("1.2.3")));
        assert!(changed("/metadata/generation", json!(2)));
        assert!(changed("/metadata/finalizers", json!(["f"])));
        assert!(changed("/metadata/annotations", json!({ labels::POLL: "1" })));
        assert!(changed("/metadata/labels", json!({ labels::SHARD: "b" })));
        assert!(changed("/status", json!({})), "wiped by hand");
    }
}
