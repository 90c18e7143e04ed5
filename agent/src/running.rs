//! Ends the work for BundleDeployments that have changed meanwhile.
//!
//! A BundleDeployment is reconciled once at a time, so its next version, or its removal, waits for what runs for this one: for a hook that
//! never ends, too. So a removal ends all of it, and a new version ends tests. It does not end a deployment: the next one would replace a hook
//! such as the migration of a database while it works.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use helmops_api::{BundleDeployment, Decoded, labels};
use helmops_helm::{Tenant, run_scope::RunScope};
use helmops_process::lock;
use helmops_release::gate::Held;
use tokio_util::sync::CancellationToken;

/// What is running, by BundleDeployment.
#[derive(Clone, Debug, Default)]
pub struct RunningWork(Arc<Mutex<HashMap<String, Tokens>>>);

/// What a change of a BundleDeployment cancels.
#[derive(Clone, Debug)]
struct Tokens {
    deployment_id: String,
    deployment: CancellationToken,
    tests: CancellationToken,
}

/// Work for a BundleDeployment, until it is dropped.
#[derive(Debug)]
pub struct Work {
    all: RunningWork,
    name: String,
    /// Ends deployments.
    pub deployment: RunScope,
    /// Ends tests.
    pub tests: RunScope,
}

/// What of the work for a BundleDeployment is of no use after a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Useless {
    Nothing,
    /// A deployment would be left halfway.
    Tests,
    All,
}

impl RunningWork {
    /// Begins the work for a BundleDeployment. `stop` is cancelled when the agent stops, and `current` is what the cache shows.
    pub fn begin(
        &self,
        deployment: &BundleDeployment,
        stop: &CancellationToken,
        current: impl FnOnce() -> Option<Arc<Decoded<BundleDeployment>>>,
    ) -> Work {
        let name = deployment.metadata.name.clone().unwrap_or_default();
        let superseded = CancellationToken::new();
        let tokens = Tokens {
            deployment_id: deployment.spec.deployment_id.clone(),
            tests: superseded.child_token(),
            deployment: superseded,
        };
        let tenant =
            Tenant::from(labels::of(&deployment.metadata, labels::BUNDLE_NAMESPACE).unwrap_or_default());
        let until = |superseded: &CancellationToken| RunScope {
            tenant: Arc::clone(&tenant),
            agent: stop.clone(),
            superseded: superseded.clone(),
        };
        let work = Work {
            all: self.clone(),
            name: name.clone(),
            deployment: until(&tokens.deployment),
            tests: until(&tokens.tests),
        };
        lock(&self.0).insert(name.clone(), tokens);
        // It may have changed since it was read, and before this was known.
        self.changed(&name, current().as_deref());
        work
    }

    /// A BundleDeployment has changed; `None` if it does not exist any more.
    pub fn changed(&self, name: &str, after: Option<&Decoded<BundleDeployment>>) {
        let tokens = lock(&self.0).get(name).cloned();
        let Some(tokens) = tokens else {
            return;
        };
        match useless(&tokens.deployment_id, after) {
            Useless::Nothing => {}
            Useless::Tests => tokens.tests.cancel(),
            Useless::All => tokens.deployment.cancel(),
        }
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        lock(&self.all.0).remove(&self.name);
    }
}

fn useless(deployment_id: &str, after: Option<&Decoded<BundleDeployment>>) -> Useless {
    match after {
        None => Useless::All,
        Some(Decoded::Valid(after))
            if after.spec.deployment_id != deployment_id || Held::of(&after.spec).is_some() =>
        {
            Useless::Tests
        }
        // What one wants that does not decode is not known.
        Some(_) => Useless::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn deployment(spec: &Value) -> BundleDeployment {
        let object = json!({ "metadata": { "name": "web", "namespace": "cluster-a" }, "spec": spec });
        serde_json::from_value(object).unwrap()
    }

    fn decoded(spec: &Value) -> Arc<Decoded<BundleDeployment>> {
        Arc::new(Decoded::Valid(deployment(spec).into()))
    }

    /// Whether a deployment and tests have ended.
    fn ended(work: &Work) -> (bool, bool) {
        let is_cancelled = |stop: &RunScope| stop.superseded.is_cancelled();
        (is_cancelled(&work.deployment), is_cancelled(&work.tests))
    }

    #[test]
    fn a_change_ends_what_is_of_no_use_any_more() {
        let first = || json!({ "deploymentID": ":a" });
        for (after, expected) in [
            (Some(decoded(&first())), (false, false)),
            (
                Some(decoded(
                    &json!({ "deploymentID": ":a", "stagedDeploymentID": ":b" }),
                )),
                (false, false),
            ),
            (Some(decoded(&json!({ "deploymentID": ":b" }))), (false, true)),
            (Some(decoded(&json!({}))), (false, true)),
            (None, (true, true)),
            (
                Some(decoded(
                    &json!({ "deploymentID": ":a", "lifecycle": { "suspend": true } }),
                )),
                (false, true),
            ),
            (
                Some(decoded(&json!({ "deploymentID": ":a", "paused": true }))),
                (false, true),
            ),
        ] {
            let (running, stop) = (RunningWork::default(), CancellationToken::new());
            let work = running.begin(&deployment(&first()), &stop, || Some(decoded(&first())));
            running.changed("other", None);
            assert_eq!(ended(&work), (false, false));
            running.changed("web", after.as_deref());
            assert_eq!(ended(&work), expected, "{after:?}");
            assert!(!stop.is_cancelled());
        }
    }

    #[test]
    fn a_change_before_the_work_begins_ends_it_too() {
        let (running, stop) = (RunningWork::default(), CancellationToken::new());
        let first = deployment(&json!({ "deploymentID": ":a" }));
        let late = running.begin(&first, &stop, || None);
        assert_eq!(ended(&late), (true, true));
        drop(late);
        assert!(lock(&running.0).is_empty());
    }
}
