use std::time::Duration;

use helmops_api::{BundleDeploymentOptions, Lifecycle, helm::HelmOptions};

use super::*;
use crate::{
    fixture,
    history::{Chart, Revision},
    lifecycle::Remediation,
    record::Cause,
    state::Wanted,
};

const ID: &str = ":new";
const OLD: &str = ":old";
/// When attempts failed.
pub(super) const FAILED_AT: i64 = 1_000_000;
const INTERVAL: u64 = 60;

pub(super) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap()
}

fn revision(number: u64, status: Status, id: &str, attempt: (AttemptAction, u32)) -> Revision {
    Revision {
        changed_at: Some(at(FAILED_AT)),
        chart: Chart {
            name: "web".to_owned(),
            version: "1.2.0".to_owned(),
            own_version: None,
        },
        ..fixture::revision(number, status, Some(fixture::attempt(attempt.0, id, attempt.1)))
    }
}

fn good(number: u64, status: Status) -> Revision {
    revision(number, status, OLD, (AttemptAction::Install, 1))
}

fn failed(number: u64, attempt: u32) -> Revision {
    Revision {
        failure: Some(Failure::NotReady("Deployment shop/web is not ready".to_owned())),
        ..revision(number, Status::Failed, ID, (AttemptAction::Upgrade, attempt))
    }
}

fn failed_install(number: u64, attempt: u32) -> Revision {
    Revision {
        failure: Some(Failure::Helm("x".to_owned())),
        ..revision(number, Status::Failed, ID, (AttemptAction::Install, attempt))
    }
}

fn rollback(number: u64, status: Status) -> Revision {
    Revision {
        is_rollback: true,
        failure: (status == Status::Failed).then(|| Failure::Helm("Rollback failed".to_owned())),
        ..good(number, status)
    }
}

fn uninstalled(revision: Revision) -> Revision {
    Revision {
        status: Status::Uninstalled,
        failure: Some(Failure::Uninstalled("x".to_owned())),
        ..revision
    }
}

fn policy(remediation: Remediation, retries: u32) -> Policy {
    let schedule = Schedule::Intervals {
        retries,
        interval: Duration::from_secs(INTERVAL),
    };
    fixture::policy(schedule, remediation)
}

fn wanted() -> Wanted<'static> {
    Wanted {
        bundle_deployment: "web",
        deployment_id: ID,
        applied: None,
        takes_ownership: false,
    }
}

/// The step, as text: without the parts that only refer to the revisions.
fn step(revisions: &[Revision], policy: &Policy, seconds: i64, requested: Requested) -> String {
    step_after(revisions, policy, seconds, requested, true)
}

/// The same, if the failure was reported or not.
fn step_after(
    revisions: &[Revision],
    policy: &Policy,
    seconds: i64,
    requested: Requested,
    is_reported: bool,
) -> String {
    let history = History::new(revisions.to_vec());
    let situation = Situation {
        state: ReleaseState::of(&wanted(), &history),
        history: &history,
        policy,
        deployment_id: ID,
        requested,
        is_reported,
        now: at(FAILED_AT + seconds),
    };
    let step = next(situation);
    if let Step::Wait(retry) = step {
        return format!("wait {}", retry.at.as_second() - FAILED_AT);
    }
    text(&step)
}

/// A step, as text.
pub(super) fn text(step: &Step<'_>) -> String {
    match step {
        Step::Act(Action::Install { replaces }) => format!("install, replaces: {replaces}"),
        Step::Act(Action::Upgrade { discard: None }) => "upgrade".to_owned(),
        Step::Act(Action::Upgrade {
            discard: Some(revision),
        }) => format!("upgrade without {revision}"),
        Step::Act(Action::Wait(pending)) => format!("wait for {}", pending.revision),
        Step::Act(action) => format!("{action:?}"),
        Step::Rollback { to, .. } => format!("roll back to {to}"),
        Step::Uninstall { keeps_record, .. } => format!("uninstall, keeps record: {keeps_record}"),
        Step::Wait(Retry { at, remedy, .. }) => format!("wait {}, {remedy:?}", at.as_second() - FAILED_AT),
    }
}

