//! Tests of the readiness of a HelmOp.

use helmops_api::Bundle;
use serde_json::{Value, json};

use super::*;
use crate::status::fixture::summary;

fn helmop(paused: bool) -> HelmOp {
    let object =
        json!({ "metadata": { "name": "web", "namespace": "fleet-default" }, "spec": { "paused": paused } });
    serde_json::from_str(&object.to_string()).unwrap()
}

fn bundle(status: &Value) -> Bundle {
    let object = json!({ "metadata": { "generation": 2 }, "status": status });
    serde_json::from_str(&object.to_string()).unwrap()
}

/// The status of a Bundle with its current generation observed, a summary and a message.
#[expect(clippy::needless_pass_by_value, reason = "it is always called with json!")]
fn bundle_status(counted: Value, message: &str) -> Value {
    let mut status = json!({ "observedGeneration": 2, "summary": counted });
    if !message.is_empty() {
        status["conditions"] =
            json!([{ "type": "Ready", "status": "False", "reason": "Error", "message": message }]);
    }
    status
}

/// The readiness as `reason, is progressing, message`.
fn readiness(status: &Value, deployments: Option<Value>, paused: bool) -> (&'static str, bool, String) {
    let bundle = bundle(status);
    let readiness = ready(
        &helmop(paused),
        Some(&bundle).into(),
        deployments.map(summary).as_ref(),
        0,
    );
    let state = &readiness.state;
    assert_eq!(
        matches!(state, ConditionState::True(_)),
        state.reason() == Reason::Ready
    );
    (
        state.reason().as_str(),
        readiness.is_progressing,
        state.message().to_owned(),
    )
}

#[test]
fn readiness_depends_on_the_bundle() {
    let whole = json!({ "ready": 2, "desiredReady": 2 });
    for (status, expected, message) in [
        (Value::Null, ("Progressing", true), "waiting for its deployment"),
        (json!({}), ("Progressing", true), "rolling out"),
        (
            json!({ "observedGeneration": 1, "summary": whole }),
            ("Progressing", true),
            "rolling out",
        ),
        (
            bundle_status(json!({}), ""),
            ("NoClusters", false),
            "spec.targets is empty, and no Cluster in namespace fleet-default is in ClusterGroup \"default\"",
        ),
        (
            bundle_status(json!({ "ready": 0, "desiredReady": 0 }), ""),
            ("NoClusters", false),
            "no cluster is targeted",
        ),
        (
            bundle_status(whole.clone(), "targeting error: bad"),
            ("NotReady", false),
            "the Bundle cannot be deployed: targeting error: bad",
        ),
        // The Bundle's controller does not report the generation of an error.
        (
            json!({ "observedGeneration": 1, "conditions": [{ "type": "Ready", "status": "False", "message": "targeting error: bad" }] }),
            ("NotReady", false),
            "targeting error: bad",
        ),
        (bundle_status(whole.clone(), ""), ("Ready", false), ""),
        (
            bundle_status(whole.clone(), "NotReady(1) [Cluster f/a]"),
            ("Progressing", true),
            "up to date yet: 2 of 2",
        ),
        (
            bundle_status(json!({ "ready": 1, "desiredReady": 2 }), ""),
            ("Progressing", true),
            "1 of 2 clusters are ready",
        ),
        (
            bundle_status(json!({ "ready": 3, "desiredReady": 3 }), ""),
            ("Progressing", true),
            "is not up to date yet",
        ),
    ] {
        let (reason, is_progressing, text) = readiness(&status, Some(whole.clone()), false);
        assert_eq!((reason, is_progressing), expected, "{status}");
        assert!(
            text.contains(message) && text.is_empty() == message.is_empty(),
            "{text}"
        );
    }
    let none = ready(&helmop(false), BundleState::default(), None, 0);
    assert_eq!(
        (none.state.reason(), none.is_progressing),
        (Reason::Progressing, true)
    );
}

