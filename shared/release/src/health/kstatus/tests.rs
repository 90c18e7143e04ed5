//! Tests of the status of objects, one table for each kind.

use serde_json::json;

use super::{
    super::conditions,
    Status::{Current, Failed, InProgress, Terminating, Unknown},
    *,
};

const NOW: &str = "2026-01-01T00:01:00Z";

fn assessed(object: &Value) -> (Status, String) {
    let conditions = conditions::of(object, &[]);
    let assessment = assess(object, &conditions, NOW.parse().unwrap());
    (assessment.status, assessment.message.into_owned())
}

/// Checks the status of objects of one kind, each a patch of `base`.
fn check(base: &Value, cases: &[(Value, Status, &str)]) {
    for (patch, status, message) in cases {
        let mut object = base.clone();
        json_patch::merge(&mut object, patch);
        assert_eq!(assessed(&object), (*status, (*message).to_owned()), "{object}");
    }
}

fn condition(r#type: &str, status: &str) -> Value {
    json!({ "type": r#type, "status": status })
}

fn because(r#type: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({ "type": r#type, "status": status, "reason": reason, "message": message })
}

fn with_conditions(conditions: &[Value]) -> Value {
    json!({ "status": { "conditions": conditions } })
}

#[test]
fn deletion_generation_and_standard_conditions_come_before_the_rules_of_the_kind() {
    let config_map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "generation": 2 } });
    check(
        &config_map,
        &[
            (json!({}), Current, "Resource is always ready"),
            (
                json!({ "metadata": { "deletionTimestamp": NOW }, "status": { "observedGeneration": 1 } }),
                Terminating,
                "Resource scheduled for deletion",
            ),
            (
                json!({ "status": { "observedGeneration": 1 } }),
                InProgress,
                "ConfigMap generation is 2, but latest observed generation is 1",
            ),
            (
                json!({ "status": { "observedGeneration": 2 } }),
                Current,
                "Resource is always ready",
            ),
            (
                with_conditions(&[because("Reconciling", "True", "Syncing", "syncing")]),
                InProgress,
                "syncing",
            ),
            (
                with_conditions(&[because("Stalled", "True", "Broken", "broken")]),
                Failed,
                "broken",
            ),
            (
                with_conditions(&[condition("Reconciling", "False"), condition("Stalled", "Unknown")]),
                Current,
                "Resource is always ready",
            ),
        ],
    );
}

#[test]
fn a_deployment_is_current_when_all_its_pods_are_available() {
    let counts = |replicas: i64, updated: i64, available: i64, ready: i64| {
        json!({ "status": {
            "replicas": replicas, "updatedReplicas": updated, "availableReplicas": available, "readyReplicas": ready
        } })
    };
    let done = [
        because("Progressing", "True", "NewReplicaSetAvailable", ""),
        condition("Available", "True"),
    ];
    let base = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "spec": { "replicas": 3, "progressDeadlineSeconds": 600 },
        "status": { "replicas": 3, "updatedReplicas": 3, "availableReplicas": 3, "readyReplicas": 3, "conditions": done }
    });
    check(
        &base,
        &[
            (json!({}), Current, "Deployment is available. Replicas: 3"),
            (json!({ "status": null }), InProgress, "Replicas: 0/3"),
            (
                json!({ "status": null, "spec": { "replicas": null } }),
                InProgress,
                "Replicas: 0/1",
            ),
            (counts(2, 2, 2, 2), InProgress, "Replicas: 2/3"),
            (counts(3, 1, 3, 3), InProgress, "Updated: 1/3"),
            (counts(5, 3, 3, 3), InProgress, "Pending termination: 2"),
            (counts(3, 3, 1, 3), InProgress, "Available: 1/3"),
            (counts(3, 3, 3, 2), InProgress, "Ready: 2/3"),
            (
                with_conditions(&[condition("Available", "True")]),
                InProgress,
                "ReplicaSet not Available",
            ),
            (
                with_conditions(&[because("Progressing", "True", "ReplicaSetUpdated", "")]),
                InProgress,
                "ReplicaSet not Available",
            ),
            (
                with_conditions(&[because("Progressing", "True", "NewReplicaSetAvailable", "")]),
                InProgress,
                "Deployment not Available",
            ),
            // Without a deadline there is no condition Progressing.
            (
                json!({ "spec": { "progressDeadlineSeconds": null }, "status": { "conditions": [condition("Available", "True")] } }),
                Current,
                "Deployment is available. Replicas: 3",
            ),
            (
                json!({ "spec": { "progressDeadlineSeconds": i32::MAX }, "status": { "conditions": [condition("Available", "True")] } }),
                Current,
                "Deployment is available. Replicas: 3",
            ),
            (
                json!({ "status": { "replicas": 0, "conditions": [because("Progressing", "False", "ProgressDeadlineExceeded", "late")] } }),
                Failed,
                "Progress deadline exceeded",
            ),
            (
                json!({ "spec": { "replicas": 0 }, "status": { "replicas": null, "updatedReplicas": null, "availableReplicas": null, "readyReplicas": null } }),
                Current,
                "Deployment is available. Replicas: 0",
            ),
            (
                json!({ "apiVersion": "extensions/v1beta1", "status": null }),
                InProgress,
                "Replicas: 0/3",
            ),
            // Of another group: a custom resource with the same kind.
            (
                json!({ "apiVersion": "example.com/v1", "status": null }),
                Current,
                "Resource is current",
            ),
        ],
    );
}