#[test]
fn a_failed_upgrade_is_rolled_back_once_and_repeated_when_it_is_due() {
    let policy = policy(Remediation::Rollback, 1);
    let before = good(1, Status::Superseded);
    let restored = [failed(2, 1), before.clone(), rollback(3, Status::Deployed)];
    let last = [failed(4, 2), before.clone(), rollback(5, Status::Deployed)];
    for (revisions, seconds, expected) in [
        (&[failed(2, 1), before.clone()][..], 0, "roll back to 1"),
        // Also if the agent was away meanwhile.
        (&[failed(2, 1), before.clone()], 9999, "roll back to 1"),
        // Helm failed before it changed the status of the revision before.
        (&[failed(2, 1), good(1, Status::Deployed)], 0, "roll back to 1"),
        (&restored, 0, "wait 60"),
        (&restored, 59, "wait 60"),
        (&restored, 60, "upgrade"),
        (
            &[failed(4, 2), before.clone(), rollback(3, Status::Superseded)],
            0,
            "roll back to 3",
        ),
        (&last, 60, "wait 3600"),
        (&last, 3600, "upgrade"),
    ] {
        assert_eq!(
            step(revisions, &policy, seconds, Requested::default()),
            expected,
            "{revisions:?}"
        );
    }
}

/// A remediation may take longer than the interval. Then the next attempt is due before anything is known of the last one.
#[test]
fn a_failure_is_reported_before_the_next_attempt() {
    let rolled_back = [
        failed(2, 1),
        good(1, Status::Superseded),
        rollback(3, Status::Deployed),
    ];
    let plain = [failed(2, 1), good(1, Status::Superseded)];
    let install = [uninstalled(failed_install(1, 1))];
    let upgrade = [uninstalled(failed(2, 1)), good(1, Status::Superseded)];
    for (revisions, remediation, expected, then) in [
        (&rolled_back[..], Remediation::Rollback, "wait 60", "upgrade"),
        (&plain, Remediation::None, "wait 60", "upgrade without 2"),
        (
            &install,
            Remediation::Uninstall,
            "wait 60",
            "install, replaces: true",
        ),
        (
            &upgrade,
            Remediation::Uninstall,
            "wait 0",
            "install, replaces: true",
        ),
    ] {
        let policy = policy(remediation, 1);
        let step = |is_reported| step_after(revisions, &policy, 9999, Requested::default(), is_reported);
        assert_eq!([step(false), step(true)], [expected, then], "{revisions:?}");
    }
    // What was started is completed before.
    let policy = policy(Remediation::Rollback, 1);
    let step = step_after(&plain, &policy, 9999, Requested::default(), false);
    assert_eq!(step, "roll back to 1");
}

#[test]
fn a_rollback_that_failed_is_repeated_until_the_next_attempt_is_due() {
    let policy = policy(Remediation::Rollback, 1);
    let revisions = [
        good(1, Status::Superseded),
        failed(2, 1),
        rollback(3, Status::Failed),
    ];
    assert_eq!(
        step(&revisions, &policy, 0, Requested::default()),
        "roll back to 1"
    );
    assert_eq!(step(&revisions, &policy, 60, Requested::default()), "upgrade");
}

/// The attempt was forced, or its copies have changed. Otherwise it would be repeated immediately, or never.
#[test]
fn a_rollback_to_the_same_deployment_is_no_success() {
    let same = |status| revision(1, status, ID, (AttemptAction::Install, 1));
    let restored = Revision {
        is_rollback: true,
        number: 3,
        ..same(Status::Deployed)
    };
    let revisions = [same(Status::Superseded), failed(2, 1), restored.clone()];
    let rolls_back = policy(Remediation::Rollback, 1);
    let step_at = |seconds| step(&revisions, &rolls_back, seconds, Requested::default());
    assert_eq!([step_at(59), step_at(60)], ["wait 60", "upgrade"]);
    let other_failed = Revision {
        failure: Some(Failure::Helm("x".to_owned())),
        ..revision(2, Status::Failed, ":other", (AttemptAction::Upgrade, 1))
    };
    for (revisions, expected) in [
        (revisions.to_vec(), None),
        (vec![same(Status::Deployed)], Some(1)),
        // What runs is wanted again.
        (vec![same(Status::Superseded), other_failed, restored], Some(3)),
        (vec![good(1, Status::Deployed)], None),
    ] {
        let history = History::new(revisions);
        let state = ReleaseState::of(&wanted(), &history);
        assert_eq!(completed(&state, &history, ID), expected, "{history:?}");
    }
}

