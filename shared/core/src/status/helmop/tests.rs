//! Tests of the status of a HelmOp.

use helmops_api::{Bundle, BundleDeployment, Decoded};
use k8s_openapi::jiff::Timestamp;
use serde_json::json;

use super::{
    super::polling::{PollAttempt, PollFailure, is_recorded_later},
    *,
};

fn helmop() -> HelmOp {
    let object = json!({
        "metadata": { "name": "web", "namespace": "fleet-default", "generation": 2 },
        "spec": {},
        "status": {
            "version": "1.0.0",
            "readyClusters": 3,
            "conditions": [
                { "type": "Polled", "status": "True" },
                { "type": "Reconciling", "status": "False" },
                { "type": "Stalled", "status": "True", "reason": "Stalled", "message": "left by Fleet" }
            ]
        }
    });
    serde_json::from_str(&object.to_string()).unwrap()
}

#[expect(clippy::needless_pass_by_value, reason = "it is always called with json!")]
fn bundle(generation: i64, status: serde_json::Value) -> Bundle {
    let object = json!({ "metadata": { "generation": generation }, "status": status });
    serde_json::from_str(&object.to_string()).unwrap()
}

fn accepted() -> ReconcileOutcome {
    ReconcileOutcome::Accepted {
        version: "1.2.3".to_owned(),
        resolved: Vec::new(),
    }
}

fn condition<'s>(status: &'s HelmOpStatus, r#type: &str) -> (&'s str, &'s str, &'s str) {
    let condition = status
        .base
        .conditions
        .iter()
        .find(|condition| condition.r#type == r#type)
        .unwrap();
    (&condition.status, &condition.reason, &condition.message)
}

#[test]
fn accepted_is_not_yet_ready() {
    let status = next(
        &helmop(),
        BundleState::default(),
        &accepted(),
        &Polling::Unchanged,
        "t",
    );
    assert_eq!(
        (status.version.as_str(), status.observed_generation),
        ("1.2.3", Some(2))
    );
    assert_eq!(condition(&status, "Accepted"), ("True", "Accepted", ""));
    assert_eq!(condition(&status, "Ready").1, "Progressing");
    assert_eq!(
        condition(&status, "Polled").0,
        "True",
        "conditions of other controllers stay"
    );
    assert_eq!(status.base.ready_clusters, Some(3), "other fields stay");
}

