use std::time::Duration;

use helmops_api::lifecycle::Requests;
use serde_json::{Value, json};

use super::*;
use crate::{
    fixture,
    history::{Origin, Owner, Revision},
    record::Failure,
};

const ID: &str = ":new";
const OLD: &str = ":old";

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_000_000 + seconds).unwrap()
}

/// BundleDeployment `web` with these fields in its spec and status.
fn deployment(spec: &Value, status: &Value) -> BundleDeployment {
    let mut deployment = json!({
        "metadata": { "name": "web" },
        "spec": { "deploymentID": ID },
        "status": {},
    });
    for (part, fields) in [("spec", spec), ("status", status)] {
        for (name, value) in fields.as_object().unwrap() {
            deployment[part][name] = value.clone();
        }
    }
    serde_json::from_value(deployment).unwrap()
}

/// Three attempts, with a minute between them.
fn retries(remediation: Remediation) -> Policy {
    let schedule = Schedule::Intervals {
        retries: 2,
        interval: Duration::from_mins(1),
    };
    fixture::policy(schedule, remediation)
}

fn fleet(remediation: Remediation) -> Policy {
    fixture::policy(Schedule::Backoff, remediation)
}

fn revision(number: u64, status: Status, id: &str) -> Revision {
    let action = if number == 1 {
        AttemptAction::Install
    } else {
        AttemptAction::Upgrade
    };
    Revision {
        made_at: Some(at(0)),
        changed_at: Some(at(0)),
        ..fixture::revision(number, status, Some(fixture::attempt(action, id, 1)))
    }
}

fn failed(number: u64) -> Revision {
    Revision {
        failure: Some(Failure::Helm("no".to_owned())),
        ..revision(number, Status::Failed, ID)
    }
}

fn rollback(number: u64) -> Revision {
    Revision {
        is_rollback: true,
        ..revision(number, Status::Deployed, OLD)
    }
}

fn of_user(number: u64) -> Revision {
    let origin = Origin {
        owner: Owner::Other,
        attempt: None,
    };
    Revision {
        origin,
        ..revision(number, Status::Deployed, OLD)
    }
}

/// What the plan follows from, with the values of most tests.
struct Case {
    deployment: BundleDeployment,
    policy: Policy,
    requested: Requested,
    history: Vec<Revision>,
    others: Vec<Vec<Revision>>,
    /// The deployment ID with a digest of values, if there is one.
    input: Option<&'static str>,
    values_changed: bool,
    done: DoneSoFar,
    seconds: i64,
}

impl Case {
    fn new(history: impl Into<Vec<Revision>>) -> Self {
        Self {
            deployment: deployment(&json!({}), &json!({})),
            policy: fleet(Remediation::None),
            requested: Requested::default(),
            history: history.into(),
            others: Vec::new(),
            input: None,
            values_changed: false,
            done: DoneSoFar::default(),
            seconds: 1,
        }
    }

    fn plan(&self) -> Plan {
        let release = ReleaseKey::parse("shop/web").unwrap();
        let desired = DesiredRelease {
            release: &release,
            deployment: &self.deployment,
            input: self
                .input
                .unwrap_or(&self.deployment.spec.deployment_id)
                .to_owned(),
            values_changed: self.values_changed,
            policy: &self.policy,
            requested: self.requested,
        };
        let observed = ObservedRelease {
            history: History::new(self.history.clone()),
            others: self.others.iter().cloned().map(History::new).collect(),
            now: at(self.seconds),
        };
        next(&desired, &observed, self.done)
    }

    fn operation(&self) -> Operation {
        match self.plan() {
            Plan::Operate(operation) => operation,
            other => panic!("{other:?}"),
        }
    }

    /// The action and the cause of the attempt that follows.
    fn attempt(&self) -> (AttemptAction, Cause) {
        match self.operation() {
            Operation::Install { attempt, .. } | Operation::Upgrade { attempt, .. } => {
                (attempt.action, attempt.cause)
            }
            other => panic!("{other:?}"),
        }
    }