#[test]
fn a_stateful_set_is_current_when_its_revision_is_rolled_out() {
    let base = json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "spec": { "replicas": 3 },
        "status": {
            "replicas": 3, "readyReplicas": 3, "currentReplicas": 3, "updatedReplicas": 3,
            "currentRevision": "b", "updateRevision": "b"
        }
    });
    let partition = |partition: i64, updated: i64| {
        json!({
            "spec": { "updateStrategy": { "rollingUpdate": { "partition": partition } } },
            "status": { "updatedReplicas": updated, "currentRevision": "a" }
        })
    };
    check(
        &base,
        &[
            (
                json!({}),
                Current,
                "All replicas scheduled as expected. Replicas: 3",
            ),
            (
                json!({ "status": { "replicas": 1 } }),
                InProgress,
                "Replicas: 1/3",
            ),
            (
                json!({ "status": { "readyReplicas": null } }),
                InProgress,
                "Ready: 0/3",
            ),
            (
                json!({ "status": { "replicas": 4 } }),
                InProgress,
                "Pending termination: 1",
            ),
            (
                json!({ "status": { "currentReplicas": 2 } }),
                InProgress,
                "current: 2/3",
            ),
            (
                json!({ "status": { "currentRevision": "a" } }),
                InProgress,
                "Waiting for updated revision to match current",
            ),
            (partition(1, 1), InProgress, "updated: 1/2"),
            (partition(1, 2), Current, "Partition rollout complete. updated: 2"),
            (
                json!({ "spec": { "updateStrategy": { "type": "OnDelete" } }, "status": null }),
                Current,
                "StatefulSet is using the ondelete update strategy",
            ),
        ],
    );
}

#[test]
fn a_daemon_set_is_current_when_every_node_has_its_pod() {
    let base = json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": { "generation": 1 },
        "status": {
            "observedGeneration": 1, "desiredNumberScheduled": 2, "currentNumberScheduled": 2,
            "updatedNumberScheduled": 2, "numberAvailable": 2, "numberReady": 2
        }
    });
    let status = |key: &str, count: Value| json!({ "status": { key: count } });
    check(
        &base,
        &[
            (
                json!({}),
                Current,
                "All replicas scheduled as expected. Replicas: 2",
            ),
            (
                json!({ "metadata": { "generation": null } }),
                InProgress,
                "DaemonSet metadata.generation not found",
            ),
            (
                status("observedGeneration", Value::Null),
                InProgress,
                "DaemonSet status.observedGeneration not found",
            ),
            (
                status("desiredNumberScheduled", Value::Null),
                InProgress,
                "Missing .status.desiredNumberScheduled",
            ),
            (
                status("currentNumberScheduled", json!(1)),
                InProgress,
                "Current: 1/2",
            ),
            (
                status("updatedNumberScheduled", json!(1)),
                InProgress,
                "Updated: 1/2",
            ),
            (
                status("numberAvailable", Value::Null),
                InProgress,
                "Available: 0/2",
            ),
            (status("numberReady", json!(1)), InProgress, "Ready: 1/2"),
            (
                json!({ "status": { "desiredNumberScheduled": 0, "numberReady": null } }),
                Current,
                "All replicas scheduled as expected. Replicas: 0",
            ),
        ],
    );
}

