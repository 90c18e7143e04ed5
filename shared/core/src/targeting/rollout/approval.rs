//! Approvals of a rollout.

use helmops_api::{Bundle, labels, rollout::RolloutStrategy};

/// Up to which partition a rollout is approved. Partitions follow each other, so the approval of one is that of all before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Approval {
    None,
    /// Up to the partition with this index.
    UpTo(usize),
    All,
}

impl Approval {
    /// The approval in the annotation of a Bundle. One of another rollout is none, nor is one for a partition that does not exist.
    pub fn of(bundle: &Bundle, strategy: &RolloutStrategy, id: &str) -> Self {
        let Some(value) = labels::annotation(&bundle.metadata, labels::APPROVED_ROLLOUT) else {
            return Self::None;
        };
        let (approved, name) = value
            .split_once('/')
            .map_or((value, None), |(approved, name)| (approved, Some(name)));
        if approved != id {
            return Self::None;
        }
        let Some(name) = name else { return Self::All };
        let position = strategy
            .partitions
            .iter()
            .position(|partition| partition.name == name);
        position.map_or(Self::None, Self::UpTo)
    }

    /// Whether the partition with an index is approved.
    pub const fn includes(self, index: usize) -> bool {
        match self {
            Self::None => false,
            Self::UpTo(last) => index <= last,
            Self::All => true,
        }
    }
}

/// The command that approves what a Bundle waits for.
pub fn command(bundle: &Bundle, id: &str, partition: &str) -> String {
    let value = format!("{id}/{partition}");
    command_of(bundle, "approve", labels::APPROVED_ROLLOUT, &value)
}

/// A command about a HelmOp; for a Bundle without one, the command that writes the annotation.
pub fn command_of(bundle: &Bundle, command: &str, annotation: &str, value: &str) -> String {
    let namespace = bundle.metadata.namespace.as_deref().unwrap_or_default();
    if let Some(helmop) = labels::of(&bundle.metadata, labels::HELM_NAME) {
        return format!("kubectl helmop {command} {helmop} -n {namespace}");
    }
    let name = bundle.metadata.name.as_deref().unwrap_or_default();
    format!("kubectl annotate bundle {name} -n {namespace} --overwrite '{annotation}={value}'")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_approval_is_for_one_rollout_up_to_a_partition() {
        let partition = |name: &str| json!({ "name": name, "approval": "Manual" });
        for (value, expected) in [
            (None, [false; 3]),
            (Some("id"), [true; 3]),
            (Some("id/a"), [true, false, false]),
            (Some("id/b/c"), [true, true, false]),
            (Some("id/last"), [true; 3]),
            (Some("other"), [false; 3]),
            (Some("other/a"), [false; 3]),
            (Some("id/none"), [false; 3]),
            (Some("id/"), [false; 3]),
            (Some(""), [false; 3]),
        ] {
            let annotations = value.map(|value| json!({ labels::APPROVED_ROLLOUT: value }));
            let object = json!({
                "metadata": { "name": "web", "namespace": "fleet", "annotations": annotations },
                "spec": { "rolloutStrategy": { "partitions": [partition("a"), partition("b/c"), partition("last")] } },
            });
            let bundle: Bundle = serde_json::from_str(&object.to_string()).unwrap();
            let approval = Approval::of(&bundle, bundle.spec.rollout_strategy.as_ref().unwrap(), "id");
            assert_eq!(
                [0, 1, 2].map(|index| approval.includes(index)),
                expected,
                "{value:?}"
            );
        }
    }

    #[test]
    fn the_command_is_about_the_object_that_a_user_has_made() {
        let command = |labels: serde_json::Value| {
            let object =
                json!({ "metadata": { "name": "web", "namespace": "fleet", "labels": labels }, "spec": {} });
            let bundle: Bundle = serde_json::from_str(&object.to_string()).unwrap();
            command(&bundle, "id", "a b")
        };
        assert_eq!(
            command(json!({ labels::HELM_NAME: "shop" })),
            "kubectl helmop approve shop -n fleet"
        );
        assert_eq!(
            command(json!({})),
            "kubectl annotate bundle web -n fleet --overwrite 'helmops.fleet.cattle.io/approved-rollout=id/a b'"
        );
    }
}