    /// The deployed revision.
    fn settled(&self) -> Option<u64> {
        match self.plan() {
            Plan::UpToDate(deployed) => Some(deployed.id.number),
            _ => None,
        }
    }
}

fn force(case: &mut Case, token: &str) {
    let requests = Requests {
        force: token.to_owned(),
        ..Requests::default()
    };
    let lifecycle = case.deployment.spec.lifecycle.get_or_insert_default();
    lifecycle.requests = Some(requests);
    case.requested.force = true;
}

#[test]
fn what_is_deployed_as_wanted_stays() {
    let case = Case::new([revision(1, Status::Deployed, ID)]);
    assert_eq!(case.settled(), Some(1));
    let case = Case::new([revision(1, Status::Deployed, OLD)]);
    assert_eq!(case.attempt(), (AttemptAction::Upgrade, Cause::Change));
    let case = Case::new([]);
    assert_eq!(case.attempt(), (AttemptAction::Install, Cause::Change));
}

/// An agent that was killed before it wrote the status must not deploy again.
#[test]
fn a_request_for_another_deployment_has_its_effect_once() {
    let mut case = Case::new([revision(1, Status::Deployed, ID)]);
    force(&mut case, "1");
    assert_eq!(case.attempt(), (AttemptAction::Upgrade, Cause::Request));
    case.history[0].forced_by = Some("1".to_owned());
    assert_eq!(case.settled(), Some(1));
    case.history[0].forced_by = Some("0".to_owned());
    assert_eq!(case.attempt(), (AttemptAction::Upgrade, Cause::Request));
    // Nor is it repeated after the attempt that it led to has failed in this reconciliation.
    case.done.has_failed = true;
    assert_eq!(case.settled(), Some(1));
}

/// A failure with other values says nothing of these. What was deployed without a digest stays: it has the values of its time.
#[test]
fn changed_values_are_deployed_immediately() {
    let deployed = |id| revision(1, Status::Deployed, id);
    for (history, input, expected) in [
        (vec![deployed(":new#a")], ":new#a", None),
        (vec![deployed(":new#a")], ":new#b", Some((Cause::Values, 1))),
        (vec![deployed(":new")], ":new#b", None),
        (vec![deployed(":new#a")], ":new", None),
        (vec![deployed(":old#a")], ":new#a", Some((Cause::Change, 1))),
        (
            vec![
                deployed(":old"),
                Revision {
                    failure: Some(Failure::Helm("no".to_owned())),
                    ..revision(2, Status::Failed, ":new#a")
                },
            ],
            ":new#b",
            Some((Cause::Values, 1)),
        ),
    ] {
        let case = Case {
            input: Some(input),
            policy: retries(Remediation::None),
            ..Case::new(history.clone())
        };
        let found = match case.plan() {
            Plan::Operate(Operation::Upgrade { attempt, .. }) => {
                assert_eq!(attempt.deployment_id, input);
                Some((attempt.cause, attempt.number))
            }
            Plan::UpToDate(_) => None,
            other => panic!("{other:?}"),
        };
        assert_eq!(found, expected, "{history:?} {input}");
    }
}

/// Those of Fleet's agent and of earlier versions: what has changed since they were first seen is deployed, once.
#[test]
fn a_revision_that_does_not_show_its_values_is_upgraded_when_they_change() {
    let plan = |id, values_changed| {
        let case = Case {
            input: Some(":new#b"),
            values_changed,
            ..Case::new([revision(1, Status::Deployed, id)])
        };
        case.plan()
    };
    assert!(matches!(plan(":new", false), Plan::UpToDate(_)));
    assert!(matches!(plan(":new#b", true), Plan::UpToDate(_)));
    let Plan::Operate(Operation::Upgrade { attempt, .. }) = plan(":new", true) else {
        panic!("{:?}", plan(":new", true))
    };
    assert_eq!(
        (attempt.cause, &*attempt.deployment_id),
        (Cause::Values, ":new#b")
    );
}