#[test]
fn a_replica_set_is_current_when_all_its_pods_are_available() {
    let base = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "spec": { "replicas": 2 },
        "status": { "replicas": 2, "fullyLabeledReplicas": 2, "availableReplicas": 2, "readyReplicas": 2 }
    });
    check(
        &base,
        &[
            (json!({}), Current, "ReplicaSet is available. Replicas: 2"),
            (
                json!({ "status": { "fullyLabeledReplicas": 1 } }),
                InProgress,
                "Labelled: 1/2",
            ),
            (
                json!({ "status": { "availableReplicas": 1 } }),
                InProgress,
                "Available: 1/2",
            ),
            (
                json!({ "status": { "readyReplicas": 1 } }),
                InProgress,
                "Ready: 1/2",
            ),
            (
                json!({ "status": { "replicas": 3 } }),
                InProgress,
                "Pending termination: 1",
            ),
            (
                with_conditions(&[condition("ReplicaFailure", "True")]),
                InProgress,
                "Replica Failure condition. Check Pods",
            ),
        ],
    );
}

#[test]
fn a_pod_is_current_when_it_is_ready_or_has_ended() {
    let waiting = |reason: &str| json!({ "name": "main", "state": { "waiting": { "reason": reason } } });
    let unschedulable = because("PodScheduled", "False", "Unschedulable", "no node");
    let pending = |created: &str| {
        json!({
            "metadata": { "creationTimestamp": created },
            "status": { "phase": "Pending", "conditions": [unschedulable] }
        })
    };
    check(
        &json!({ "apiVersion": "v1", "kind": "Pod" }),
        &[
            (json!({}), InProgress, "Pod phase not available"),
            (
                json!({ "status": { "phase": "Succeeded" } }),
                Current,
                "Pod has completed successfully",
            ),
            (
                json!({ "status": { "phase": "Failed" } }),
                Current,
                "Pod has completed, but not successfully",
            ),
            (
                json!({ "status": { "phase": "Running", "conditions": [condition("Ready", "True")] } }),
                Current,
                "Pod is Ready",
            ),
            (
                json!({ "status": { "phase": "Running" } }),
                InProgress,
                "Pod is running but is not Ready",
            ),
            (
                json!({ "status": { "phase": "Running", "containerStatuses": [waiting("ContainerCreating")] } }),
                InProgress,
                "Pod is running but is not Ready",
            ),
            (
                json!({ "status": { "phase": "Running", "containerStatuses": [waiting("CrashLoopBackOff"), waiting("CrashLoopBackOff")] } }),
                Failed,
                "Containers in CrashLoop state: main,main",
            ),
            (
                json!({ "status": { "phase": "Pending" } }),
                InProgress,
                "Pod is in the Pending phase",
            ),
            (
                pending("2026-01-01T00:00:45Z"),
                Failed,
                "Pod could not be scheduled",
            ),
            (
                pending("2026-01-01T00:00:46Z"),
                InProgress,
                "Pod has not been scheduled",
            ),
            (pending("never"), Failed, "Pod could not be scheduled"),
        ],
    );
    let unknown = json!({ "apiVersion": "v1", "kind": "Pod", "status": { "phase": "Newer" } });
    assert_eq!(
        assessed(&unknown),
        (Unknown, "unknown Pod phase Newer".to_owned())
    );
}

#[test]
fn an_unschedulable_pod_is_assessed_again_when_its_time_is_over() {
    let mut pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "creationTimestamp": "2026-01-01T00:00:50Z" } });
    let unschedulable = because("PodScheduled", "False", "Unschedulable", "no node");
    pod["status"] = json!({ "phase": "Pending", "conditions": [unschedulable] });
    let conditions = conditions::of(&pod, &[]);
    let at = |now: &str| assess(&pod, &conditions, now.parse().unwrap());
    let first = at(NOW);
    assert_eq!(first.recheck, Some("2026-01-01T00:01:05Z".parse().unwrap()));
    let second = at(&first.recheck.unwrap().to_string());
    assert_eq!((second.status, second.recheck), (Failed, None));
}

