//! Tests of the status of a BundleDeployment.

use std::collections::BTreeMap;

use helmops_api::BundleDeployment;
use helmops_model::deployment_state::{self, DeploymentState};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{
    dependencies::{PendingDependency, Unmet},
    drift::{Change, Drift, ObjectDrift},
    fixture,
    gate::Held,
    health::Health,
    history::{Chart, History, Revision},
    object::ObjectId,
    record::Status,
    state::{ForeignOwner, Pending},
};

const T1: &str = "2026-01-01T00:00:01Z";
const T2: &str = "2026-01-01T00:00:02Z";

fn spec() -> BundleDeploymentSpec {
    serde_json::from_value(json!({ "deploymentID": ":a", "stagedDeploymentID": ":a" })).unwrap()
}

fn status(value: &Value) -> BundleDeploymentStatus {
    serde_json::from_value(value.clone()).unwrap()
}

fn step(
    previous: &BundleDeploymentStatus,
    spec: &BundleDeploymentSpec,
    outcome: &DeployOutcome,
    observation: &Observation,
    now: &str,
) -> BundleDeploymentStatus {
    let inputs = Inputs {
        previous,
        spec,
        outcome,
        observation,
        progress: &Progress::default(),
    };
    next(inputs, now.parse().unwrap())
}

fn deployed() -> DeployOutcome {
    DeployOutcome::Deployed {
        release: "shop/web:1".to_owned(),
    }
}

fn failed(error: &str) -> DeployOutcome {
    DeployOutcome::Failed {
        error: error.to_owned(),
    }
}

fn captured(error: &str) -> DeployOutcome {
    DeployOutcome::Captured {
        error: error.to_owned(),
    }
}

fn id(api_version: &str, kind: &str, name: &str) -> ObjectId {
    ObjectId {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        namespace: "shop".to_owned(),
        name: name.to_owned(),
    }
}

fn object(id: ObjectId) -> ObservedObject {
    let live = json!({ "metadata": { "uid": format!("uid-{}", id.name), "creationTimestamp": T1 } });
    ObservedObject::new(
        id,
        &live,
        Health {
            state: "active".to_owned(),
            ..Health::default()
        },
    )
}

fn config_map(name: &str) -> ObservedObject {
    object(id("v1", "ConfigMap", name))
}

fn progressing(mut object: ObservedObject) -> ObservedObject {
    object.health = Health {
        state: "in-progress".to_owned(),
        transitioning: true,
        messages: vec!["Replicas: 0/1".to_owned()],
        ..Health::default()
    };
    object
}

fn modified(id: ObjectId) -> ObjectDrift {
    let drift = Drift {
        patch: r#"{"data":{"key":"a"}}"#.to_owned(),
    };
    ObjectDrift {
        id,
        change: Change::Modified(drift),
    }
}

fn missing(id: ObjectId, exists: bool) -> ObjectDrift {
    ObjectDrift {
        id,
        change: Change::Missing { exists },
    }
}

fn extra(id: ObjectId) -> ObjectDrift {
    ObjectDrift {
        id,
        change: Change::Extra,
    }
}

fn objects(objects: Vec<ObservedObject>, drift: Vec<ObjectDrift>) -> Observation {
    Observation::Objects(ReleaseObjects {
        objects,
        drift,
        correction_error: None,
    })
}