#[test]
fn suspended_clusters_are_named_and_are_no_progress() {
    let bundle = bundle(&bundle_status(json!({ "ready": 1, "desiredReady": 3 }), ""));
    let of = |suspended| {
        let counts = summary(json!({ "ready": 1, "desiredReady": 3, "waitApplied": 2 }));
        let readiness = ready(&helmop(false), Some(&bundle).into(), Some(&counts), suspended);
        (readiness.is_progressing, readiness.state.message().to_owned())
    };
    assert_eq!(of(0), (true, "WaitApplied(2)".to_owned()));
    let expected = "spec.lifecycle.suspend is set for 1 cluster; WaitApplied(2)";
    assert_eq!(of(1), (true, expected.to_owned()));
    let expected = "spec.lifecycle.suspend is set for 2 clusters; WaitApplied(2)";
    assert_eq!(of(2), (false, expected.to_owned()));
}

/// A user has nothing to do, as for clusters that the rollout has not reached.
#[test]
fn clusters_that_wait_for_a_window_are_named_and_are_in_progress() {
    let bundle = bundle(&bundle_status(json!({ "ready": 1, "desiredReady": 4 }), ""));
    let waiting = Waiting {
        clusters: 3,
        next: "2026-12-01T02:00:00Z".to_owned(),
    };
    let of = |waiting, counts: Value| {
        let observed = BundleState {
            bundle: Some(&bundle),
            waiting,
            ..BundleState::default()
        };
        let readiness = ready(&helmop(false), observed, Some(&summary(counts)), 0);
        let state = &readiness.state;
        (
            state.reason().as_str(),
            readiness.is_progressing,
            state.message().to_owned(),
        )
    };
    let held = || json!({ "ready": 1, "desiredReady": 4, "waitApplied": 3 });
    let expected = "3 clusters wait for a window of their Schedules; the next one begins at 2026-12-01T02:00:00Z; WaitApplied(3)";
    assert_eq!(
        of(Some(&waiting), held()),
        ("Progressing", true, expected.to_owned())
    );
    let none = Waiting::default();
    assert_eq!(
        of(Some(&none), held()),
        ("Progressing", true, "WaitApplied(3)".to_owned())
    );
    let failed = json!({ "ready": 0, "desiredReady": 4, "waitApplied": 3, "errApplied": 1 });
    assert_eq!(of(Some(&waiting), failed).0, "NotReady");
    let whole = json!({ "ready": 4, "desiredReady": 4 });
    assert!(
        !of(Some(&waiting), whole).2.contains("window"),
        "nothing is to be done"
    );
}

/// Clusters that wait are ready, with what they have.
#[test]
fn a_rollout_that_waits_is_not_ready() {
    let wait_for = |what: &str, summary: Value| {
        let since = if what == "Soak" {
            ""
        } else {
            "2026-12-01T02:00:00Z"
        };
        let rollout = json!({ "id": "a", "waitsFor": what, "since": since, "message": "it waits" });
        let status = json!({ "observedGeneration": 2, "summary": summary, "rollout": rollout });
        readiness(&status, Some(summary), false)
    };
    let wait = |summary: Value| wait_for("Soak", summary);
    let (reason, is_progressing, message) = wait(json!({ "ready": 2, "desiredReady": 2 }));
    assert_eq!(
        (reason, is_progressing, &*message),
        ("Progressing", true, "it waits; 2 of 2 clusters are ready")
    );
    let (.., message) = wait(json!({ "ready": 1, "desiredReady": 2, "pending": 1 }));
    assert_eq!(message, "it waits; Pending(1)");
    // A user has to act, but not while clusters are being updated.
    let whole = json!({ "ready": 2, "desiredReady": 2 });
    let (reason, is_progressing, message) = wait_for("Approval", whole);
    assert_eq!(
        (reason, is_progressing, &*message),
        ("AwaitingApproval", false, "it waits; 2 of 2 clusters are ready")
    );
}

