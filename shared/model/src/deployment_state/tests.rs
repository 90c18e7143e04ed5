//! Tests of the state and message of a deployment.

use serde_json::{Value, json};

use super::*;

fn deployment(object: &Value) -> BundleDeployment {
    serde_json::from_str(&object.to_string()).unwrap()
}

#[test]
fn the_first_problem_determines_the_state() {
    use DeploymentState::{
        ErrApplied, Modified, NotReady, OutOfSync, Pending, Ready, WaitApplied, WaitingForDependency,
    };

    let deployed = |status: &str| json!([{ "type": "Deployed", "status": status }]);
    let because =
        |status: &str, reason: &str| json!([{ "type": "Deployed", "status": status, "reason": reason }]);
    for (state, id, staged, status) in [
        (WaitApplied, "b", "b", json!({ "appliedDeploymentID": "a" })),
        (
            WaitApplied,
            "b",
            "b",
            json!({ "appliedDeploymentID": "a", "conditions": deployed("True"), "ready": true, "nonModified": true }),
        ),
        (
            WaitApplied,
            "b",
            "b",
            json!({ "conditions": deployed("Unknown") }),
        ),
        (ErrApplied, "b", "b", json!({ "conditions": deployed("False") })),
        (
            ErrApplied,
            "b",
            "b",
            json!({ "conditions": because("False", "Error") }),
        ),
        (
            WaitingForDependency,
            "b",
            "b",
            json!({ "appliedDeploymentID": "a", "conditions": because("False", "WaitingForDependency") }),
        ),
        // A reason that is left of an earlier attempt.
        (
            WaitApplied,
            "b",
            "b",
            json!({ "appliedDeploymentID": "a", "conditions": because("True", "WaitingForDependency") }),
        ),
        // Other values of the same deployment.
        (
            ErrApplied,
            "b",
            "b",
            json!({ "appliedDeploymentID": "b", "conditions": deployed("False"), "ready": true, "nonModified": true }),
        ),
        (
            WaitApplied,
            "b",
            "b",
            json!({ "appliedDeploymentID": "b", "conditions": deployed("Unknown"), "ready": true, "nonModified": true }),
        ),
        (NotReady, "b", "c", json!({ "appliedDeploymentID": "b" })),
        // A new deployment has no IDs.
        (NotReady, "", "", json!({})),
        (Pending, "", "c", json!({})),
        (
            OutOfSync,
            "b",
            "c",
            json!({ "appliedDeploymentID": "b", "ready": true }),
        ),
        (
            Modified,
            "b",
            "b",
            json!({ "appliedDeploymentID": "b", "ready": true }),
        ),
        (
            Ready,
            "b",
            "b",
            json!({ "appliedDeploymentID": "b", "ready": true, "nonModified": true }),
        ),
    ] {
        let object =
            json!({ "spec": { "deploymentID": id, "stagedDeploymentID": staged }, "status": status });
        assert_eq!(DeploymentState::of(&deployment(&object)), state, "{object}");
    }
}

#[test]
fn the_rank_is_the_same_as_in_fleet() {
    let states = DeploymentState::ALL.map(DeploymentState::as_str);
    let by_rank = [
        "Ready",
        "NotReady",
        "Pending",
        "OutOfSync",
        "Modified",
        "WaitApplied",
        "WaitingForDependency",
        "ErrApplied",
    ];
    assert_eq!(states, by_rank);
    assert!(DeploymentState::ALL.is_sorted());
}

#[test]
fn a_count_that_a_crd_of_fleet_drops_follows_from_the_examples() {
    let of = |summary: Value| {
        let summary: BundleSummary = serde_json::from_str(&summary.to_string()).unwrap();
        count(&summary, DeploymentState::WaitingForDependency)
    };
    let examples = json!([
        { "name": "f/a", "bundleState": "WaitingForDependency" },
        { "name": "f/b", "bundleState": "ErrApplied" },
    ]);
    assert_eq!(
        of(json!({ "nonReadyResources": examples, "waitingForDependency": 5 })),
        5
    );
    assert_eq!(of(json!({ "nonReadyResources": examples })), 1);
    assert_eq!(of(json!({})), 0);
}

#[test]
fn the_message_is_that_of_the_first_condition_with_one() {
    for (expected, applied, deployed, installed, monitored) in [
        ("d", "b", "d", "i", "m"),
        ("i", "b", "", "i", "m"),
        ("m", "a", "", "i", "m"),
        ("m", "b", "", "", "m"),
        ("", "b", "", "", ""),
        ("", "a", "", "i", ""),
    ] {
        let object = json!({
            "spec": { "deploymentID": "b" },
            "status": { "appliedDeploymentID": applied, "conditions": [
                { "type": "Ready", "message": "r" },
                { "type": "Monitored", "message": monitored },
                { "type": "Installed", "message": installed },
                { "type": "Deployed", "message": deployed },
            ] }
        });
        assert_eq!(message(&deployment(&object)), expected, "{object}");
    }
    assert_eq!(message(&BundleDeployment::default()), "");
}