#[test]
fn other_copies_are_deployed_by_their_generation() {
    let copies = json!({
        "options": { "downstreamResources": [{ "kind": "Secret", "name": "a" }] },
        "downstreamResourcesGeneration": 2,
    });
    let reported = |generation: i64| {
        json!({
            "release": "shop/web:1",
            "appliedDeploymentID": ID,
            "downstreamResourcesGeneration": generation,
        })
    };
    for (recorded, status, are_changed, is_repeated) in [
        (Some(2), json!({}), true, false),
        (Some(1), json!({}), false, true),
        (Some(1), reported(2), false, true),
        // Fleet's agent records nothing of them.
        (None, reported(2), true, false),
        (None, reported(1), false, true),
        (None, json!({}), true, true),
        (None, json!({}), false, false),
    ] {
        let mut case = Case::new([revision(1, Status::Deployed, ID)]);
        case.deployment = deployment(&copies, &status);
        case.history[0].copies = recorded;
        case.done.has_changed_copies = are_changed;
        let settled = (!is_repeated).then_some(1);
        assert_eq!(case.settled(), settled, "{recorded:?} {status} {are_changed}");
        // What this reconciliation has made is not deployed twice.
        for done in [
            DoneSoFar {
                adoption: Adoption::Adopted,
                ..case.done
            },
            DoneSoFar {
                has_failed: true,
                ..case.done
            },
        ] {
            case.done = done;
            assert_eq!(case.settled(), Some(1));
        }
    }
    let mut case = Case::new([revision(1, Status::Deployed, ID)]);
    case.done.has_changed_copies = true;
    assert_eq!(case.settled(), Some(1), "it wants no copies");
}

#[test]
fn a_name_that_was_changed_back_is_deployed_again() {
    for (made_at, is_repeated) in [(Some(-1), false), (Some(1), true), (None, false)] {
        let mut case = Case::new([revision(1, Status::Deployed, ID)]);
        case.others = vec![vec![Revision {
            made_at: made_at.map(at),
            ..revision(1, Status::Deployed, ID)
        }]];
        assert_eq!(case.settled(), (!is_repeated).then_some(1), "{made_at:?}");
        case.others[0][0].origin.owner = Owner::Other;
        assert_eq!(case.settled(), Some(1), "it belongs to a user now");
        // A record of long ago.
        case.others[0][0].origin.owner = Owner::BundleDeployment("web".to_owned());
        case.history[0].made_at = None;
        assert_eq!(case.settled(), Some(1), "{made_at:?}");
    }
}

#[test]
fn nothing_is_uninstalled_beside_a_release_of_another_name() {
    let mut case = Case::new([failed(1)]);
    case.policy = fleet(Remediation::Uninstall);
    let uninstall = Operation::Uninstall {
        keeps_record: false,
        failed: FailedRevision {
            number: 1,
            cause: "no".to_owned(),
            is_reported_after: true,
        },
    };
    case.done.has_failed = true;
    assert_eq!(case.operation(), uninstall);
    case.others = vec![vec![revision(1, Status::Uninstalled, OLD)]];
    assert_eq!(case.operation(), uninstall);
    case.others = vec![vec![of_user(1)]];
    assert_eq!(case.operation(), uninstall);
    case.others = vec![vec![revision(1, Status::Failed, OLD)]];
    let report = UnreportedFailure {
        text: "release web failed: no".to_owned(),
        kept: Some(KeptBecause::OtherName),
    };
    assert_eq!(case.plan(), Plan::Report(report));
}

#[test]
fn a_failure_is_reported_before_the_next_attempt() {
    for history in [
        vec![failed(1)],
        vec![revision(1, Status::Deployed, OLD), failed(2)],
    ] {
        let mut case = Case::new(history);
        case.attempt();
        case.done.has_failed = true;
        let report = UnreportedFailure {
            text: "release web failed: no".to_owned(),
            kept: None,
        };
        assert_eq!(case.plan(), Plan::Report(report));
        // Another client has made an operation of it, which has to be ended first.
        let newest = case.history.last_mut().unwrap();
        newest.status = Status::PendingUpgrade;
        let revision = newest.number;
        assert_eq!(case.operation(), Operation::Unlock { revision });
        // Or a user has installed another release in its place.
        *case.history.last_mut().unwrap() = self::revision(revision, Status::Deployed, OLD);
        assert_eq!(case.plan(), Plan::ChangedMeanwhile);
    }
}