/// What a person has to do first is the reason, and everything is in the message.
#[test]
fn the_most_urgent_of_all_that_holds_a_rollout_is_the_reason() {
    let paused = "spec.paused is set, so the rollout is paused";
    let limit = "spec.rolloutStrategy.maxUnavailable is 0, so no ready cluster is updated";
    for (what, since, is_paused, max, counts, expected, message) in [
        // Clusters are being updated that a person looks at before the approval.
        (
            "Approval",
            "",
            false,
            3,
            json!({ "waitApplied": 1 }),
            ("Progressing", true),
            "it waits; WaitApplied(1)".to_owned(),
        ),
        // Only those are left that nothing reaches.
        (
            "Approval",
            "T",
            false,
            3,
            json!({ "waitApplied": 1 }),
            ("AwaitingApproval", false),
            "it waits; WaitApplied(1)".to_owned(),
        ),
        (
            "Approval",
            "T",
            false,
            3,
            json!({ "errApplied": 1 }),
            ("NotReady", false),
            "it waits; ErrApplied(1)".to_owned(),
        ),
        (
            "Approval",
            "T",
            true,
            3,
            json!({ "outOfSync": 1 }),
            ("NotReady", false),
            format!("{paused}; it waits; OutOfSync(1)"),
        ),
        (
            "Approval",
            "T",
            false,
            0,
            json!({ "outOfSync": 1 }),
            ("NotReady", false),
            format!("{limit}; it waits; OutOfSync(1)"),
        ),
        (
            "Soak",
            "",
            false,
            0,
            json!({ "outOfSync": 1 }),
            ("NotReady", false),
            format!("{limit}; it waits; OutOfSync(1)"),
        ),
        (
            "Halt",
            "T",
            true,
            3,
            json!({ "errApplied": 1, "outOfSync": 1 }),
            ("RolloutHalted", false),
            format!("it waits; {paused}; ErrApplied(1); OutOfSync(1)"),
        ),
        (
            "Halt",
            "T",
            false,
            3,
            json!({ "errApplied": 1, "waitApplied": 1 }),
            ("RolloutHalted", true),
            "it waits; ErrApplied(1); WaitApplied(1)".to_owned(),
        ),
    ] {
        let rollout = json!({ "id": "a", "waitsFor": what, "since": since, "message": "it waits" });
        let mut counts = counts;
        counts["desiredReady"] = json!(3);
        let status =
            json!({ "observedGeneration": 2, "summary": counts, "maxUnavailable": max, "rollout": rollout });
        let (reason, is_progressing, text) = readiness(&status, Some(counts.clone()), is_paused);
        assert_eq!(
            ((reason, is_progressing), text),
            (expected, message),
            "{what} {counts}"
        );
    }
}

#[test]
fn a_gate_that_is_closed_opens_by_itself_and_one_that_cannot_be_evaluated_does_not() {
    for (since, is_paused, expected) in [
        ("", false, ("Progressing", true)),
        ("T", false, ("GateFailed", false)),
        ("T", true, ("NotReady", false)),
    ] {
        let counts = json!({ "outOfSync": 1, "ready": 2, "desiredReady": 3 });
        let rollout = json!({ "id": "a", "waitsFor": "Gate", "since": since, "message": "it waits" });
        let status = json!({ "observedGeneration": 2, "summary": counts, "rollout": rollout });
        let (reason, is_progressing, message) = readiness(&status, Some(counts), is_paused);
        assert_eq!((reason, is_progressing), expected, "{message}");
    }
}

/// Every cluster is ready, with what was completed before.
#[test]
fn a_rollout_that_was_rolled_back_is_not_ready() {
    let whole = json!({ "ready": 2, "desiredReady": 2 });
    let known = json!({ "failed": [{ "id": "a", "clusters": 1, "since": "T" }], "withheld": { "id": "a", "resolved": [{ "version": "1.1.0" }] } });
    let annotations = json!({ helmops_api::labels::FAILED_ROLLOUTS: known.to_string() });
    let object = json!({
        "metadata": { "name": "web", "namespace": "fleet", "generation": 2, "annotations": annotations },
        "spec": { "helm": { "version": "1.0.0" } }, "status": bundle_status(whole.clone(), ""),
    });
    let bundle: Bundle = serde_json::from_str(&object.to_string()).unwrap();
    let readiness = ready(&helmop(false), Some(&bundle).into(), Some(&summary(whole)), 0);
    assert_eq!(readiness.state.reason(), Reason::RolloutRolledBack);
    assert!(!readiness.is_progressing);
    let message = readiness.state.message();
    assert!(
        message.starts_with("rollout a (version 1.1.0) has failed on 1 cluster and is not tried again"),
        "{message}"
    );
    assert!(message.ends_with("; 2 of 2 clusters are ready"), "{message}");
}

