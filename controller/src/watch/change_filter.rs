//! A predicate for changes: which changes of an object trigger a reconciliation.

use std::sync::Arc;

use helmops_api::{
    Bundle, BundleNamespaceMapping, Cluster, ClusterGroup, ClusterRegistration, ClusterRegistrationToken,
    Decoded, HelmOp, MetadataOnly, Schedule, labels,
};
use helmops_core::status::{is_refused, is_silent, last_seen};
use helmops_kube::Change;
use k8s_openapi::{api::core::v1::Namespace, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::Resource;

/// An object that is reconciled only if relevant parts have changed.
pub trait Relevant {
    /// Everything that a reconciliation depends on: whether the object decodes, its spec (by its generation), its shard, its
    /// finalizers, and whether its status was cleared. It contains nothing that the controller itself writes.
    fn relevant(&self) -> impl PartialEq;
}

/// Whether a change is relevant. A new or deleted object always is.
pub fn is_relevant<K: Relevant>(change: &Change<Arc<K>>) -> bool {
    change.differs(|object| object.relevant())
}

/// Whether a Cluster waits for another window than before. Nothing is deployed because of that alone.
pub fn has_other_window(change: &Change<Arc<Decoded<Cluster>>>) -> bool {
    change.differs(|cluster| cluster.valid().map(|cluster| &cluster.status.window))
}

/// The identity of an object, and its finalizers.
fn identity(metadata: &ObjectMeta) -> impl PartialEq {
    (helmops_kube::identity(metadata), &metadata.finalizers)
}

impl Relevant for Decoded<HelmOp> {
    fn relevant(&self) -> impl PartialEq {
        let metadata = self.meta();
        let shard = metadata.labels.as_ref();
        let has_conditions = |helmop: &HelmOp| {
            helmop
                .status
                .as_ref()
                .is_some_and(|status| !status.base.conditions.is_empty())
        };
        (
            identity(metadata),
            labels::annotation(metadata, labels::POLL_REQUESTED_AT),
            // They are passed on to its clusters or its Bundle.
            [
                labels::RECONCILE_REQUESTED_AT,
                labels::FORCE_REQUESTED_AT,
                labels::RESET_REQUESTED_AT,
                labels::APPROVED_ROLLOUT,
                labels::RESUMED_ROLLOUT,
            ]
            .map(|name| labels::annotation(metadata, name)),
            shard.and_then(|labels| labels.get(labels::SHARD)),
            self.valid().map(has_conditions),
        )
    }
}

impl Relevant for Decoded<Bundle> {
    fn relevant(&self) -> impl PartialEq {
        let has_conditions = |bundle: &Bundle| {
            bundle
                .status
                .as_ref()
                .is_some_and(|status| !status.conditions.is_empty())
        };
        (
            identity(self.meta()),
            // Its deployments have the digests of their charts.
            labels::annotation(self.meta(), labels::RESOLVED),
            labels::annotation(self.meta(), labels::APPROVED_ROLLOUT),
            labels::annotation(self.meta(), labels::RESUMED_ROLLOUT),
            // They are copied to its deployments, and mappings select by them.
            &self.meta().labels,
            self.valid().map(has_conditions),
        )
    }
}

/// Everything that targets select by, that values are rendered from, or that rollouts depend on. The heartbeat that agents
/// write every few minutes is excluded.
impl Relevant for Decoded<Cluster> {
    fn relevant(&self) -> impl PartialEq {
        let metadata = self.meta();
        let status = self.valid().map(|cluster| {
            let status = &cluster.status;
            (
                (&status.namespace, status.scheduled, status.active_schedule),
                // Whether its agent has ever registered.
                !last_seen(status).is_empty(),
                status.conditions.is_empty(),
                // Whether delivery to it is refused.
                is_refused(status),
                // A heartbeat, if the agent counts as silent.
                is_silent(status).then(|| last_seen(status)),
            )
        });
        (
            identity(metadata),
            (&metadata.labels, &metadata.annotations),
            status,
        )
    }
}

impl Relevant for Decoded<ClusterGroup> {
    fn relevant(&self) -> impl PartialEq {
        (identity(self.meta()), &self.meta().labels)
    }
}

impl Relevant for Decoded<Schedule> {
    fn relevant(&self) -> impl PartialEq {
        let is_unreported = self.valid().map(|schedule| schedule.status.conditions.is_empty());
        (identity(self.meta()), is_unreported)
    }
}

impl Relevant for Decoded<ClusterRegistrationToken> {
    fn relevant(&self) -> impl PartialEq {
        let is_unreported = self.valid().map(|token| token.status.secret_name.is_empty());
        (identity(self.meta()), is_unreported)
    }
}

/// What is granted is decided on all requests of a namespace as they are then. The account of an agent follows from the mark, the owner and
/// the name of the Cluster.
impl Relevant for Decoded<ClusterRegistration> {
    fn relevant(&self) -> impl PartialEq {
        let metadata = self.meta();
        let status = self
            .valid()
            .map(|request| (&request.status.cluster_name, request.status.granted));
        (
            identity(metadata),
            labels::annotation(metadata, labels::REGISTERED),
            &metadata.owner_references,
            status,
        )
    }
}

impl Relevant for Decoded<BundleNamespaceMapping> {
    fn relevant(&self) -> impl PartialEq {
        // It has no status subresource, so it may have no generation.
        (identity(self.meta()), &self.meta().resource_version)
    }
}

impl Relevant for MetadataOnly<Namespace> {
    fn relevant(&self) -> impl PartialEq {
        // The annotations name the Cluster that the namespace belongs to.
        let cluster =
            [labels::CLUSTER_NAMESPACE, labels::CLUSTER].map(|name| labels::annotation(&self.metadata, name));
        (&self.metadata.labels, cluster)
    }
}

#[cfg(test)]
mod tests {
    use helmops_api::NamespacedName;
    use serde_json::{Value, json};

    use super::*;

    fn helmop(object: &Value) -> Decoded<HelmOp> {
        serde_json::from_str(&object.to_string()).unwrap()
    }

    fn is_relevant_between(before: Option<Decoded<HelmOp>>, after: Option<Decoded<HelmOp>>) -> bool {
        is_relevant(&Change {
            name: NamespacedName::new("a", "web"),
            before: before.map(Arc::new),
            after: after.map(Arc::new),
        })
    }

    /// What is deployed is decided from the Schedules, but HelmOps report the next window.
    #[test]
    fn a_window_alone_is_reported_and_changes_nothing_else() {
        let cluster = |window: &str, scheduled: bool| {
            let status = json!({ "window": { "until": window }, "scheduled": scheduled });
            let object = json!({ "metadata": { "name": "web", "generation": 1 }, "status": status });
            Some(Arc::new(
                serde_json::from_str::<Decoded<Cluster>>(&object.to_string()).unwrap(),
            ))
        };
        for (after, expected) in [
            (cluster("T1", false), (false, false)),
            (cluster("T2", false), (false, true)),
            (cluster("T1", true), (true, false)),
            (None, (true, true)),
        ] {
            let change = Change {
                name: NamespacedName::new("a", "web"),
                before: cluster("T1", false),
                after,
            };
            assert_eq!(
                (is_relevant(&change), has_other_window(&change)),
                expected,
                "{change:?}"
            );
        }
    }

    /// A new digest of the same version changes nothing else.
    #[test]
    fn the_resolved_charts_of_a_bundle_are_relevant_to_its_deployments() {
        let bundle = |name: &str, value: &str| {
            let annotations = json!({ labels::RESOLVED: "[]", name: value });
            let metadata = json!({ "name": "web", "generation": 1, "annotations": annotations });
            let object = json!({ "metadata": metadata, "spec": {} });
            serde_json::from_str::<Decoded<Bundle>>(&object.to_string()).unwrap()
        };
        let is_relevant = |name: &str, value: &str| {
            is_relevant(&Change {
                name: NamespacedName::new("a", "web"),
                before: Some(Arc::new(bundle(name, "[]"))),
                after: Some(Arc::new(bundle(name, value))),
            })
        };
        assert!(is_relevant(labels::RESOLVED, "[{}]"));
        assert!(!is_relevant(labels::RESOLVED, "[]"));
        assert!(!is_relevant("example.com/note", "x"));
    }

    #[test]
    fn changes_by_the_controller_are_ignored() {
        let object = json!({
            "metadata": { "name": "web", "generation": 1, "resourceVersion": "1" },
            "spec": {},
            "status": { "conditions": [{ "type": "Accepted", "status": "True" }] }
        });
        let is_relevant = |pointer: &str, value: Value| {
            let mut changed = object.clone();
            let (parent, key) = pointer.rsplit_once('/').unwrap();
            changed.pointer_mut(parent).unwrap()[key] = value;
            is_relevant_between(Some(helmop(&object)), Some(helmop(&changed)))
        };
        assert!(!is_relevant("/metadata/resourceVersion", json!("2")));
        assert!(!is_relevant("/metadata/annotations", json!({ "other": "1" })));
        assert!(!is_relevant("/status/version", json!("1.2.3")));
        assert!(is_relevant("/metadata/uid", json!("u-2")));
        assert!(is_relevant("/metadata/generation", json!(2)));
        assert!(is_relevant("/metadata/finalizers", json!(["f"])));
        assert!(is_relevant(
            "/metadata/deletionTimestamp",
            json!("2026-01-01T00:00:00Z")
        ));
        for request in [
            labels::POLL_REQUESTED_AT,
            labels::RECONCILE_REQUESTED_AT,
            labels::FORCE_REQUESTED_AT,
            labels::RESET_REQUESTED_AT,
        ] {
            assert!(
                is_relevant("/metadata/annotations", json!({ request: "1" })),
                "{request}"
            );
        }
        assert!(is_relevant("/metadata/labels", json!({ labels::SHARD: "b" })));
        assert!(is_relevant("/status", json!({})), "cleared by a user");
    }

    #[test]
    fn a_heartbeat_is_relevant_only_if_the_agent_counts_as_silent() {
        let cluster = |reason: &str, last_seen: &str| {
            let object = json!({
                "metadata": { "name": "a" },
                "status": {
                    "agent": { "lastSeen": last_seen },
                    "conditions": [{ "type": "Ready", "status": "Unknown", "reason": reason }],
                },
            });
            serde_json::from_str::<Decoded<Cluster>>(&object.to_string()).unwrap()
        };
        for (reason, expected) in [("Ready", false), ("NotReady", false), ("AgentSilent", true)] {
            let change = Change {
                name: NamespacedName::new("fleet", "a"),
                before: Some(Arc::new(cluster(reason, "2026-01-01T00:00:00Z"))),
                after: Some(Arc::new(cluster(reason, "2026-01-01T00:15:00Z"))),
            };
            assert_eq!(is_relevant(&change), expected, "{reason}");
        }
    }

    #[test]
    fn the_status_that_the_controller_writes_into_schedules_and_clusters_causes_no_loop() {
        let schedule = |generation: i64, status: Value| -> Arc<Decoded<Schedule>> {
            let object =
                json!({ "metadata": { "name": "night", "generation": generation }, "status": status });
            Arc::new(serde_json::from_str(&object.to_string()).unwrap())
        };
        let reported =
            |active: bool| json!({ "active": active, "conditions": [{ "type": "Ready", "status": "True" }] });
        for (before, after, expected) in [
            (schedule(1, reported(false)), schedule(1, reported(true)), false),
            (schedule(1, reported(true)), schedule(2, reported(true)), true),
            (schedule(1, reported(true)), schedule(1, json!({})), true),
        ] {
            let change = Change {
                name: NamespacedName::new("fleet", "night"),
                before: Some(before),
                after: Some(after),
            };
            assert_eq!(is_relevant(&change), expected, "{change:?}");
        }
    }

    #[test]
    fn a_change_between_valid_and_invalid_is_relevant() {
        let valid = helmop(&json!({
            "metadata": { "name": "web", "generation": 1 }, "spec": {},
            "status": { "conditions": [{ "type": "Accepted", "status": "True" }] }
        }));
        let invalid = Decoded::Invalid {
            metadata: Box::new(valid.meta().clone().into()),
            error: String::new().into(),
        };
        assert!(is_relevant_between(Some(valid.clone()), Some(invalid.clone())));
        assert!(is_relevant_between(Some(invalid), Some(valid)));
    }

    #[test]
    fn a_new_or_deleted_object_is_relevant_and_an_unchanged_one_is_not() {
        let object = || Some(helmop(&json!({ "metadata": { "name": "web" } })));
        assert!(is_relevant_between(None, object()));
        assert!(is_relevant_between(object(), None));
        assert!(!is_relevant_between(object(), object()), "listed again");
    }
}