#[test]
fn a_job_is_current_while_it_runs() {
    check(
        &json!({ "apiVersion": "batch/v1", "kind": "Job", "spec": { "parallelism": 2 } }),
        &[
            (json!({}), InProgress, "Job not started"),
            (
                json!({ "status": { "startTime": NOW, "active": 1, "succeeded": 1 } }),
                Current,
                "Job in progress. success:1, active: 1, failed: 0",
            ),
            (
                json!({ "status": { "succeeded": 2, "conditions": [condition("Complete", "True")] } }),
                Current,
                "Job Completed. succeeded: 2/2",
            ),
            (
                json!({ "spec": { "completions": 4 }, "status": { "failed": 3, "conditions": [condition("Failed", "True")] } }),
                Failed,
                "Job Failed. failed: 3/4",
            ),
            (
                with_conditions(&[condition("Complete", "False"), condition("Failed", "False")]),
                InProgress,
                "Job not started",
            ),
            (
                json!({ "spec": { "suspend": true } }),
                Current,
                "Job is suspended",
            ),
            (
                json!({ "spec": { "suspend": true }, "status": { "conditions": [condition("Failed", "True")] } }),
                Failed,
                "Job Failed. failed: 0/2",
            ),
        ],
    );
}

#[test]
fn a_claim_is_current_when_it_is_bound() {
    check(
        &json!({ "apiVersion": "v1", "kind": "PersistentVolumeClaim" }),
        &[
            (json!({}), InProgress, "PVC is not Bound. phase: unknown"),
            (
                json!({ "status": { "phase": "Pending" } }),
                InProgress,
                "PVC is not Bound. phase: Pending",
            ),
            (json!({ "status": { "phase": "Bound" } }), Current, "PVC is Bound"),
        ],
    );
}

#[test]
fn a_load_balancer_needs_a_cluster_ip() {
    check(
        &json!({ "apiVersion": "v1", "kind": "Service", "spec": { "type": "LoadBalancer" } }),
        &[
            (
                json!({}),
                InProgress,
                "ClusterIP not set. Service type: LoadBalancer",
            ),
            (
                json!({ "spec": { "clusterIP": "10.0.0.1" } }),
                Current,
                "Service is ready",
            ),
            (
                json!({ "spec": { "type": "ClusterIP" } }),
                Current,
                "Service is ready",
            ),
        ],
    );
}

#[test]
fn a_crd_is_current_when_it_is_established() {
    let crd = json!({ "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition" });
    check(
        &crd,
        &[
            (json!({}), InProgress, "Install in progress"),
            (
                with_conditions(&[because("Established", "False", "Installing", "soon")]),
                InProgress,
                "Install in progress",
            ),
            (
                with_conditions(&[because("Established", "False", "NotAccepted", "no")]),
                Failed,
                "no",
            ),
            (
                with_conditions(&[
                    because("NamesAccepted", "False", "Conflict", "taken"),
                    condition("Established", "True"),
                ]),
                Failed,
                "taken",
            ),
            (
                with_conditions(&[
                    condition("NamesAccepted", "True"),
                    condition("Established", "True"),
                ]),
                Current,
                "CRD is established",
            ),
        ],
    );
}

#[test]
fn other_kinds_have_the_condition_ready_or_nothing() {
    check(
        &json!({ "apiVersion": "example.com/v1", "kind": "Widget" }),
        &[
            (json!({}), Current, "Resource is current"),
            (
                with_conditions(&[because("Ready", "True", "", "m")]),
                Current,
                "Resource is Ready",
            ),
            (
                with_conditions(&[because("Ready", "False", "", "m")]),
                InProgress,
                "m",
            ),
            (
                with_conditions(&[because("Ready", "Unknown", "", "m")]),
                InProgress,
                "m",
            ),
            (
                with_conditions(&[because("Ready", "", "", "m")]),
                Current,
                "Resource is current",
            ),
        ],
    );
    for (api_version, kind) in [
        ("v1", "Secret"),
        ("batch/v1", "CronJob"),
        ("policy/v1", "PodDisruptionBudget"),
    ] {
        let mut object = with_conditions(&[because("Ready", "False", "", "m")]);
        object["apiVersion"] = api_version.into();
        object["kind"] = kind.into();
        assert_eq!(
            assessed(&object),
            (Current, "Resource is always ready".to_owned()),
            "{kind}"
        );
    }
}
