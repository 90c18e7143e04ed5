//! `lifecycle.dependsOn` with an API version and a kind: objects of the cluster that must be ready first.

use helmops_api::{BundleDeployment, lifecycle::Dependency};
use helmops_model::expression::{self, Expression};
use jiff::Timestamp;
use serde_json::Value;

use super::{Unmet, own};
use crate::{
    health::{self, Readiness},
    object::ObjectId,
};

/// An object that has to be ready first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectDependency {
    /// The object, in the namespace of the release by default. That of a kind without namespaces does not count.
    pub object: ObjectId,
    index: usize,
    ready: String,
}

/// The objects that have to be ready before a BundleDeployment is deployed, in their order.
pub fn objects(
    deployment: &BundleDeployment,
    release_namespace: &str,
) -> impl Iterator<Item = ObjectDependency> {
    let entries = own(deployment).iter().enumerate();
    entries
        .filter(|(_, entry)| entry.is_object())
        .map(|(index, entry)| ObjectDependency::of(index, entry, release_namespace))
}

impl ObjectDependency {
    fn of(index: usize, entry: &Dependency, release_namespace: &str) -> Self {
        let [api_version, kind, namespace, name] = entry.key(release_namespace).map(str::to_owned);
        Self {
            object: ObjectId {
                api_version,
                kind,
                namespace,
                name,
            },
            index,
            ready: entry.ready.clone(),
        }
    }

    /// Checks the object as the API server shows it at a time; `None` if it does not exist.
    ///
    /// # Errors
    /// If it does not exist, or is not ready.
    pub fn check(&self, object: Option<&Value>, now: Timestamp) -> Result<(), Unmet> {
        let cause = match object {
            None => Some("it does not exist on this cluster yet".to_owned()),
            Some(object) => self.not_ready(object, now),
        };
        cause.map_or(Ok(()), |cause| Err(self.unmet(cause)))
    }

    /// The cluster does not have the kind.
    pub fn unserved(&self) -> Unmet {
        let ObjectId {
            api_version, kind, ..
        } = &self.object;
        self.unmet(format!(
            "the cluster has no kind {kind} of {api_version} yet; install its CRD, or correct apiVersion and kind"
        ))
    }

    /// The account that deploys may not read it.
    pub fn forbidden(&self, account: &str, error: &str) -> Unmet {
        self.unmet(format!(
            "{account} may not read it; grant it the verb get for this object, or remove the entry: {error}"
        ))
    }

    fn unmet(&self, cause: String) -> Unmet {
        Unmet::NotTrue {
            index: self.index,
            name: self.object.to_string(),
            cause,
        }
    }

    /// Why an object is not ready: by the expression, or by the rules of its kind. A Job is ready when it is complete.
    fn not_ready(&self, object: &Value, now: Timestamp) -> Option<String> {
        if self.ready.is_empty() {
            return match health::readiness(object, true, now) {
                Readiness::Ready | Readiness::Started => None,
                Readiness::Waiting(cause) | Readiness::Failed(cause) => Some(cause),
            };
        }
        match Expression::parse(&self.ready).map(|ready| ready.readiness(object)) {
            Ok(expression::Readiness::Current) => None,
            Ok(expression::Readiness::InProgress(cause) | expression::Readiness::Failed(cause)) => {
                Some(cause)
            }
            Err(error) => Some(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn dependencies(entries: &Value) -> Vec<ObjectDependency> {
        let spec = json!({ "lifecycle": { "dependsOn": entries } });
        let deployment = serde_json::from_str(&json!({ "spec": spec }).to_string()).unwrap();
        objects(&deployment, "shop").collect()
    }

    #[test]
    fn objects_are_in_the_namespace_of_the_release_unless_the_entry_says_another() {
        let found = dependencies(&json!([
            { "name": "db" },
            { "apiVersion": "v1", "kind": "Secret", "name": "a" },
            { "apiVersion": "v1", "kind": "Secret", "name": "b", "namespace": "data" },
        ]));
        let shown: Vec<_> = found
            .iter()
            .map(|one| (one.index, one.object.to_string()))
            .collect();
        let expected = [
            (1, "secret.v1 shop/a".to_owned()),
            (2, "secret.v1 data/b".to_owned()),
        ];
        assert_eq!(shown, expected);
    }

    /// By the expression alone if there is one, and else by the rules of the kind.
    #[test]
    fn an_object_is_ready_if_it_exists_and_its_expression_or_the_rules_of_its_kind_say_so() {
        let issued = "status.conditions.exists(c, c.type == 'Ready' && c.status == 'True')";
        let certificate = |ready: &str| {
            let conditions = json!([{ "type": "Ready", "status": ready, "message": "issuing" }]);
            json!({ "apiVersion": "cert-manager.io/v1", "kind": "Certificate", "metadata": { "generation": 2 },
                "status": { "conditions": conditions, "observedGeneration": 2 } })
        };
        let mut outdated = certificate("True");
        outdated["status"]["observedGeneration"] = json!(1);
        let of_job = |kind: &str| json!([{ "type": kind, "status": "True", "message": "all done" }]);
        let job = |status: Value| json!({ "apiVersion": "batch/v1", "kind": "Job", "metadata": {}, "status": status });
        let done =
            json!({ "conditions": of_job("Complete"), "succeeded": 1, "startTime": "2026-03-01T12:00:00Z" });
        for (ready, object, expected) in [
            ("", None, Some("it does not exist on this cluster yet")),
            (issued, None, Some("it does not exist on this cluster yet")),
            ("", Some(certificate("True")), None),
            ("", Some(certificate("False")), Some("issuing")),
            (issued, Some(certificate("True")), None),
            (issued, Some(certificate("False")), Some("is not true yet")),
            (issued, Some(outdated), Some("generation 2 is not observed yet")),
            // Not ready yet, rather than an error: the field may be set later.
            (
                "status.phase == 'Bound'",
                Some(certificate("True")),
                Some("there is no field \"phase\""),
            ),
            ("1 +", Some(certificate("True")), Some("not a CEL expression")),
            // One that runs has not done yet what others wait for.
            (
                "",
                Some(job(json!({ "active": 1, "startTime": "2026-03-01T12:00:00Z" }))),
                Some("progress"),
            ),
            ("", Some(job(done)), None),
        ] {
            let entry = json!([{ "apiVersion": "cert-manager.io/v1", "kind": "Certificate", "name": "tls", "ready": ready }]);
            let dependency = dependencies(&entry).remove(0);
            let found = dependency
                .check(object.as_ref(), Timestamp::UNIX_EPOCH)
                .err()
                .map(|unmet| unmet.to_string());
            let Some(expected) = expected else {
                assert_eq!(found, None, "{ready} {object:?}");
                continue;
            };
            let found = found.unwrap_or_default();
            let start = "lifecycle.dependsOn[0]: certificate.cert-manager.io shop/tls is not ready: ";
            assert!(found.starts_with(start) && found.contains(expected), "{found}");
        }
    }
}
