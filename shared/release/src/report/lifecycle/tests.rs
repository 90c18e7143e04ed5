use std::collections::BTreeMap;

use helmops_api::BundleDeployment;
use serde_json::json;

use super::*;
use crate::{fixture, history::Chart};

const ID: &str = ":new";
const NOW: &str = "2026-01-01T00:00:00Z";

fn at(minutes: i64) -> Timestamp {
    Timestamp::from_second(1_767_225_600 + 60 * minutes).unwrap()
}

fn revision(number: u64, status: Status, id: &str) -> Revision {
    let made_at = at(i64::try_from(number).unwrap());
    let action = if number == 1 {
        AttemptAction::Install
    } else {
        AttemptAction::Upgrade
    };
    Revision {
        made_at: Some(made_at),
        changed_at: Some(made_at),
        chart: Chart {
            name: "web".to_owned(),
            version: format!("1.{number}.0"),
            own_version: None,
        },
        ..fixture::revision(number, status, Some(fixture::attempt(action, id, 1)))
    }
}

fn failed(number: u64, failure: Failure) -> Revision {
    Revision {
        failure: Some(failure),
        ..revision(number, Status::Failed, ID)
    }
}

fn not_ready() -> Failure {
    Failure::NotReady("Deployment shop/web".to_owned())
}

fn rollback(number: u64, status: Status) -> Revision {
    Revision {
        is_rollback: true,
        failure: (status == Status::Failed).then(|| Failure::Helm("Rollback failed: x".to_owned())),
        ..revision(number, status, ":old")
    }
}

fn spec() -> BundleDeploymentSpec {
    let object = json!({ "spec": { "deploymentID": ID, "lifecycle": { "install": {} } } });
    let object: BundleDeployment = serde_json::from_str(&object.to_string()).unwrap();
    object.spec
}

fn deployed() -> DeployOutcome {
    DeployOutcome::Deployed {
        release: "shop/web:1".to_owned(),
    }
}

fn outcome() -> DeployOutcome {
    DeployOutcome::Failed {
        error: "an error".to_owned(),
    }
}

/// The status after a report of these revisions.
fn report(
    mut status: BundleDeploymentStatus,
    revisions: Vec<Revision>,
    outcome: &DeployOutcome,
    progress: &Progress<'_>,
) -> BundleDeploymentStatus {
    let history = History::new(revisions);
    let progress = Progress {
        history: Some(&history),
        ..progress.clone()
    };
    apply(&mut status, &spec(), outcome, &progress, NOW);
    status
}