#[test]
fn a_remediation_without_a_life_cycle_is_followed_by_the_report() {
    for (policy, is_reported_after) in [
        (fleet(Remediation::Rollback), true),
        (retries(Remediation::Rollback), false),
    ] {
        let mut case = Case::new([revision(1, Status::Superseded, OLD), failed(2)]);
        case.policy = policy;
        case.done.has_failed = true;
        let Operation::Rollback { to, failed } = case.operation() else {
            panic!("no rollback");
        };
        let expected = FailedRevision {
            number: 2,
            cause: "no".to_owned(),
            is_reported_after,
        };
        assert_eq!((to, failed), (1, expected));
    }
}

#[test]
fn the_next_attempt_of_a_life_cycle_is_waited_for() {
    let mut case = Case::new([revision(1, Status::Deployed, OLD), failed(2)]);
    case.policy = retries(Remediation::None);
    let Plan::RetryLater(next) = case.plan() else {
        panic!("{:?}", case.plan());
    };
    assert_eq!(next.at, at(60));
    assert_eq!((next.running, next.exhausted), (None, None));
    assert_eq!((next.is_rolled_back, next.may_recover), (false, false));
    // The last of three attempts has failed, and was rolled back.
    let mut last = Case::new([revision(1, Status::Superseded, OLD), failed(2), rollback(3)]);
    last.policy = retries(Remediation::Rollback);
    last.history[1].origin.attempt = Some(fixture::attempt(AttemptAction::Upgrade, ID, 3));
    let Plan::RetryLater(next) = last.plan() else {
        panic!("{:?}", last.plan());
    };
    assert_eq!((next.exhausted, next.is_rolled_back), (Some(3), true));
    assert_eq!(next.deployment_id.as_deref(), Some(OLD));
    assert_eq!(next.running.map(|running| running.id.number), Some(3));
    // A reset forgets the attempts.
    last.requested.reset = true;
    let Operation::Upgrade { attempt, .. } = last.operation() else {
        panic!("{:?}", last.plan());
    };
    assert_eq!(attempt.number, 1);
    case.seconds = 60;
    assert_eq!(case.attempt(), (AttemptAction::Upgrade, Cause::Change));
    // Also if it is due, as long as the failure is not reported.
    case.done.has_failed = true;
    assert!(matches!(case.plan(), Plan::RetryLater(_)));
}

#[test]
fn a_revision_that_is_late_may_recover() {
    let late = Revision {
        failure: Some(Failure::NotReady("late".to_owned())),
        ..failed(1)
    };
    let mut case = Case::new([late]);
    case.policy = retries(Remediation::None);
    let Plan::RetryLater(next) = case.plan() else {
        panic!("{:?}", case.plan());
    };
    let running = next.running.unwrap();
    assert_eq!(
        (running.id.to_string(), next.may_recover),
        ("shop/web:1".to_owned(), true)
    );
    assert_eq!(next.deployment_id.as_deref(), Some(ID));
}

#[test]
fn the_release_of_a_user_is_taken_over_as_it_is_or_upgraded() {
    let takes_ownership = json!({ "options": { "helm": { "takeOwnership": true } } });
    let mut case = Case::new([of_user(3)]);
    assert_eq!(case.plan(), Plan::Refuse(ForeignOwner::Unmanaged));
    case.deployment = deployment(&takes_ownership, &json!({}));
    for (number, action) in [(1, AttemptAction::Install), (3, AttemptAction::Upgrade)] {
        case.history = vec![of_user(number)];
        let Operation::Adopt { revision, attempt } = case.operation() else {
            panic!("{:?}", case.plan());
        };
        assert_eq!((revision, attempt.action, attempt.number), (number, action, 1));
    }
    for adoption in [Adoption::Differs, Adoption::Adopted] {
        case.done.adoption = adoption;
        assert_eq!(case.attempt(), (AttemptAction::Upgrade, Cause::Change));
    }
    case.done.adoption = Adoption::Untried;
    force(&mut case, "1");
    assert_eq!(case.attempt(), (AttemptAction::Upgrade, Cause::Request));
}