#[test]
fn a_limit_that_clusters_wait_for_is_named() {
    let one = |max: i64, unavailable: i64| json!([{ "name": "first", "count": 2, "maxUnavailable": max, "unavailable": unavailable }]);
    for (status, counts, expected, message) in [
        (
            json!({ "maxUnavailable": 0 }),
            json!({ "outOfSync": 1 }),
            ("NotReady", false),
            "spec.rolloutStrategy.maxUnavailable is 0, so no ready cluster is updated; OutOfSync(1)",
        ),
        (
            json!({ "maxUnavailable": 2, "unavailable": 2 }),
            json!({ "outOfSync": 1, "notReady": 2 }),
            ("Progressing", true),
            "as many clusters are unavailable as spec.rolloutStrategy.maxUnavailable allows: 2; NotReady(2); OutOfSync(1)",
        ),
        // An update is under way.
        (
            json!({ "maxUnavailable": 0 }),
            json!({ "outOfSync": 1, "waitApplied": 1 }),
            ("Progressing", true),
            "spec.rolloutStrategy.maxUnavailable is 0, so no ready cluster is updated; OutOfSync(1); WaitApplied(1)",
        ),
        (
            json!({ "maxUnavailable": 3, "partitions": one(0, 0) }),
            json!({ "outOfSync": 1 }),
            ("NotReady", false),
            "maxUnavailable of partition \"first\" of spec.rolloutStrategy is 0, so no ready cluster is updated there; OutOfSync(1)",
        ),
        (
            // Others are held back, of a later partition.
            json!({ "maxUnavailable": 3, "partitions": [{ "name": "first", "count": 2, "maxUnavailable": 1, "unavailable": 1, "summary": { "ready": 1 } }] }),
            json!({ "outOfSync": 1 }),
            ("Progressing", true),
            "OutOfSync(1)",
        ),
        (
            json!({ "maxUnavailable": 3, "partitions": one(1, 1) }),
            json!({ "outOfSync": 1 }),
            ("Progressing", true),
            "as many clusters of partition \"first\" of spec.rolloutStrategy are unavailable as its maxUnavailable allows: 1; OutOfSync(1)",
        ),
        (
            json!({ "maxUnavailable": 3, "maxNew": 0 }),
            json!({ "pending": 1 }),
            ("NotReady", false),
            "spec.rolloutStrategy.maxNew is 0, so no cluster gets the chart for the first time; Pending(1)",
        ),
        // Without a limit, or without a cluster that waits for it.
        (
            json!({ "maxUnavailable": 3, "unavailable": 3, "partitions": one(2, 2) }),
            json!({ "outOfSync": 1 }),
            ("Progressing", true),
            "OutOfSync(1)",
        ),
        (
            json!({ "maxUnavailable": 0, "maxNew": 0 }),
            json!({ "notReady": 1 }),
            ("NotReady", false),
            "NotReady(1)",
        ),
    ] {
        let mut bundle = bundle_status(json!({ "desiredReady": 3 }), "");
        json_patch::merge(&mut bundle, &status);
        let mut deployments = counts.clone();
        deployments["desiredReady"] = json!(3);
        let (reason, is_progressing, text) = readiness(&bundle, Some(deployments), false);
        assert_eq!(
            ((reason, is_progressing), &*text),
            (expected, message),
            "{status} {counts}"
        );
    }
}