/// Each condition in a line: type, status, and message, with the reason if it is not the usual one.
fn conditions(status: &BundleDeploymentStatus) -> Vec<String> {
    status
        .conditions
        .iter()
        .map(|condition| {
            let reason = match &*condition.status {
                "False" if condition.message.starts_with("waiting for dependent") => "WaitingForDependency",
                "False" => "Error",
                _ => "",
            };
            assert_eq!(condition.reason, reason, "{condition:?}");
            assert_eq!(condition.last_transition_time, "", "{condition:?}");
            format!("{} {} {}", condition.r#type, condition.status, condition.message)
                .trim_end()
                .to_owned()
        })
        .collect()
}

fn good() -> BundleDeploymentStatus {
    let observation = objects(vec![config_map("a")], vec![]);
    step(
        &BundleDeploymentStatus::default(),
        &spec(),
        &deployed(),
        &observation,
        T1,
    )
}

fn counts(status: &BundleDeploymentStatus) -> Value {
    let counts = serde_json::to_value(&status.resource_counts).unwrap();
    assert!(
        counts.is_null() || counts.as_object().unwrap().len() == 8,
        "{counts}"
    );
    let counts = counts.as_object().cloned().unwrap_or_default();
    counts.into_iter().filter(|(_, count)| *count != 0).collect()
}

/// A controller that halts a rollout must not take the failure of an earlier deployment for one of this.
#[test]
fn the_deployment_that_failed_is_named() {
    let (mut spec, mut status) = (BundleDeploymentSpec::default(), BundleDeploymentStatus::default());
    for (id, outcome, expected) in [
        (
            ":1",
            DeployOutcome::Failed {
                error: "e".to_owned(),
            },
            ":1",
        ),
        (":1", DeployOutcome::Unchanged, ":1"),
        // It is being deployed.
        (":2", DeployOutcome::Unchanged, ":1"),
        (
            ":2",
            DeployOutcome::Captured {
                error: "e".to_owned(),
            },
            ":2",
        ),
        (
            ":3",
            DeployOutcome::Deployed {
                release: "a/b:1".to_owned(),
            },
            "",
        ),
    ] {
        id.clone_into(&mut spec.deployment_id);
        let inputs = Inputs {
            previous: &status,
            spec: &spec,
            outcome: &outcome,
            observation: &Observation::None,
            progress: &Progress::default(),
        };
        let next = next(inputs, Timestamp::UNIX_EPOCH);
        assert_eq!(next.failed_deployment_id, expected, "{outcome:?}");
        status = next;
    }
    let inputs = Inputs {
        previous: &status,
        spec: &spec,
        outcome: &failed("the repository is away"),
        observation: &Observation::None,
        progress: &Progress {
            without_attempt: true,
            ..Progress::default()
        },
    };
    assert_eq!(next(inputs, Timestamp::UNIX_EPOCH).failed_deployment_id, "");
}

#[test]
fn a_good_deployment_has_every_field() {
    let condition = |r#type: &str| json!({ "type": r#type, "status": "True", "lastUpdateTime": T1 });
    assert_eq!(
        serde_json::to_value(good()).unwrap(),
        json!({
            "appliedDeploymentID": ":a",
            "conditions": [condition("Installed"), condition("Deployed"), condition("Ready"), condition("Monitored")],
            "nonModified": true,
            "ready": true,
            "release": "shop/web:1",
            "resourceCounts": { "ready": 1, "desiredReady": 1, "waitApplied": 0, "modified": 0, "orphaned": 0, "missing": 0, "unknown": 0, "notReady": 0 },
            "resources": [{ "apiVersion": "v1", "createdAt": T1, "kind": "ConfigMap", "name": "a", "namespace": "shop" }],
            "syncGeneration": 0
        })
    );
}

#[test]
fn an_object_that_is_not_ready_is_listed_and_counted() {
    let deployment = progressing(object(id("apps/v1", "Deployment", "web")));
    let next = step(
        &good(),
        &spec(),
        &deployed(),
        &objects(vec![config_map("a"), deployment], vec![]),
        T2,
    );
    assert!(!next.ready && next.non_modified);
    assert_eq!(
        counts(&next),
        json!({ "ready": 1, "notReady": 1, "desiredReady": 2 })
    );
    assert_eq!(
        conditions(&next)[2],
        "Ready False deployment.apps shop/web [progressing] Replicas: 0/1"
    );
    assert_eq!(
        serde_json::to_value(&next.non_ready_status).unwrap(),
        json!([{
            "uid": "uid-web", "apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web",
            "summary": { "state": "in-progress", "transitioning": true, "message": ["Replicas: 0/1"] }
        }])
    );
    let back = step(
        &next,
        &spec(),
        &deployed(),
        &objects(vec![config_map("a")], vec![]),
        T2,
    );
    assert_eq!((back.non_ready_status.len(), back.ready), (0, true));
    assert_eq!(conditions(&back)[2], "Ready True");
}

#[test]
fn a_condition_names_the_kind_of_the_problem() {
    let summary = |transitioning, error, messages: &[&str]| Health {
        state: "odd".to_owned(),
        transitioning,
        error,
        messages: messages.iter().map(|message| (*message).to_owned()).collect(),
        recheck: None,
    };
    for (health, expected) in [
        (
            summary(true, false, &["m", "n"]),
            "Ready False configmap.v1 shop/a [progressing] m, n",
        ),
        (
            summary(true, true, &["m"]),
            "Ready False configmap.v1 shop/a [progressing,error] m",
        ),
        (
            summary(false, true, &["m"]),
            "Ready False configmap.v1 shop/a [error] m",
        ),
        (
            summary(false, true, &[]),
            "Ready False configmap.v1 shop/a [error]",
        ),
    ] {
        let object = ObservedObject {
            health,
            ..config_map("a")
        };
        let next = step(&good(), &spec(), &deployed(), &objects(vec![object], vec![]), T2);
        assert_eq!(conditions(&next)[2], expected);
    }
}

#[test]
fn drift_is_listed_and_counted() {
    let a = || id("v1", "ConfigMap", "a");
    for (drift, live, ready, expected_counts, expected) in [
        (
            modified(a()),
            vec![config_map("a")],
            true,
            json!({ "modified": 1, "desiredReady": 1 }),
            r#"configmap.v1 shop/a modified {"data":{"key":"a"}}"#,
        ),
        (
            missing(a(), false),
            vec![],
            true,
            json!({ "missing": 1, "desiredReady": 1 }),
            "configmap.v1 shop/a missing",
        ),
        (
            missing(a(), true),
            vec![],
            true,
            json!({ "missing": 1, "desiredReady": 1 }),
            "configmap.v1 shop/a is not owned by us",
        ),
        (
            extra(id("v1", "ConfigMap", "b")),
            vec![config_map("a")],
            true,
            json!({ "orphaned": 1, "ready": 1, "desiredReady": 1 }),
            "configmap.v1 shop/b extra",
        ),
        // Not ready and changed: counted once, and the first is the reason.
        (
            modified(a()),
            vec![progressing(config_map("a"))],
            false,
            json!({ "modified": 1, "desiredReady": 1 }),
            "configmap.v1 shop/a [progressing] Replicas: 0/1",
        ),
    ] {
        let next = step(&good(), &spec(), &deployed(), &objects(live, vec![drift]), T2);
        assert_eq!((next.ready, next.non_modified), (ready, false), "{expected}");
        assert_eq!(counts(&next), expected_counts, "{expected}");
        assert_eq!(conditions(&next)[2], format!("Ready False {expected}"));
        assert_eq!(next.modified_status.len(), 1);
    }
}

#[test]
fn a_correction_that_failed_is_the_reason() {
    let release = ReleaseObjects {
        objects: vec![config_map("a")],
        drift: vec![modified(id("v1", "ConfigMap", "a"))],
        correction_error: Some("Service \"a\" is invalid: spec.clusterIP: field is immutable".to_owned()),
    };
    let next = step(&good(), &spec(), &deployed(), &Observation::Objects(release), T2);
    assert_eq!(
        conditions(&next)[2],
        "Ready False Service \"a\" is invalid: spec.clusterIP: field is immutable"
    );
    assert_eq!((next.ready, next.non_modified), (true, false));
}

fn waiting_for(names: &[&str]) -> Blocked {
    let pending = names.iter().map(|name| PendingDependency {
        name: (*name).to_owned(),
        state: DeploymentState::NotReady,
        accepted: vec!["Ready".to_owned()],
    });
    Blocked::from(Unmet::NotReady {
        pending: pending.collect(),
    })
}

#[test]
fn each_outcome_has_its_conditions() {
    let first = ["Installed True", "Deployed True", "Ready True", "Monitored True"];
    let conflict = DeployOutcome::Conflict(Conflict {
        object: "configmap.v1 shop/web".to_owned(),
        fields: vec![ConflictingField {
            path: ".data.key".to_owned(),
            manager: "kubectl-edit".to_owned(),
        }],
        error: "Apply failed".to_owned(),
    });
    let forbidden = DeployOutcome::NamespaceForbidden {
        release: "shop/web:1".to_owned(),
        error: Blocked::namespace_forbidden("get", "shop", "no"),
    };
    let not_allowed = "the deployment's service account is not allowed to get namespace \"shop\"; grant it 'get' on this namespace \
                       (scoped via resourceNames) or remove namespaceLabels/namespaceAnnotations: no";
    for (outcome, expected) in [
        (deployed(), first.map(str::to_owned).to_vec()),
        (
            captured("bad chart"),
            vec![
                "Ready False not ready: bad chart".to_owned(),
                "Installed False not installed: bad chart".to_owned(),
                "Deployed True".to_owned(),
            ],
        ),
        (
            forbidden,
            vec![
                format!("Ready False not ready: {not_allowed}"),
                format!("Installed False not installed: {not_allowed}"),
                "Deployed True".to_owned(),
            ],
        ),
        (
            conflict,
            vec!["Deployed False conflict on configmap.v1 shop/web: .data.key is owned by \"kubectl-edit\"; remove the field from the \
                  chart's values, make the other manager give it up, or set lifecycle.drift.mode to enabled, which overwrites it"
                .to_owned()],
        ),
        (failed("no such host"), vec!["Deployed False no such host".to_owned()]),
        (DeployOutcome::Held(Held::Paused), vec![]),
        (DeployOutcome::Held(Held::OffSchedule), vec![]),
        (DeployOutcome::Held(Held::WaitingForValues), vec![]),
        (DeployOutcome::Held(Held::NotPromoted), vec![]),
    ] {
        let next = step(
            &BundleDeploymentStatus::default(),
            &spec(),
            &outcome,
            &objects(vec![config_map("a")], vec![]),
            T1,
        );
        assert_eq!(conditions(&next), expected, "{outcome:?}");
    }
}

#[test]
fn what_a_deployment_lacks_is_reported_in_the_words_of_fleet() {
    let text = |blocked: Blocked| {
        let outcome = DeployOutcome::Blocked(blocked);
        conditions(&step(
            &BundleDeploymentStatus::default(),
            &spec(),
            &outcome,
            &Observation::None,
            T1,
        ))
        .concat()
    };
    let namespace = || "shop".to_owned();
    for (blocked, expected) in [
        (
            waiting_for(&["a", "b"]),
            "waiting for dependent bundle(s) to reach an accepted state: a (state: NotReady, accepted: Ready); \
             b (state: NotReady, accepted: Ready)",
        ),
        (
            Blocked::Busy(Pending {
                revision: 3,
                status: Status::PendingUpgrade,
            }),
            "another Helm operation is in progress: revision 3 is pending-upgrade. If none is running, delete the Secret of this \
             revision, or run helm rollback",
        ),
        (
            Blocked::Foreign(ForeignOwner::Unmanaged),
            "the release exists and was not deployed by this agent; set helm.takeOwnership to take it over, or choose another \
             helm.releaseName",
        ),
        (
            Blocked::Foreign(ForeignOwner::BundleDeployment("other".to_owned())),
            "the release belongs to BundleDeployment other; choose another helm.releaseName",
        ),
        (
            Blocked::ValuesMissing {
                secret: "web".to_owned(),
            },
            "secrets \"web\" not found: it has the Helm values, and the controller writes it next to the BundleDeployment",
        ),
        (
            Blocked::ValuesChanged {
                actual: "x".to_owned(),
                expected: "y".to_owned(),
            },
            "retrying, hash mismatch between secret and bundledeployment: actual x != expected y",
        ),
        (
            Blocked::CopyMissing {
                kind: "Secret".to_owned(),
                namespace: "cluster-a".to_owned(),
                name: "s".to_owned(),
            },
            "downstreamResources: Secret cluster-a/s not found in the management cluster",
        ),
        (
            Blocked::CopyUnsupported {
                kind: "Pod".to_owned(),
            },
            "unknown resource type for copy to downstream cluster: \"Pod\"",
        ),
        (
            Blocked::NamespaceMissing {
                namespace: namespace(),
            },
            "target namespace shop does not exist on downstream cluster",
        ),
        (
            Blocked::NamespaceNotAllowed {
                namespace: namespace(),
                selector: "team=a".to_owned(),
                labels: BTreeMap::from([("b".to_owned(), "2".to_owned()), ("a".to_owned(), "1".to_owned())]),
            },
            "target namespace shop does not match AllowedTargetNamespaceSelector (team=a); namespace labels map[a:1 b:2]",
        ),
        (
            Blocked::NamespaceUnknown {
                namespace: namespace(),
                error: "e".to_owned(),
            },
            "failed to get target namespace shop: e",
        ),
        (
            Blocked::InvalidNamespaceSelector {
                error: "e".to_owned(),
            },
            "invalid AllowedTargetNamespaceSelector: e",
        ),
    ] {
        assert_eq!(text(blocked), format!("Deployed False {expected}"));
    }
}

#[test]
fn a_conflict_without_fields_shows_the_error() {
    let conflict = Conflict {
        object: "configmap.v1 shop/web".to_owned(),
        fields: vec![],
        error: "exists".to_owned(),
    };
    assert_eq!(conflict.to_string(), "conflict on configmap.v1 shop/web: exists");
}

#[test]
fn a_captured_failure_is_final_and_clears_what_was_reported() {
    let drifted = step(
        &good(),
        &spec(),
        &deployed(),
        &objects(
            vec![progressing(config_map("a"))],
            vec![modified(id("v1", "ConfigMap", "a"))],
        ),
        T1,
    );
    let changed = BundleDeploymentSpec {
        deployment_id: ":b".to_owned(),
        ..spec()
    };
    let observation = objects(vec![config_map("x")], vec![]);
    let next = step(&drifted, &changed, &captured("bad"), &observation, T2);
    assert_eq!((&*next.applied_deployment_id, &*next.release), (":b", ""));
    assert_eq!((next.ready, next.non_modified), (false, true));
    assert_eq!((next.non_ready_status.len(), next.modified_status.len()), (0, 0));
    assert_eq!(
        (&next.resources, &next.resource_counts),
        (&drifted.resources, &drifted.resource_counts)
    );
    assert_eq!(
        conditions(&next),
        [
            "Installed False not installed: bad",
            "Deployed True",
            "Ready False not ready: bad",
            "Monitored True"
        ]
    );
    // The next reconciliations do not deploy, and change nothing.
    let still = step(
        &next,
        &changed,
        &DeployOutcome::Unchanged,
        &observation,
        "2026-01-01T00:00:03Z",
    );
    assert_eq!(changed_of(&next, &still), None);
    // Another deployment ID clears it.
    let repaired = step(
        &still,
        &spec(),
        &deployed(),
        &objects(vec![config_map("a")], vec![]),
        T2,
    );
    assert_eq!(
        conditions(&repaired),
        ["Installed True", "Deployed True", "Ready True", "Monitored True"]
    );
}

fn changed_of(previous: &BundleDeploymentStatus, new: &BundleDeploymentStatus) -> Option<Value> {
    helmops_api::merge_patch::change(previous, new).map(|patch| json!({ "status": patch }))
}

#[test]
fn a_failed_upgrade_keeps_the_state_of_the_previous_release() {
    let new = BundleDeploymentSpec {
        deployment_id: ":b".to_owned(),
        ..spec()
    };
    for (outcome, failed_id) in [
        (failed("template error"), ":b"),
        (DeployOutcome::Blocked(waiting_for(&["a"])), ""),
    ] {
        let next = step(
            &good(),
            &new,
            &outcome,
            &objects(vec![progressing(config_map("x"))], vec![]),
            T2,
        );
        let mut expected = good();
        expected.conditions[1] = next.conditions[1].clone();
        failed_id.clone_into(&mut expected.failed_deployment_id);
        assert_eq!(next, expected, "nothing else changes");
        assert_eq!(next.conditions[1].status, "False");
    }
    // With the same ID the objects are those of the spec, so they are monitored.
    let next = step(
        &good(),
        &spec(),
        &failed("e"),
        &objects(vec![progressing(config_map("x"))], vec![]),
        T2,
    );
    assert!(!next.ready);
}

#[test]
fn a_hold_changes_nothing() {
    let mut spec = spec();
    spec.deployment_id = ":b".to_owned();
    spec.downstream_resources_generation = 3;
    for hold in [
        Held::Paused,
        Held::OffSchedule,
        Held::WaitingForValues,
        Held::NotPromoted,
    ] {
        let next = step(
            &good(),
            &spec,
            &DeployOutcome::Held(hold),
            &objects(vec![], vec![]),
            T2,
        );
        assert_eq!(next, good());
    }
}

/// The agent was killed while Helm ran, or the window ended: no Helm runs while it is held.
#[test]
fn nothing_is_shown_as_being_deployed_during_a_hold() {
    let mut before = good();
    outcome::awaited(&mut before, "Helm has been deploying it since then", T1);
    let next = step(
        &before,
        &spec(),
        &DeployOutcome::Held(Held::OffSchedule),
        &objects(vec![], vec![]),
        T2,
    );
    let deployed = next
        .conditions
        .iter()
        .find(|one| one.r#type == "Deployed")
        .unwrap();
    let shown = (&*deployed.status, &*deployed.reason, &*deployed.message);
    let expected = "waiting: no Schedule of the cluster has a window now";
    assert_eq!(shown, ("Unknown", "Progressing", expected));
    let failed = step(&good(), &spec(), &failed("e"), &objects(vec![], vec![]), T1);
    let held = DeployOutcome::Held(Held::Paused);
    let next = step(&failed, &spec(), &held, &objects(vec![], vec![]), T2);
    assert_eq!(next, failed, "the result of an attempt stays");
}

#[test]
fn a_failed_monitor_keeps_the_state_and_says_so() {
    let error = |is_lasting| Observation::Failed {
        error: "could not read configmap.v1 shop/web".to_owned(),
        is_lasting,
    };
    let next = step(&good(), &spec(), &deployed(), &error(false), T2);
    let monitored = "Monitored False could not read configmap.v1 shop/web";
    assert_eq!(conditions(&next)[3], monitored);
    assert_eq!((next.ready, next.resources), (true, good().resources));
    let next = step(&good(), &spec(), &deployed(), &error(true), T2);
    assert_eq!(
        conditions(&next)[2..],
        [
            "Ready False the state of the objects is not known: could not read configmap.v1 shop/web",
            monitored
        ]
    );
    assert!(!next.ready);
    // What is not observed again stays unknown, and the next observation is the truth.
    assert!(!step(&next, &spec(), &deployed(), &error(false), T2).ready);
    let observed = objects(vec![config_map("a")], vec![]);
    assert!(step(&next, &spec(), &deployed(), &observed, T2).ready);
    let next = step(&good(), &spec(), &deployed(), &Observation::None, T2);
    assert_eq!(next, good());
}

#[test]
fn generations_follow_the_spec() {
    let mut spec = spec();
    std::sync::Arc::make_mut(&mut spec.options).force_sync_generation = 4;
    spec.downstream_resources_generation = 2;
    let next = step(&good(), &spec, &deployed(), &objects(vec![], vec![]), T2);
    assert_eq!(
        (next.sync_generation, next.downstream_resources_generation),
        (Some(4), 2)
    );
    let copies_failed = Inputs {
        previous: &good(),
        spec: &spec,
        outcome: &failed("e"),
        observation: &Observation::None,
        progress: &Progress::default(),
    };
    let next = super::next(copies_failed, T2.parse().unwrap());
    assert_eq!(
        (next.sync_generation, next.downstream_resources_generation),
        (Some(0), 0)
    );
}

#[test]
fn times_change_only_with_the_condition() {
    let deployment = || objects(vec![progressing(config_map("a"))], vec![]);
    let first = step(&good(), &spec(), &deployed(), &deployment(), T2);
    let times: Vec<_> = first
        .conditions
        .iter()
        .map(|condition| &*condition.last_update_time)
        .collect();
    assert_eq!(times, [T1, T1, T2, T1]);
    let second = step(
        &first,
        &spec(),
        &deployed(),
        &deployment(),
        "2026-01-01T00:00:03Z",
    );
    assert_eq!(changed_of(&first, &second), None);
}

#[test]
fn fields_and_conditions_of_others_stay() {
    let previous = status(&json!({
        "display": { "state": "Ready" },
        "conditions": [{ "type": "Other", "status": "Unknown", "reason": "R", "newer": 1 }, { "type": "Ready", "status": "Unknown", "newer": 2 }]
    }));
    let next = step(&previous, &spec(), &deployed(), &objects(vec![], vec![]), T1);
    let encoded = serde_json::to_value(&next).unwrap();
    assert_eq!(encoded["display"]["state"], "Ready");
    assert_eq!(
        encoded["conditions"][0],
        json!({ "type": "Other", "status": "Unknown", "reason": "R", "newer": 1 })
    );
    assert_eq!(
        (
            &encoded["conditions"][1]["status"],
            &encoded["conditions"][1]["newer"]
        ),
        (&json!("True"), &json!(2))
    );
}

#[test]
fn lists_are_sorted_and_truncated_each_time() {
    let many: Vec<_> = (0..12)
        .rev()
        .map(|n| progressing(config_map(&format!("{n:02}"))))
        .collect();
    let drift: Vec<_> = (0..12)
        .rev()
        .map(|n| modified(id("v1", "ConfigMap", &format!("{n:02}"))))
        .collect();
    let next = step(&good(), &spec(), &deployed(), &objects(many.clone(), drift), T2);
    let uids: Vec<_> = next.non_ready_status.iter().map(|object| &*object.uid).collect();
    let names: Vec<_> = next.modified_status.iter().map(|object| &*object.name).collect();
    let expected = ["00", "01", "02", "03", "04", "05", "06", "07", "08", "09"];
    assert_eq!(
        (names, uids),
        (
            expected.to_vec(),
            expected
                .map(|n| format!("uid-{n}"))
                .iter()
                .map(|n| &**n)
                .collect()
        )
    );
    assert!(next.incomplete_state);
    assert_eq!(
        counts(&next),
        json!({ "modified": 12, "desiredReady": 12 }),
        "counts are of all"
    );
    // Ten are complete, also after more.
    let ten = step(
        &next,
        &spec(),
        &deployed(),
        &objects(many[2..].to_vec(), vec![]),
        T2,
    );
    assert_eq!((ten.non_ready_status.len(), ten.incomplete_state), (10, false));
}

#[test]
fn modified_objects_are_sorted_by_version_kind_namespace_and_name() {
    let drift = vec![
        missing(id("v1", "Secret", "a"), false),
        extra(id("v1", "ConfigMap", "b")),
        modified(id("apps/v1", "Deployment", "c")),
        modified(id("v1", "ConfigMap", "a")),
    ];
    let next = step(&good(), &spec(), &deployed(), &objects(vec![], drift), T2);
    let names: Vec<_> = next.modified_status.iter().map(ToString::to_string).collect();
    assert!(names[0].starts_with("deployment.apps shop/c "), "{names:?}");
    assert!(names[1].starts_with("configmap.v1 shop/a "), "{names:?}");
    assert_eq!(
        names[2..],
        ["configmap.v1 shop/b extra", "secret.v1 shop/a missing"]
    );
}

#[test]
fn an_object_can_be_missing_in_one_version_and_extra_in_another() {
    let drift = vec![
        missing(id("example.com/v2", "W", "w"), false),
        extra(id("example.com/v1", "W", "w")),
    ];
    let next = step(&good(), &spec(), &deployed(), &objects(vec![], drift), T2);
    assert_eq!(
        counts(&next),
        json!({ "missing": 1, "orphaned": 1, "desiredReady": 1 })
    );
}

#[test]
fn resources_are_listed_by_kind_in_the_order_of_the_manifest() {
    let mut first = config_map("c");
    first.id.namespace = "a".to_owned();
    let mut cluster_scoped = config_map("d");
    cluster_scoped.id.namespace = String::new();
    let all = vec![
        config_map("b"),
        object(id("v1", "Service", "z")),
        object(id("apps/v1", "Deployment", "a")),
        config_map("a"),
        cluster_scoped,
        first,
    ];
    let next = step(&good(), &spec(), &deployed(), &objects(all, vec![]), T2);
    let names: Vec<_> = next
        .resources
        .iter()
        .map(|object| format!("{} {}", object.kind, object.name))
        .collect();
    assert_eq!(
        names,
        [
            "ConfigMap c",
            "ConfigMap d",
            "ConfigMap a",
            "ConfigMap b",
            "Service z",
            "Deployment a"
        ]
    );
}

#[test]
fn a_large_release_lists_its_problems_first() {
    let mut all: Vec<_> = (0..MAX_RESOURCES + 500)
        .map(|n| config_map(&format!("{n:04}")))
        .collect();
    let last = all.len() - 1;
    all[last] = progressing(all[last].clone());
    let drift = vec![modified(all[last - 1].id.clone())];
    let next = step(&good(), &spec(), &deployed(), &objects(all.clone(), drift), T2);
    assert_eq!(
        (next.resources.len(), next.incomplete_state),
        (MAX_RESOURCES, true)
    );
    let names: Vec<_> = next.resources.iter().map(|object| &*object.name).collect();
    assert_eq!(
        (names[0], names[997], names[998], names[999]),
        ("0000", "0997", "1498", "1499")
    );
    assert_eq!(
        counts(&next),
        json!({ "ready": 1498, "notReady": 1, "modified": 1, "desiredReady": 1500 })
    );
    let unready: Vec<_> = all.into_iter().map(progressing).collect();
    let next = step(&good(), &spec(), &deployed(), &objects(unready, vec![]), T2);
    assert_eq!(next.resources.len(), MAX_RESOURCES);
}

#[test]
fn a_takeover_from_fleet_writes_nothing() {
    let conditions = ["Installed", "Deployed", "Ready", "Monitored"]
        .map(|r#type| json!({ "type": r#type, "status": "True", "lastUpdateTime": "2025-01-01T00:00:00Z" }));
    let previous = status(&json!({
        "appliedDeploymentID": ":a",
        "conditions": conditions,
        "nonModified": true,
        "ready": true,
        "release": "shop/web:1",
        // Zeros are there or not, depending on the patches that were sent.
        "resourceCounts": { "ready": 1, "desiredReady": 1, "modified": 0 },
        "resources": [{ "apiVersion": "v1", "createdAt": T1, "kind": "ConfigMap", "name": "a", "namespace": "shop" }],
        "syncGeneration": 0
    }));
    let next = step(
        &previous,
        &spec(),
        &deployed(),
        &objects(vec![config_map("a")], vec![]),
        T2,
    );
    assert_eq!(changed_of(&previous, &next), None);
}

#[test]
fn a_patch_has_only_what_changes_in_the_status() {
    let next = step(
        &good(),
        &spec(),
        &deployed(),
        &objects(vec![], vec![missing(id("v1", "ConfigMap", "a"), false)]),
        T2,
    );
    let patch = changed_of(&good(), &next).unwrap();
    let ready = json!({
        "type": "Ready", "status": "False", "reason": "Error", "message": "configmap.v1 shop/a missing", "lastUpdateTime": T2
    });
    let condition = |r#type: &str| json!({ "type": r#type, "status": "True", "lastUpdateTime": T1 });
    assert_eq!(
        patch,
        json!({ "status": {
            "conditions": [condition("Installed"), condition("Deployed"), ready, condition("Monitored")],
            "modifiedStatus": [{ "apiVersion": "v1", "kind": "ConfigMap", "namespace": "shop", "name": "a", "missing": true }],
            "nonModified": null,
            "resourceCounts": { "missing": 1, "ready": 0 },
            "resources": null
        } })
    );
    let mut object = json!({ "status": good(), "spec": {} });
    json_patch::merge(&mut object, &patch);
    assert_eq!(object["status"], serde_json::to_value(&next).unwrap());
}

#[test]
fn messages_are_bounded() {
    let next = step(
        &good(),
        &spec(),
        &failed(&"e".repeat(100_000)),
        &Observation::None,
        T2,
    );
    assert!(next.conditions[1].message.len() <= MAX_MESSAGE);
}

mod the_state_that_the_controller_derives {
    use DeploymentState::{ErrApplied, Modified, NotReady, Ready, WaitApplied, WaitingForDependency};

    use super::*;

    /// The state after one step to the deployment ID.
    fn state(
        previous: &BundleDeploymentStatus,
        id: &str,
        outcome: &DeployOutcome,
        observation: &Observation,
    ) -> DeploymentState {
        let mut spec = spec();
        id.clone_into(&mut spec.deployment_id);
        id.clone_into(&mut spec.staged_deployment_id);
        let status = step(previous, &spec, outcome, observation, T2);
        DeploymentState::of(&BundleDeployment {
            status,
            spec,
            ..BundleDeployment::default()
        })
    }

    fn ready() -> Observation {
        objects(vec![config_map("a")], vec![])
    }

    #[test]
    fn follows_from_the_objects() {
        let drift = || vec![modified(id("v1", "ConfigMap", "a"))];
        let unready = || vec![progressing(config_map("a"))];
        for (observation, expected) in [
            (ready(), Ready),
            (objects(unready(), vec![]), NotReady),
            (objects(vec![config_map("a")], drift()), Modified),
            (objects(unready(), drift()), NotReady),
        ] {
            for previous in [BundleDeploymentStatus::default(), good()] {
                assert_eq!(
                    state(&previous, ":a", &deployed(), &observation),
                    expected,
                    "{observation:?}"
                );
            }
        }
    }

    #[test]
    fn follows_from_the_outcome() {
        let conflict = DeployOutcome::Conflict(Conflict {
            object: "o".to_owned(),
            fields: vec![],
            error: "e".to_owned(),
        });
        let blocked = |blocked| DeployOutcome::Blocked(blocked);
        let missing = Blocked::from(Unmet::NoMatch {
            index: 0,
            entry: "name d".to_owned(),
        });
        let forbidden = DeployOutcome::NamespaceForbidden {
            release: "shop/web:1".to_owned(),
            error: "e".to_owned(),
        };
        for (outcome, expected) in [
            (deployed(), Ready),
            (failed("e"), ErrApplied),
            (conflict, ErrApplied),
            (blocked(waiting_for(&["d"])), WaitingForDependency),
            (blocked(missing), ErrApplied),
            (captured("e"), NotReady),
            (forbidden, NotReady),
            (DeployOutcome::Held(Held::Paused), WaitApplied),
        ] {
            for previous in [BundleDeploymentStatus::default(), good()] {
                assert_eq!(
                    state(&previous, ":b", &outcome, &ready()),
                    expected,
                    "{outcome:?}"
                );
            }
        }
    }

    /// Such as with other values of references, or because of a request.
    #[test]
    fn follows_from_another_attempt_to_deploy_what_is_applied() {
        for (outcome, expected) in [
            (deployed(), Ready),
            (failed("e"), ErrApplied),
            (DeployOutcome::Held(Held::Suspended), Ready),
        ] {
            assert_eq!(state(&good(), ":a", &outcome, &ready()), expected, "{outcome:?}");
        }
        let failed = step(&good(), &spec(), &failed("e"), &ready(), T1);
        for previous in [good(), failed] {
            let progress = Progress {
                waiting: Some("Deployment web".to_owned()),
                ..Progress::default()
            };
            let inputs = Inputs {
                previous: &previous,
                spec: &spec(),
                outcome: &DeployOutcome::Unchanged,
                observation: &Observation::None,
                progress: &progress,
            };
            let waiting = BundleDeployment {
                status: next(inputs, T2.parse().unwrap()),
                spec: spec(),
                ..BundleDeployment::default()
            };
            assert_eq!(DeploymentState::of(&waiting), WaitApplied);
            assert_eq!(deployment_state::message(&waiting), "waiting: Deployment web");
            assert_eq!(state(&waiting.status, ":a", &deployed(), &ready()), Ready);
        }
    }
}

fn outcome() -> impl Strategy<Value = DeployOutcome> {
    prop_oneof![
        Just(deployed()),
        Just(captured("bad")),
        Just(failed("e")),
        Just(DeployOutcome::Held(Held::Paused)),
        Just(DeployOutcome::NamespaceForbidden {
            release: "shop/web:2".to_owned(),
            error: "e".to_owned()
        }),
        Just(DeployOutcome::Blocked(Blocked::CopyUnsupported {
            kind: "Pod".to_owned()
        })),
    ]
}

fn observation() -> impl Strategy<Value = Observation> {
    let numbers = proptest::collection::vec((0_u8..30, 0_u8..5), 0..30);
    let observed = numbers.prop_map(|numbers| {
        let mut release = ReleaseObjects::default();
        let numbers: BTreeMap<_, _> = numbers.into_iter().collect();
        for (n, state) in numbers {
            let object = config_map(&n.to_string());
            let id = object.id.clone();
            match state {
                0 => release.objects.push(object),
                1 => release.objects.push(progressing(object)),
                2 => {
                    release.objects.push(object);
                    release.drift.push(modified(id));
                }
                3 => release.drift.push(missing(id, n % 2 == 0)),
                _ => release.drift.push(extra(id)),
            }
        }
        Observation::Objects(release)
    });
    prop_oneof![
        1 => Just(Observation::None),
        1 => any::<bool>().prop_map(|is_lasting| Observation::Failed { error: "e".to_owned(), is_lasting }),
        4 => observed,
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// What is reported again is not written again, and fields contradict each other in no order of events.
    #[test]
    fn a_status_is_stable_and_consistent(events in proptest::collection::vec((outcome(), observation(), any::<bool>()), 1..6)) {
        let mut status = BundleDeploymentStatus::default();
        for (outcome, observation, is_new) in events {
            let mut spec = spec();
            if is_new {
                spec.deployment_id = ":b".to_owned();
            }
            let next = step(&status, &spec, &outcome, &observation, T1);
            prop_assert_eq!(changed_of(&next, &step(&next, &spec, &outcome, &observation, T2)), None);
            prop_assert_eq!(next.ready && !next.non_ready_status.is_empty(), false);
            prop_assert_eq!(next.non_modified, next.modified_status.is_empty() && (next.non_modified));
            let counts = next.resource_counts.clone().unwrap_or_default();
            let sum: i64 = [counts.ready, counts.modified, counts.missing, counts.not_ready].into_iter().flatten().sum();
            prop_assert_eq!(sum, counts.desired_ready.unwrap_or_default());
            if !matches!(outcome, DeployOutcome::Held(_)) {
                prop_assert!(!next.conditions.is_empty(), "every outcome has a condition");
            }
            status = next;
        }
    }
}

/// The status of a captured failure has no release, as with Fleet's agent.
#[test]
fn after_a_captured_upgrade_it_is_known_what_runs() {
    let spec = spec();
    let running = Revision {
        chart: Chart {
            name: "web".to_owned(),
            version: "1.0.0".to_owned(),
            ..Chart::default()
        },
        ..fixture::revision(1, Status::Deployed, None)
    };
    let history = History::new(vec![running]);
    let error = "Job.batch \"migrate\" is invalid".to_owned();
    let shown = |outcome: &DeployOutcome, previous: &BundleDeploymentStatus| {
        let progress = Progress {
            history: Some(&history),
            ..Progress::default()
        };
        next(
            Inputs {
                previous,
                spec: &spec,
                outcome,
                observation: &Observation::None,
                progress: &progress,
            },
            T1.parse().unwrap(),
        )
    };
    let failed = shown(
        &DeployOutcome::Captured { error },
        &BundleDeploymentStatus::default(),
    );
    assert_eq!(failed.release, "");
    let installed = failed
        .conditions
        .iter()
        .find(|condition| condition.r#type == "Installed")
        .unwrap();
    assert_eq!(
        installed.message,
        "not installed: Job.batch \"migrate\" is invalid\nRevision 1 runs: chart web 1.0.0."
    );
    let again = shown(&DeployOutcome::Unchanged, &failed);
    let own = again.lifecycle.as_ref().unwrap();
    assert_eq!(
        (own.history[0].revision, &*own.history[0].outcome),
        (1, "deployed")
    );
    let repaired = shown(
        &DeployOutcome::Deployed {
            release: "shop/web:2".to_owned(),
        },
        &again,
    );
    assert_eq!(repaired.lifecycle, None);
}

/// Charts, hooks and objects of tenants have any text.
#[test]
fn a_status_has_no_control_characters() {
    const TEXT: &str = "\u{1b}]0;title\u{7}\u{1b}[2Jtext\u{9b}2J\u{202e}";
    let mut observed = object(id("v1", "Pod", "web"));
    observed.health.state = "error".to_owned();
    observed.health.error = true;
    observed.health.messages = vec![TEXT.to_owned()];
    let objects = Observation::Objects(ReleaseObjects {
        objects: vec![observed],
        ..ReleaseObjects::default()
    });
    let is_lasting = true;
    let unknown = Observation::Failed {
        error: TEXT.to_owned(),
        is_lasting,
    };
    let none = BundleDeploymentStatus::default();
    for (outcome, observation) in [
        (failed(TEXT), &Observation::None),
        (captured(TEXT), &Observation::None),
        (deployed(), &objects),
        (deployed(), &unknown),
    ] {
        let status = step(&none, &spec(), &outcome, observation, T1);
        let written = json!(status).to_string();
        assert!(written.contains("title"), "{written}");
        assert!(!written.contains(bounded_text::is_control), "{written}");
        assert!(!written.contains("\\u00"), "{written}");
    }
}