/// Status and reason of each condition of the life cycle.
fn conditions(status: &BundleDeploymentStatus) -> BTreeMap<&str, String> {
    let short = |one: &Condition| format!("{} {}", one.status, one.reason);
    let all = status.conditions.iter();
    all.map(|one| (one.r#type.as_str(), short(one))).collect()
}

fn message<'s>(status: &'s BundleDeploymentStatus, r#type: &str) -> &'s str {
    let found = status.conditions.iter().find(|one| one.r#type == r#type);
    &found.unwrap().message
}

#[test]
fn every_outcome_of_the_last_attempt_is_a_condition() {
    let before = || revision(1, Status::Superseded, ":old");
    let uninstalled = || Revision {
        status: Status::Uninstalled,
        ..failed(1, Failure::Uninstalled("x".to_owned()))
    };
    let waiting = Progress {
        waiting: Some("Deployment shop/web".to_owned()),
        ..Progress::default()
    };
    let none = Progress::default();
    for (revisions, outcome, progress, expected) in [
        (
            vec![revision(1, Status::Deployed, ID)],
            deployed(),
            &none,
            vec![("Released", "True InstallSucceeded")],
        ),
        (
            vec![revision(2, Status::Deployed, ID), before()],
            deployed(),
            &none,
            vec![("Released", "True UpgradeSucceeded")],
        ),
        (
            vec![revision(2, Status::Deployed, ID), before()],
            DeployOutcome::Unchanged,
            &waiting,
            vec![("Released", "Unknown Progressing")],
        ),
        // Helm has made no record yet.
        (
            vec![before()],
            DeployOutcome::Unchanged,
            &waiting,
            vec![("Released", "Unknown Progressing")],
        ),
        (
            vec![revision(2, Status::PendingUpgrade, ID), before()],
            DeployOutcome::Unchanged,
            &none,
            vec![("Released", "Unknown Progressing")],
        ),
        (
            vec![failed(2, not_ready()), before()],
            outcome(),
            &none,
            vec![("Released", "False UpgradeFailed")],
        ),
        (
            vec![failed(2, Failure::Test("x".to_owned())), before()],
            outcome(),
            &none,
            vec![("Released", "True UpgradeSucceeded")],
        ),
        (
            vec![failed(2, not_ready()), before(), rollback(3, Status::Deployed)],
            outcome(),
            &none,
            vec![
                ("Released", "False UpgradeFailed"),
                ("Remediated", "True RollbackSucceeded"),
            ],
        ),
        (
            vec![failed(2, not_ready()), before(), rollback(3, Status::Failed)],
            outcome(),
            &none,
            vec![
                ("Released", "False UpgradeFailed"),
                ("Remediated", "False RollbackFailed"),
            ],
        ),
        (
            vec![uninstalled()],
            outcome(),
            &none,
            vec![
                ("Released", "False InstallFailed"),
                ("Remediated", "True UninstallSucceeded"),
            ],
        ),
    ] {
        let status = report(
            BundleDeploymentStatus::default(),
            revisions.clone(),
            &outcome,
            progress,
        );
        let expected = expected.into_iter().map(|(name, text)| (name, text.to_owned()));
        assert_eq!(conditions(&status), expected.collect(), "{revisions:?}");
    }
}

#[test]
fn what_failed_without_a_record_is_a_condition() {
    let none = Progress::default();
    for (revisions, outcome, progress, expected) in [
        // Helm made no record: the chart could not be rendered, for example.
        (
            vec![],
            outcome(),
            &none,
            vec![("Released", "False InstallFailed")],
        ),
        (
            vec![revision(1, Status::Deployed, ":old")],
            outcome(),
            &none,
            vec![("Released", "False UpgradeFailed")],
        ),
        // Another agent has deployed it.
        (
            vec![revision(1, Status::Deployed, ":old")],
            deployed(),
            &none,
            vec![("Released", "True UpgradeSucceeded")],
        ),
    ] {
        let status = report(
            BundleDeploymentStatus::default(),
            revisions.clone(),
            &outcome,
            progress,
        );
        let expected = expected.into_iter().map(|(name, text)| (name, text.to_owned()));
        assert_eq!(conditions(&status), expected.collect(), "{revisions:?}");
    }
}

#[test]
fn a_success_ends_the_remediation() {
    let revisions = vec![
        failed(2, not_ready()),
        revision(1, Status::Superseded, ":old"),
        rollback(3, Status::Deployed),
    ];
    let status = report(
        BundleDeploymentStatus::default(),
        revisions.clone(),
        &outcome(),
        &Progress::default(),
    );
    assert!(conditions(&status).contains_key("Remediated"));
    let next = revision(4, Status::Deployed, ID);
    let again = [revisions, vec![next]].concat();
    let waiting = Progress {
        waiting: Some("x".to_owned()),
        ..Progress::default()
    };
    let waiting = report(status.clone(), again.clone(), &DeployOutcome::Unchanged, &waiting);
    assert!(
        conditions(&waiting).contains_key("Remediated"),
        "until it is certain"
    );
    let status = report(status, again, &deployed(), &Progress::default());
    assert!(!conditions(&status).contains_key("Remediated"));
}

#[test]
fn what_is_wanted_again_is_released() {
    let revisions = vec![
        revision(1, Status::Superseded, ID),
        Revision {
            failure: Some(not_ready()),
            ..revision(2, Status::Failed, ":other")
        },
        Revision {
            origin: revision(1, Status::Deployed, ID).origin,
            ..rollback(3, Status::Deployed)
        },
    ];
    let mut before = BundleDeploymentStatus::default();
    for (condition, status) in [("Released", "False"), ("Remediated", "True")] {
        let one = serde_json::json!({ "type": condition, "status": status, "reason": "x" });
        before.conditions.push(serde_json::from_value(one).unwrap());
    }
    let status = report(before, revisions, &deployed(), &Progress::default());
    let found = conditions(&status);
    assert!(found["Released"].starts_with("True"), "{found:?}");
    assert!(!found.contains_key("Remediated"), "{found:?}");
}

#[test]
fn the_resolved_version_is_reported_and_that_of_the_chart_named() {
    let chart = Chart {
        name: "web".to_owned(),
        version: "1.2.3".to_owned(),
        own_version: Some("1.2.3-rc.4".to_owned()),
    };
    let promoted = Revision {
        chart,
        ..revision(1, Status::Deployed, ID)
    };
    let status = report(
        BundleDeploymentStatus::default(),
        vec![promoted],
        &deployed(),
        &Progress::default(),
    );
    // `kubectl helmop rollback` requests what the history has.
    assert_eq!(status.lifecycle.as_ref().unwrap().history[0].version, "1.2.3");
    let expected = "revision 1: chart web 1.2.3 (1.2.3-rc.4 in Chart.yaml)";
    assert_eq!(message(&status, "Released"), expected);
}

#[test]
fn results_of_tests_are_a_condition() {
    for (tests, expected) in [
        (None, None),
        (Some(TestResult::Pending), Some("Unknown AwaitingTests")),
        (Some(TestResult::NoTests), Some("True NoTests")),
        (
            Some(TestResult::Succeeded { tests: 2 }),
            Some("True TestSucceeded"),
        ),
        (Some(TestResult::Failed("x".to_owned())), Some("False TestFailed")),
    ] {
        let progress = Progress {
            tests,
            ..Progress::default()
        };
        let status = report(
            BundleDeploymentStatus::default(),
            vec![revision(1, Status::Deployed, ID)],
            &deployed(),
            &progress,
        );
        assert_eq!(
            conditions(&status).get("TestSuccess").map(String::as_str),
            expected
        );
    }
}

#[test]
fn the_next_attempt_is_reported_with_the_failure() {
    let progress = Progress {
        retry: Some(("what failed, and what comes next".to_owned(), at(9))),
        ..Progress::default()
    };
    let revisions = vec![failed(2, not_ready()), revision(1, Status::Superseded, ":old")];
    let status = report(
        BundleDeploymentStatus::default(),
        revisions,
        &outcome(),
        &progress,
    );
    assert_eq!(message(&status, "Released"), "what failed, and what comes next");
    let own = status.lifecycle.clone().unwrap();
    assert_eq!((own.failures, &*own.next_attempt), (1, "2026-01-01T00:09:00Z"));
    let status = report(
        status,
        vec![revision(3, Status::Deployed, ID)],
        &deployed(),
        &Progress::default(),
    );
    let own = status.lifecycle.unwrap();
    assert_eq!((own.failures, &*own.next_attempt), (0, ""));
}

#[test]
fn the_history_has_the_last_five_attempts_of_records_that_are_gone_too() {
    let mut status = BundleDeploymentStatus::default();
    for number in 1..8 {
        // Helm keeps two records.
        let mut revisions = vec![revision(number, Status::Deployed, ID)];
        if number > 1 {
            revisions.push(revision(number - 1, Status::Superseded, ID));
        }
        status = report(status, revisions, &deployed(), &Progress::default());
    }
    let history = status.lifecycle.clone().unwrap().history;
    let listed: Vec<_> = history.iter().map(|one| (one.revision, &*one.outcome)).collect();
    let expected = [
        (7, "deployed"),
        (6, "superseded"),
        (5, "superseded"),
        (4, "superseded"),
        (3, "superseded"),
    ];
    assert_eq!(listed, expected);
    // Attempt 2 of revision 8 takes the number of attempt 1, whose record was discarded.
    status = report(
        status,
        vec![failed(8, not_ready())],
        &outcome(),
        &Progress::default(),
    );
    let again = Revision {
        made_at: Some(at(20)),
        ..failed(8, not_ready())
    };
    status = report(status, vec![again], &outcome(), &Progress::default());
    let history = status.lifecycle.unwrap().history;
    let listed: Vec<_> = history.iter().map(|one| (one.revision, &*one.outcome)).collect();
    let expected = [
        (8, "failed"),
        (8, "failed"),
        (7, "superseded"),
        (6, "superseded"),
        (5, "superseded"),
    ];
    assert_eq!(listed, expected);
}

#[test]
fn an_attempt_has_the_chart_and_the_cause() {
    let status = report(
        BundleDeploymentStatus::default(),
        vec![failed(2, not_ready())],
        &outcome(),
        &Progress::default(),
    );
    let expected = json!([{
        "revision": 2,
        "action": "upgrade",
        "chart": "web",
        "version": "1.2.0",
        "deploymentID": ID,
        "outcome": "failed",
        "time": "2026-01-01T00:02:00Z",
        "message": "not ready: Deployment shop/web",
    }]);
    let history = status.lifecycle.unwrap().history;
    assert_eq!(serde_json::to_value(history).unwrap(), expected);
}

#[test]
fn without_a_life_cycle_nothing_is_left_of_it() {
    let progress = Progress {
        tests: Some(TestResult::Pending),
        ..Progress::default()
    };
    let mut status = report(
        BundleDeploymentStatus::default(),
        vec![revision(1, Status::Deployed, ID)],
        &deployed(),
        &progress,
    );
    let without = BundleDeploymentSpec {
        lifecycle: None,
        ..spec()
    };
    apply(&mut status, &without, &deployed(), &Progress::default(), NOW);
    assert_eq!(status, BundleDeploymentStatus::default());
}

#[test]
fn suspension_is_reported_and_ends() {
    let mut status = BundleDeploymentStatus::default();
    hold(&mut status, Held::Paused, NOW);
    assert_eq!(status.lifecycle, None);
    hold(&mut status, Held::Suspended, NOW);
    assert!(status.lifecycle.as_ref().unwrap().suspended);
    hold(&mut status, Held::Paused, NOW);
    assert!(
        !status.lifecycle.as_ref().unwrap().suspended,
        "it is only paused now"
    );
    hold(&mut status, Held::Suspended, NOW);
    let status = report(status, vec![], &deployed(), &Progress::default());
    assert!(!status.lifecycle.unwrap().suspended);
}

#[test]
fn handled_requests_stay_until_there_are_others() {
    let requests = Requests {
        force: "1".to_owned(),
        ..Requests::default()
    };
    let progress = Progress {
        handled: Some(&requests),
        ..Progress::default()
    };
    let status = report(BundleDeploymentStatus::default(), vec![], &deployed(), &progress);
    let status = report(status, vec![], &deployed(), &Progress::default());
    assert_eq!(status.lifecycle.unwrap().handled, Some(requests));
}