#[test]
fn a_wait_for_others_is_progress_unless_something_has_failed() {
    let example = json!([{ "name": "f/a", "bundleState": "WaitingForDependency", "message": "db" }]);
    for (deployments, expected, message) in [
        (
            json!({ "desiredReady": 2, "waitingForDependency": 2 }),
            ("Progressing", true),
            "WaitingForDependency(2)",
        ),
        // Fleet's CRD before 0.16.2 drops the count.
        (
            json!({ "desiredReady": 2, "nonReadyResources": example }),
            ("Progressing", true),
            "WaitingForDependency(1) [Cluster f/a: db]",
        ),
        (
            json!({ "desiredReady": 2, "errApplied": 1, "waitingForDependency": 1 }),
            ("NotReady", true),
            "ErrApplied(1); WaitingForDependency(1)",
        ),
    ] {
        let counted = bundle_status(json!({ "ready": 2, "desiredReady": 2 }), "");
        let (reason, is_progressing, text) = readiness(&counted, Some(deployments), false);
        assert_eq!(((reason, is_progressing), &*text), (expected, message));
    }
}

#[test]
fn readiness_depends_on_the_deployments() {
    let paused = "spec.paused is set, so the rollout is paused; ";
    for (deployments, is_paused, expected, message) in [
        (
            json!({ "ready": 1, "desiredReady": 2 }),
            false,
            ("NotReady", false),
            "1 of 2 clusters are ready",
        ),
        (
            json!({ "desiredReady": 2, "notReady": 2 }),
            false,
            ("NotReady", false),
            "NotReady(2)",
        ),
        (
            json!({ "desiredReady": 2, "modified": 2 }),
            false,
            ("NotReady", false),
            "Modified(2)",
        ),
        (
            json!({ "desiredReady": 2, "errApplied": 2 }),
            false,
            ("NotReady", false),
            "ErrApplied(2)",
        ),
        (
            json!({ "desiredReady": 2, "waitApplied": 2 }),
            false,
            ("Progressing", true),
            "WaitApplied(2)",
        ),
        (
            json!({ "desiredReady": 2, "outOfSync": 2 }),
            false,
            ("Progressing", true),
            "OutOfSync(2)",
        ),
        (
            json!({ "desiredReady": 2, "pending": 2 }),
            false,
            ("Progressing", true),
            "Pending(2)",
        ),
        (
            json!({ "desiredReady": 2, "notReady": 1, "pending": 1 }),
            false,
            ("Progressing", true),
            "NotReady(1); Pending(1)",
        ),
        (
            json!({ "desiredReady": 2, "errApplied": 1, "waitApplied": 1 }),
            false,
            ("NotReady", true),
            "ErrApplied(1); WaitApplied(1)",
        ),
        (
            json!({ "desiredReady": 2, "waitApplied": 2 }),
            true,
            ("Progressing", true),
            "WaitApplied(2)",
        ),
        (
            json!({ "desiredReady": 2, "outOfSync": 2 }),
            true,
            ("NotReady", false),
            &format!("{paused}OutOfSync(2)"),
        ),
        (
            json!({ "desiredReady": 2, "pending": 2 }),
            true,
            ("NotReady", false),
            &format!("{paused}Pending(2)"),
        ),
        (
            json!({ "desiredReady": 1, "notReady": 1, "nonReadyResources": [{ "name": "f/a", "bundleState": "NotReady", "message": "why" }] }),
            false,
            ("NotReady", false),
            "NotReady(1) [Cluster f/a: why]",
        ),
    ] {
        let counted = bundle_status(json!({ "ready": 2, "desiredReady": 2 }), "");
        let (reason, is_progressing, text) = readiness(&counted, Some(deployments.clone()), is_paused);
        assert_eq!(
            ((reason, is_progressing), &*text),
            (expected, message),
            "{deployments}"
        );
    }
}

#[test]
fn the_bundle_alone_is_sufficient() {
    for (counted, expected) in [
        (json!({ "ready": 2, "desiredReady": 2 }), "Ready"),
        (
            json!({ "ready": 1, "desiredReady": 2, "notReady": 1 }),
            "NotReady",
        ),
    ] {
        assert_eq!(readiness(&bundle_status(counted, ""), None, false).0, expected);
    }
}