#[test]
fn a_release_whose_records_are_lost_is_installed_for_that_cause() {
    let applied = json!({ "release": "shop/web:4", "appliedDeploymentID": ID });
    let mut case = Case::new([]);
    case.deployment = deployment(&json!({}), &applied);
    assert_eq!(case.attempt(), (AttemptAction::Install, Cause::Missing));
    case.deployment.status.applied_deployment_id = OLD.to_owned();
    assert_eq!(case.attempt(), (AttemptAction::Install, Cause::Change));
    case.deployment.status.applied_deployment_id = ID.to_owned();
    case.history = vec![revision(1, Status::Uninstalled, ID)];
    assert_eq!(case.attempt(), (AttemptAction::Install, Cause::Change));
}

/// Of Fleet's agent, whose records have no deployment ID.
#[test]
fn the_status_shows_what_records_do_not() {
    let of_fleet = || Revision {
        origin: Origin {
            owner: Owner::BundleDeployment("web".to_owned()),
            attempt: None,
        },
        ..revision(4, Status::Deployed, OLD)
    };
    for (release, id, expected) in [
        ("shop/web:4", ID, Some(4)),
        ("shop/web:3", ID, Some(4)),
        ("shop/web:5", ID, None),
        ("shop/web:4", OLD, None),
        ("other/web:4", ID, None),
        ("", "", None),
    ] {
        let mut case = Case::new([of_fleet()]);
        let status = json!({ "release": release, "appliedDeploymentID": id });
        case.deployment = deployment(&json!({}), &status);
        assert_eq!(case.settled(), expected, "{release} {id}");
    }
}

#[test]
fn an_interrupted_operation_is_ended_first() {
    let mut case = Case::new([
        revision(1, Status::Deployed, OLD),
        revision(2, Status::PendingUpgrade, ID),
    ]);
    assert_eq!(case.operation(), Operation::Unlock { revision: 2 });
    case.history = vec![revision(1, Status::Uninstalling, ID)];
    let complete = |is_remediation| Operation::CompleteUninstallation { is_remediation };
    assert_eq!(case.operation(), complete(false));
    case.policy = retries(Remediation::Uninstall);
    assert_eq!(case.operation(), complete(true));
    case.history[0].origin.owner = Owner::Other;
    let pending = Pending {
        revision: 1,
        status: Status::Uninstalling,
    };
    assert_eq!(case.plan(), Plan::Busy(pending));
}

#[test]
fn records_decide_after_an_attempt_with_a_policy_and_a_record() {
    let release = ReleaseKey::parse("shop/web").unwrap();
    let deployment = deployment(&json!({}), &json!({}));
    let before = History::new(vec![revision(1, Status::Deployed, OLD)]);
    let after = History::new(vec![revision(1, Status::Deployed, OLD), failed(2)]);
    for (policy, before, after, expected) in [
        (retries(Remediation::None), &before, &after, true),
        (fleet(Remediation::Rollback), &before, &after, true),
        // The backoff of the reconciliation alone.
        (fleet(Remediation::None), &before, &after, false),
        // Helm made no record.
        (retries(Remediation::None), &before, &before, false),
        (retries(Remediation::None), &after, &after, false),
    ] {
        let desired = DesiredRelease {
            release: &release,
            deployment: &deployment,
            input: deployment.spec.deployment_id.clone(),
            values_changed: false,
            policy: &policy,
            requested: Requested::default(),
        };
        let decided = desired.is_decided_by_records(AttemptAction::Upgrade, before, after);
        assert_eq!(decided, expected, "{policy:?}");
    }
}