#[test]
fn a_digest_that_is_held_is_a_condition_until_it_is_deployed() {
    let with = |changed: &str| ReconcileOutcome::Accepted {
        version: "1.0.0".to_owned(),
        resolved: vec![ResolvedChart {
            version: "1.0.0".to_owned(),
            digest: "sha256:a".to_owned(),
            url: "oci://h/web:1.0.0".to_owned(),
            changed_digest: changed.to_owned(),
            ..ResolvedChart::default()
        }],
    };
    let mut helmop = helmop();
    let status = next(&helmop, None, &with("sha256:b"), &Polling::Off, "1");
    let (state, reason, message) = condition(&status, "DigestChanged");
    assert_eq!((state, reason), ("True", "DigestChanged"));
    let expected = "oci://h/web:1.0.0, version 1.0.0, was published again with the digest sha256:b, but sha256:a stays deployed";
    assert!(message.starts_with(expected), "{message}");
    helmop.status = Some(status);
    let deployed = next(&helmop, None, &with(""), &Polling::Off, "2");
    assert!(
        deployed
            .base
            .conditions
            .iter()
            .all(|one| one.r#type != "DigestChanged")
    );
}

#[test]
fn a_refused_helmop_keeps_its_version_and_is_never_ready() {
    let outcome = ReconcileOutcome::Refused {
        reason: Reason::ChartNotFound,
        message: "no chart".to_owned(),
    };
    let ready = bundle(
        1,
        json!({ "observedGeneration": 1, "summary": { "ready": 1, "desiredReady": 1 } }),
    );
    let status = next(&helmop(), Some(&ready), &outcome, &Polling::Unchanged, "t");
    assert_eq!(status.version, "1.0.0");
    assert_eq!(
        condition(&status, "Accepted"),
        ("False", "ChartNotFound", "no chart")
    );
    assert_eq!(
        condition(&status, "Ready"),
        ("False", "ChartNotFound", "no chart")
    );
}

#[test]
fn ready_follows_the_bundle() {
    for (bundle, expected) in [
        (
            bundle(2, json!({ "observedGeneration": 1 })),
            ("False", "Progressing"),
        ),
        (
            bundle(1, json!({ "observedGeneration": 1 })),
            ("False", "NoClusters"),
        ),
        (
            bundle(
                1,
                json!({ "observedGeneration": 1, "summary": { "ready": 1, "desiredReady": 2 } }),
            ),
            ("False", "NotReady"),
        ),
        (
            bundle(
                1,
                json!({ "observedGeneration": 1, "summary": { "ready": 2, "desiredReady": 2 } }),
            ),
            ("True", "Ready"),
        ),
    ] {
        let status = next(&helmop(), Some(&bundle), &accepted(), &Polling::Unchanged, "t");
        let (status, reason, _) = condition(&status, "Ready");
        assert_eq!((status, reason), expected);
    }
}

/// The types of the conditions, and the reasons of those of kstatus.
fn kstatus(status: &HelmOpStatus) -> Vec<(&str, &str, &str)> {
    let conditions = status.base.conditions.iter();
    conditions
        .filter(|condition| ["Reconciling", "Stalled"].contains(&&*condition.r#type))
        .map(|condition| (&*condition.r#type, &*condition.status, &*condition.reason))
        .collect()
}

#[test]
fn kstatus_conditions_are_present_only_while_true() {
    let summary = |ready: i64, state: &str| json!({ "observedGeneration": 1, "summary": { "ready": ready, "desiredReady": 2, state: 2 - ready } });
    let refused = ReconcileOutcome::Refused {
        reason: Reason::InvalidVersion,
        message: "no version".to_owned(),
    };
    let retrying = ReconcileOutcome::Retrying {
        reason: Reason::Timeout,
        message: "no response".to_owned(),
    };
    for (bundle_status, outcome, expected) in [
        (summary(2, "notReady"), accepted(), None),
        (summary(1, "notReady"), accepted(), None),
        (summary(1, "modified"), accepted(), None),
        (
            summary(1, "waitApplied"),
            accepted(),
            Some(("Reconciling", "True", "Progressing")),
        ),
        (
            json!({}),
            accepted(),
            Some(("Reconciling", "True", "Progressing")),
        ),
        (
            summary(2, "notReady"),
            refused,
            Some(("Stalled", "True", "InvalidVersion")),
        ),
        (
            summary(2, "notReady"),
            retrying,
            Some(("Reconciling", "True", "Timeout")),
        ),
    ] {
        let bundle = bundle(1, bundle_status);
        let status = next(&helmop(), Some(&bundle), &outcome, &Polling::Unchanged, "t");
        assert_eq!(kstatus(&status), expected.into_iter().collect::<Vec<_>>());
        let message = |r#type| condition(&status, r#type).2;
        if let Some((r#type, ..)) = expected {
            assert_eq!(message(r#type), message("Ready"), "it has the message of Ready");
            assert!(!message(r#type).is_empty());
        }
        let generations = status.base.conditions.iter().skip(1);
        assert!(
            generations
                .map(|condition| condition.observed_generation)
                .all(|at| at == Some(2))
        );
    }
}

#[test]
fn deployments_are_counted_and_ready_is_never_true_without_accepted() {
    let object = json!({
        "metadata": { "name": "web", "namespace": "cluster-c" },
        "status": { "ready": true, "nonModified": true }
    });
    let deployment: Decoded<BundleDeployment> = serde_json::from_str(&object.to_string()).unwrap();
    let bundle = bundle(
        1,
        json!({ "observedGeneration": 1, "summary": { "ready": 1, "desiredReady": 1 } }),
    );
    let observed = BundleState {
        bundle: Some(&bundle),
        deployments: Some(&[&deployment]),
        ..BundleState::default()
    };
    let refused = ReconcileOutcome::Refused {
        reason: Reason::ChartNotFound,
        message: "no chart".to_owned(),
    };
    for (outcome, ready) in [(accepted(), "True"), (refused, "False")] {
        let status = next(&helmop(), observed, &outcome, &Polling::Unchanged, "t");
        assert_eq!(condition(&status, "Ready").0, ready);
        assert_eq!(
            status.base.ready_clusters,
            Some(1),
            "existing deployments are reported"
        );
        assert_eq!(status.base.display.unwrap().ready_bundle_deployments, "1/1");
    }
    let gone = BundleState {
        bundle: None,
        deployments: Some(&[]),
        ..BundleState::default()
    };
    let status = next(&helmop(), gone, &accepted(), &Polling::Unchanged, "t");
    assert_eq!(
        (status.base.ready_clusters, status.base.desired_ready_clusters),
        (Some(0), Some(0))
    );
    assert_eq!(status.base.display.unwrap().ready_bundle_deployments, "0/0");
}

#[test]
fn without_extras_has_only_the_fields_of_fleets_crd() {
    let mut status = next(
        &helmop(),
        BundleState::default(),
        &accepted(),
        &Polling::Unchanged,
        "t",
    );
    status.base.omitted = Some(helmops_api::status::Omitted::default());
    let text = serde_json::to_string(&without_extras(status)).unwrap();
    assert!(
        !text.contains("observedGeneration") && !text.contains("omitted"),
        "{text}"
    );
}

fn attempted(result: Result<&str, PollFailure>) -> Polling {
    Polling::Attempted(PollAttempt {
        seen: None,
        start: "2026-11-21T10:00:00Z".parse().unwrap(),
        is_scheduled: true,
        is_requested: false,
        next: Timestamp::from_second(1_800_000_000).ok(),
        result: result.map(str::to_owned),
        notices: None,
    })
}

#[test]
fn the_time_of_a_poll_alone_is_written_in_intervals() {
    let at = |seconds: i64| helmops_api::timestamp::timestamp(Timestamp::from_second(seconds).unwrap());
    let with = |time: String, version: &str| HelmOpStatus {
        last_polling_triggered: time,
        version: version.to_owned(),
        ..HelmOpStatus::default()
    };
    for (stored, next, next_poll, expected) in [
        (with(at(100), "1"), with(at(130), "1"), 160, true),
        (with(at(100), "1"), with(at(369), "1"), 399, true),
        // The next one is too late.
        (with(at(100), "1"), with(at(370), "1"), 400, false),
        (with(at(100), "1"), with(at(130), "1"), 40_000, false),
        (with(at(100), "1"), with(at(130), "2"), 160, false),
        // A wrong clock, and the first poll.
        (with(at(200), "1"), with(at(130), "1"), 160, false),
        (with(String::new(), "1"), with(at(130), "1"), 160, false),
    ] {
        let next_poll = Timestamp::from_second(next_poll).unwrap();
        assert_eq!(
            is_recorded_later(&stored, &next, next_poll),
            expected,
            "{stored:?} {next:?}"
        );
    }
    let Polling::Attempted(mut attempt) = attempted(Ok("")) else {
        panic!("it is none")
    };
    assert_eq!(
        Polling::Attempted(attempt.clone()).recordable_later(),
        Some((attempt.start, attempt.next.unwrap()))
    );
    // A user or a Receiver waits for it.
    attempt.is_requested = true;
    assert_eq!(Polling::Attempted(attempt).recordable_later(), None);
}

fn failure(is_transient: bool) -> PollFailure {
    PollFailure {
        reason: Reason::RepositoryNotFound,
        message: "gone".to_owned(),
        is_transient,
    }
}

/// Polled, Stalled and the time of the last poll.
fn polling_status(status: &HelmOpStatus) -> (String, String, &str) {
    let condition = |name: &str| {
        let mut conditions = status.base.conditions.iter();
        let condition = conditions.find(|condition| condition.r#type == name);
        condition.map_or_else(String::new, |condition| {
            format!("{}/{}/{}", condition.status, condition.reason, condition.message)
        })
    };
    (
        condition("Polled"),
        condition("Stalled"),
        &status.last_polling_triggered,
    )
}

#[test]
fn a_poll_is_reported_with_its_start_and_result() {
    let start = "2026-11-21T10:00:00Z";
    let reported = |polling: &Polling| {
        let status = next(&helmop(), BundleState::default(), &accepted(), polling, "t");
        assert_eq!(condition(&status, "Accepted").0, "True");
        let (polled, stalled, last) = polling_status(&status);
        (polled, stalled, last.to_owned())
    };
    let of = |polled: &str, stalled: &str| (polled.to_owned(), stalled.to_owned(), start.to_owned());
    assert_eq!(reported(&attempted(Ok(""))), of("True/Polled/", ""));
    assert_eq!(reported(&attempted(Ok("note"))), of("True/Polled/note", ""));
    assert_eq!(
        reported(&attempted(Err(failure(true)))),
        of("False/RepositoryNotFound/gone", "")
    );
    assert_eq!(
        reported(&attempted(Err(failure(false)))),
        of("False/RepositoryNotFound/gone", "True/RepositoryNotFound/gone"),
        "a user must act"
    );
}

#[test]
fn the_result_of_a_poll_stays_until_the_next_poll_or_until_polling_ends() {
    let step = |status: &HelmOpStatus, polling: &Polling| {
        let helmop = HelmOp {
            status: Some(status.clone()),
            ..helmop()
        };
        next(&helmop, BundleState::default(), &accepted(), polling, "t2")
    };
    let failed = step(&HelmOpStatus::default(), &attempted(Err(failure(false))));
    let kept = step(&failed, &Polling::Unchanged);
    assert_eq!(polling_status(&kept), polling_status(&failed));
    let off = step(&kept, &Polling::Off);
    assert_eq!(
        (polling_status(&off).0, polling_status(&off).1),
        (String::new(), String::new())
    );
    let recovered = step(&kept, &attempted(Ok("")));
    assert_eq!(
        (&*polling_status(&recovered).0, &*polling_status(&recovered).1),
        ("True/Polled/", "")
    );
}

#[test]
fn a_requested_poll_without_polling_sets_only_its_time() {
    let Polling::Attempted(mut attempt) = attempted(Ok("")) else {
        panic!("not a poll")
    };
    attempt.is_scheduled = false;
    let status = next(
        &helmop(),
        BundleState::default(),
        &accepted(),
        &Polling::Attempted(attempt.clone()),
        "t",
    );
    assert_eq!(
        polling_status(&status),
        (String::new(), String::new(), "2026-11-21T10:00:00Z")
    );
    attempt.result = Err(failure(true));
    let status = next(
        &helmop(),
        BundleState::default(),
        &accepted(),
        &Polling::Attempted(attempt),
        "t",
    );
    assert_eq!(polling_status(&status).0, "False/RepositoryNotFound/gone");
}

#[test]
fn a_lost_status_reports_when_the_next_poll_is_due() {
    let awaited = Polling::Scheduled {
        next: "2026-11-21T11:00:00Z".to_owned(),
    };
    let status = next(&helmop(), BundleState::default(), &accepted(), &awaited, "t");
    let (polled, ..) = polling_status(&status);
    assert!(
        polled.starts_with("Unknown/") && polled.contains("11:00:00Z"),
        "{polled}"
    );
}

#[test]
fn the_life_cycle_is_counted_while_the_helmop_has_one() {
    let mut of = helmop();
    of.spec.bundle.options.lifecycle = Some(Box::default());
    let object = json!({ "status": { "conditions": [{ "type": "Released", "status": "False" }] } });
    let deployment: Decoded<BundleDeployment> = serde_json::from_str(&object.to_string()).unwrap();
    let bundle = bundle(2, json!({ "lifecycle": { "failed": 3 } }));
    let failed = |of: &HelmOp, deployments: Option<&[&Decoded<BundleDeployment>]>| {
        let state = BundleState {
            bundle: Some(&bundle),
            deployments,
            ..BundleState::default()
        };
        let status = next(of, state, &accepted(), &Polling::Unchanged, "t");
        status.lifecycle.map(|summary| summary.failed)
    };
    assert_eq!(failed(&of, Some(&[&deployment])), Some(1));
    assert_eq!(failed(&of, None), Some(3), "those of the Bundle");

    of.status = Some(next(&of, Some(&bundle), &accepted(), &Polling::Unchanged, "t"));
    of.spec.bundle.options.lifecycle = None;
    assert_eq!(failed(&of, None), None);
    assert_eq!(failed(&of, Some(&[&deployment])), None);
}