/// Helm overwrites the failure when it begins.
#[test]
fn an_uninstallation_that_has_not_ended_was_a_remediation_if_the_policy_says_so() {
    let uninstalling = |revision: Revision| Revision {
        status: Status::Uninstalling,
        failure: None,
        ..revision
    };
    let accepted = uninstalling(failed(2, 1)).labelled(Some(Acceptance::Accepted));
    let awaited = uninstalling(failed(2, 1)).labelled(Some(Acceptance::Awaited));
    let mut keeps_last = policy(Remediation::Uninstall, 0);
    keeps_last.upgrade.remediates_last = false;
    let uninstalls = policy(Remediation::Uninstall, 1);
    let atomic = serde_json::from_str(r#"{"helm":{"atomic":true}}"#).unwrap();
    for (revision, policy, expected) in [
        (uninstalling(failed(2, 1)), &uninstalls, true),
        (uninstalling(failed_install(1, 1)), &uninstalls, true),
        (awaited, &uninstalls, true),
        // It had not failed: its BundleDeployment was deleted, and is there again.
        (accepted, &uninstalls, false),
        (uninstalling(good(1, Status::Deployed)), &uninstalls, false),
        (failed(2, 1), &uninstalls, false),
        (
            uninstalling(failed(2, 1)),
            &policy(Remediation::Rollback, 1),
            false,
        ),
        (uninstalling(failed(2, 1)), &keeps_last, false),
        // Its attempts are not counted.
        (
            uninstalling(failed_install(1, 1)),
            &Policy::of(&atomic, None),
            false,
        ),
    ] {
        let history = History::new(vec![revision]);
        assert_eq!(is_remediation(&history, policy, ID), expected, "{history:?}");
    }
}

/// The policy was changed after a rollback: only what failed itself is uninstalled, not what a rollback may have restored in part.
#[test]
fn a_rollback_that_failed_is_not_uninstalled() {
    let revisions = [
        good(1, Status::Superseded),
        failed(2, 1),
        rollback(3, Status::Failed),
    ];
    let policy = policy(Remediation::Uninstall, 1);
    let step = |seconds| step(&revisions, &policy, seconds, Requested::default());
    assert_eq!(step(1), "wait 60");
    assert_eq!(step(60), "upgrade");
}

#[test]
fn without_a_revision_to_restore_nothing_is_rolled_back() {
    let policy = policy(Remediation::Rollback, 1);
    assert_eq!(step(&[failed(2, 1)], &policy, 0, Requested::default()), "wait 60");
}

#[test]
fn a_failed_installation_is_uninstalled_and_repeated_as_one() {
    let policy = policy(Remediation::Uninstall, 3);
    for (revision, seconds, expected) in [
        (failed_install(1, 1), 0, "uninstall, keeps record: true"),
        (uninstalled(failed_install(1, 1)), 0, "wait 60"),
        (uninstalled(failed_install(1, 1)), 60, "install, replaces: true"),
        (uninstalled(failed_install(1, 4)), 60, "wait 3600"),
    ] {
        assert_eq!(
            step(&[revision], &policy, seconds, Requested::default()),
            expected
        );
    }
}

#[test]
fn an_upgrade_that_was_uninstalled_is_installed_immediately() {
    let policy = policy(Remediation::Uninstall, 0);
    let revisions = [uninstalled(failed(2, 1)), good(1, Status::Superseded)];
    assert_eq!(
        step(&revisions, &policy, 0, Requested::default()),
        "install, replaces: true"
    );
}

#[test]
fn without_remediation_the_same_revision_is_tried_again() {
    let policy = policy(Remediation::None, 1);
    let revisions = [failed(2, 1), good(1, Status::Superseded)];
    assert_eq!(step(&revisions, &policy, 59, Requested::default()), "wait 60");
    // Its record is of no use: attempts do not add revisions.
    assert_eq!(
        step(&revisions, &policy, 60, Requested::default()),
        "upgrade without 2"
    );
    assert_eq!(
        step(&[failed_install(1, 1)], &policy, 60, Requested::default()),
        "install, replaces: true"
    );
}

#[test]
fn the_last_failure_may_be_left_for_inspection() {
    let mut policy = policy(Remediation::Rollback, 1);
    policy.upgrade.remediates_last = false;
    let before = good(1, Status::Superseded);
    let first = [failed(2, 1), before.clone()];
    let last = [failed(4, 2), before];
    assert_eq!(step(&first, &policy, 0, Requested::default()), "roll back to 1");
    assert_eq!(step(&last, &policy, 0, Requested::default()), "wait 3600");
}

#[test]
fn a_request_makes_the_next_attempt_due() {
    let policy = policy(Remediation::Rollback, 0);
    let revisions = [
        good(1, Status::Superseded),
        failed(2, 1),
        rollback(3, Status::Deployed),
    ];
    let none = Requested::default();
    for requested in [
        Requested {
            attempt: true,
            ..none
        },
        Requested { force: true, ..none },
        Requested { reset: true, ..none },
    ] {
        assert_eq!(
            step(&revisions, &policy, 0, requested),
            "upgrade",
            "{requested:?}"
        );
    }
    let current = [revision(2, Status::Deployed, ID, (AttemptAction::Upgrade, 1))];
    for (requested, expected) in [
        (none, "None"),
        (
            Requested {
                attempt: true,
                ..none
            },
            "None",
        ),
        (Requested { reset: true, ..none }, "None"),
        (Requested { force: true, ..none }, "upgrade"),
    ] {
        assert_eq!(step(&current, &policy, 0, requested), expected, "{requested:?}");
    }
}

#[test]
fn failures_of_another_deployment_do_not_count() {
    let policy = policy(Remediation::Rollback, 0);
    let other = Revision {
        failure: Some(Failure::Helm("x".to_owned())),
        ..revision(2, Status::Failed, ":other", (AttemptAction::Upgrade, 5))
    };
    let revisions = [other, good(1, Status::Superseded)];
    assert_eq!(step(&revisions, &policy, 0, Requested::default()), "upgrade");
    // What failed once is tried again after something else was deployed.
    let revisions = [
        failed(2, 1),
        good(1, Status::Superseded),
        good(3, Status::Deployed),
    ];
    assert_eq!(step(&revisions, &policy, 0, Requested::default()), "upgrade");
}

#[test]
fn an_interrupted_attempt_is_repeated_immediately() {
    let policy = policy(Remediation::Rollback, 0);
    let interrupted = Revision {
        failure: None,
        ..failed(2, 1)
    };
    let revisions = [interrupted, good(1, Status::Superseded)];
    assert_eq!(
        step(&revisions, &policy, 0, Requested::default()),
        "upgrade without 2"
    );
}

#[test]
fn fleets_policy_leaves_the_time_to_the_backoff() {
    let atomic = Policy::of(
        &serde_json::from_str(r#"{"helm":{"atomic":true}}"#).unwrap(),
        None,
    );
    let before = good(1, Status::Superseded);
    let restored = [failed(2, 1), before.clone(), rollback(3, Status::Deployed)];
    assert_eq!(
        step(&[failed(2, 1), before], &atomic, 0, Requested::default()),
        "roll back to 1"
    );
    assert_eq!(step(&restored, &atomic, 0, Requested::default()), "upgrade");
    assert_eq!(
        step(&[failed_install(1, 1)], &atomic, 0, Requested::default()),
        "uninstall, keeps record: false"
    );
    let plain = Policy::of(&serde_json::from_str("{}").unwrap(), None);
    let revisions = [failed(2, 1), good(1, Status::Superseded)];
    assert_eq!(
        step(&revisions, &plain, 0, Requested::default()),
        "upgrade without 2"
    );
}

#[test]
fn the_message_has_the_cause_then_what_runs_then_what_comes_next() {
    let history = History::new(vec![failed(2, 1), good(1, Status::Superseded)]);
    let retry = |number, remedy| {
        let mut history = history.clone();
        if number > 1 {
            history = History::new(vec![failed(2, number)]);
        }
        Retry {
            failed: history.failed_attempt(ID).unwrap(),
            attempts: 2,
            at: at(FAILED_AT),
            remedy,
        }
        .to_string()
    };
    assert_eq!(
        retry(1, Remedy::RolledBack { revision: 3 }),
        "upgrade to chart web 1.2.0 failed (attempt 1 of 2): not ready: Deployment shop/web is not ready; rolled back, as revision 3; \
         next attempt at 1970-01-12T13:46:40Z"
    );
    assert_eq!(
        retry(3, Remedy::NoRevision),
        "upgrade to chart web 1.2.0 failed (attempt 3): not ready: Deployment shop/web is not ready; not rolled back, because no earlier \
         revision was deployed; next attempt at 1970-01-12T13:46:40Z, then once an hour"
    );
}

/// With a life cycle the next attempt follows after the interval; without one, the backoff delays it.
#[test]
fn a_release_that_may_share_objects_is_not_uninstalled() {
    let installed = || vec![failed_install(1, 1)];
    let uninstalls = policy(Remediation::Uninstall, 1);
    let kept = uninstalls.clone().without_uninstallation(KeptBecause::OtherName);
    assert!(step(&installed(), &uninstalls, 0, Requested::default()).starts_with("uninstall"));
    assert_eq!(step(&installed(), &kept, 0, Requested::default()), "wait 60");
    let fleet = atomic().without_uninstallation(KeptBecause::OtherName);
    assert_eq!(
        step(&installed(), &fleet, 0, Requested::default()),
        "install, replaces: true"
    );
    // What a rollback restores is complete.
    assert_eq!(fleet.upgrade.remediation, Remediation::Rollback);
}

/// An installation over the objects of lost records failed: what was there before is not the attempt's to delete.
#[test]
fn what_is_older_than_the_attempt_is_not_uninstalled() {
    let missing = |number, attempt| {
        let mut revision = failed_install(number, attempt);
        revision.origin.attempt.as_mut().unwrap().cause = Cause::Missing;
        revision
    };
    let uninstalls = policy(Remediation::Uninstall, 1);
    assert!(step(&[failed_install(1, 1)], &uninstalls, 0, Requested::default()).starts_with("uninstall"));
    assert_eq!(
        step(&[missing(1, 1)], &uninstalls, 0, Requested::default()),
        "wait 60"
    );
    let fleet = atomic();
    assert_eq!(
        step(&[missing(1, 1)], &fleet, 0, Requested::default()),
        "install, replaces: true"
    );
    // Further attempts are over the same objects, until one succeeds: also for another deployment, or on request.
    for (revisions, expected) in [
        (vec![missing(1, 1)], Cause::Missing),
        (vec![failed_install(2, 2), missing(1, 1)], Cause::Missing),
        (vec![failed_install(1, 1)], Cause::Request),
        (
            vec![failed_install(3, 1), good(2, Status::Superseded), missing(1, 1)],
            Cause::Request,
        ),
    ] {
        let history = History::new(revisions);
        let next = history.next_attempt(":other", AttemptAction::Install, Cause::Request, true);
        assert_eq!(next.cause, expected, "{history:?}");
        let upgrade = history.next_attempt(ID, AttemptAction::Upgrade, Cause::Request, true);
        assert_eq!(upgrade.cause, Cause::Request);
    }
}

/// A clock that was wrong when the attempt failed delays the next one by an interval at most.
#[test]
fn a_failure_in_the_future_does_not_stop_the_release() {
    let policy = policy(Remediation::None, 1);
    let interval = i64::try_from(INTERVAL).unwrap();
    for (before, expected) in [
        (0, "wait 60"),
        (interval, "wait 60"),
        (interval + 1, "install, replaces: true"),
        (FAILED_AT / 2, "install, replaces: true"),
    ] {
        let step = step(&[failed_install(1, 1)], &policy, -before, Requested::default());
        assert_eq!(step, expected, "{before}");
    }
}

#[test]
fn objects_that_are_to_stay_are_not_uninstalled_after_a_failure() {
    let lifecycle = Lifecycle {
        on_delete: "Keep".to_owned(),
        ..Lifecycle::default()
    };
    let keeps = BundleDeploymentOptions {
        keep_resources: true,
        ..atomic_options()
    };
    for policy in [
        Policy::of(&keeps, None),
        Policy::of(&atomic_options(), Some(&lifecycle)),
    ] {
        assert_eq!(
            policy.install.remediation,
            Remediation::Keep(KeptBecause::Options)
        );
        assert_eq!(policy.upgrade.remediation, Remediation::Rollback);
        assert_eq!(
            step(&[failed_install(1, 1)], &policy, 0, Requested::default()),
            "install, replaces: true"
        );
    }
}

fn atomic_options() -> BundleDeploymentOptions {
    BundleDeploymentOptions {
        helm: Some(HelmOptions {
            atomic: true,
            ..HelmOptions::default()
        }),
        ..BundleDeploymentOptions::default()
    }
}

fn atomic() -> Policy {
    Policy::of(&atomic_options(), None)
}

/// Long messages are cut, and `kubectl get` shows one line.
#[test]
fn the_log_of_a_test_is_the_end_of_the_message() {
    let test = Revision {
        failure: Some(Failure::Test("Pod shop/check failed\nGET /\n503".to_owned())),
        ..failed(2, 1)
    };
    let history = History::new(vec![test, good(1, Status::Superseded)]);
    let retry = Retry {
        failed: history.failed_attempt(ID).unwrap(),
        attempts: 1,
        at: at(FAILED_AT),
        remedy: Remedy::RolledBack { revision: 3 },
    };
    assert!(retry.is_first_slow());
    assert_eq!(
        retry.to_string(),
        "upgrade to chart web 1.2.0 failed (attempt 1): test failed: Pod shop/check failed; rolled back, as revision 3; next attempt at \
         1970-01-12T13:46:40Z, then once an hour\nGET /\n503"
    );
}

/// What a wait says about attempts and about what runs.
#[test]
fn a_wait_counts_the_attempts_and_names_what_runs() {
    let waiting = |revision: Revision| {
        let history = History::new(vec![good(1, Status::Superseded), revision]);
        let policy = policy(Remediation::None, 1);
        let situation = Situation {
            state: ReleaseState::of(&wanted(), &history),
            history: &history,
            policy: &policy,
            deployment_id: ID,
            requested: Requested::default(),
            is_reported: true,
            now: at(FAILED_AT),
        };
        match next(situation) {
            Step::Wait(retry) => (retry.attempts, retry.is_first_slow(), retry.running()),
            step => panic!("{step:?}"),
        }
    };
    let failed_with = |failure, attempt| Revision {
        failure: Some(failure),
        ..failed(2, attempt)
    };
    let cause = || "x".to_owned();
    assert_eq!(
        waiting(failed_with(Failure::NotReady(cause()), 1)),
        (2, false, Some(2))
    );
    // Its objects are on the cluster, all of them.
    assert_eq!(
        waiting(failed_with(Failure::Test(cause()), 2)),
        (2, true, Some(2))
    );
    assert_eq!(waiting(failed_with(Failure::Helm(cause()), 3)), (2, false, None));
}

#[test]
fn only_a_revision_that_was_not_ready_may_recover() {
    let helm = Revision {
        failure: Some(Failure::Helm("x".to_owned())),
        ..failed(2, 1)
    };
    for (revisions, expected) in [
        (vec![failed(2, 1)], Some(2)),
        (vec![helm], None),
        (vec![failed(2, 1), rollback(3, Status::Deployed)], None),
        (vec![uninstalled(failed(2, 1))], None),
    ] {
        assert_eq!(may_recover(&History::new(revisions), ID), expected);
    }
}

#[test]
fn each_token_counts_once() {
    let requests = |text: &str| Requests {
        reconcile: text.to_owned(),
        force: text.to_owned(),
        reset: text.to_owned(),
        ..Requests::default()
    };
    let all = Requested {
        attempt: true,
        force: true,
        reset: true,
    };
    for (requested, handled, expected) in [
        (None, requests(""), Requested::default()),
        (Some(requests("")), requests("1"), Requested::default()),
        (Some(requests("1")), requests(""), all),
        (Some(requests("1")), requests("1"), Requested::default()),
        (Some(requests("2")), requests("1"), all),
    ] {
        assert_eq!(Requested::of(requested.as_ref(), &handled), expected);
    }
}
