//! A day of a release that never becomes ready, with a model of Helm's records.

use std::time::Duration;

use super::*;
use crate::{
    fixture,
    history::Revision,
    lifecycle::{ActionPolicy, Remediation},
    record::{Cause, OnDelete},
    state::Wanted,
};

const ID: &str = ":new";
const DAY: i64 = 86_400;
/// How long an attempt takes until it has failed, in seconds.
const ATTEMPT: i64 = 10;

struct Release {
    revisions: Vec<Revision>,
    policy: Policy,
    /// Until then, in seconds, rollbacks fail.
    rollbacks_fail_until: i64,
    /// Each uninstallation is interrupted once.
    interrupts_uninstallations: bool,
    /// What was deployed before.
    before: &'static str,
    now: i64,
    attempts: u32,
    remediations: u32,
}

impl Release {
    /// A release that was deployed once, or not at all.
    fn new(policy: Policy, was_deployed: bool) -> Self {
        let mut release = Self {
            revisions: Vec::new(),
            policy,
            rollbacks_fail_until: 0,
            interrupts_uninstallations: false,
            before: ":old",
            now: 0,
            attempts: 0,
            remediations: 0,
        };
        if was_deployed {
            release.add(Status::Deployed, ":old", AttemptAction::Install, 1, false);
        }
        release
    }

    fn add(&mut self, status: Status, id: &str, action: AttemptAction, number: u32, is_rollback: bool) {
        let next = self.revisions.iter().map(|one| one.number).max().unwrap_or(0) + 1;
        let time = Timestamp::from_second(self.now).ok();
        let attempt = fixture::attempt(action, id, number);
        self.revisions.push(Revision {
            is_rollback,
            failure: (status == Status::Failed).then(|| Failure::NotReady("x".to_owned())),
            made_at: time,
            changed_at: time,
            ..fixture::revision(next, status, Some(attempt))
        });
    }

    /// As Helm does before an upgrade or a rollback, but not before an installation: the oldest revisions are deleted, except for the
    /// deployed one.
    fn prune(&mut self) {
        while self.revisions.len() >= self.limit() {
            let mut oldest = self.revisions.iter();
            let Some(index) = oldest.position(|one| one.status != Status::Deployed) else {
                return;
            };
            self.revisions.remove(index);
        }
    }

    fn limit(&self) -> usize {
        usize::try_from(self.policy.history).unwrap()
    }

    /// As the agent does before each of them.
    fn make_room(&mut self) {
        let history = History::new(self.revisions.clone());
        for unneeded in history.unneeded(self.limit() - 1) {
            self.revisions.retain(|one| one.number != unneeded.number);
        }
    }

    fn supersede_deployed(&mut self) {
        for revision in &mut self.revisions {
            if revision.status == Status::Deployed {
                revision.status = Status::Superseded;
            }
        }
    }

    /// An attempt that Helm completes, and whose objects do not become ready.
    fn attempt(&mut self, action: AttemptAction, number: u32) {
        self.attempts += 1;
        self.now += ATTEMPT;
        self.make_room();
        if let (AttemptAction::Install, Some(last)) = (action, self.revisions.last()) {
            let is_free = matches!(last.status, Status::Failed | Status::Uninstalled);
            assert!(
                is_free,
                "Helm: cannot reuse a name that is still in use: {:?}",
                self.revisions
            );
        }
        let has_deployed = self.revisions.iter().any(|one| one.status == Status::Deployed);
        match (action, self.revisions.last_mut()) {
            (AttemptAction::Install, Some(last)) if last.status != Status::Failed => {
                last.status = Status::Superseded;
                last.is_replaced = true;
                last.failure = None;
            }
            (AttemptAction::Upgrade, Some(last)) if !has_deployed => last.status = Status::Superseded,
            _ => {}
        }
        if action == AttemptAction::Upgrade {
            self.prune();
            self.supersede_deployed();
        }
        self.add(Status::Failed, ID, action, number, false);
    }

    fn roll_back(&mut self) {
        self.make_room();
        self.prune();
        self.now += ATTEMPT;
        let is_failing = self.now < self.rollbacks_fail_until;
        let status = if is_failing {
            let last = self.revisions.last_mut().unwrap();
            last.status = Status::Superseded;
            last.changed_at = Timestamp::from_second(self.now).ok();
            Status::Failed
        } else {
            self.supersede_deployed();
            Status::Deployed
        };
        self.add(status, self.before, AttemptAction::Install, 1, true);
    }

    /// Helm overwrites the description when it begins.
    fn uninstall(&mut self, keeps_record: bool) {
        self.now += ATTEMPT;
        let last = self.revisions.last_mut().unwrap();
        last.changed_at = Timestamp::from_second(self.now).ok();
        last.failure = None;
        if self.interrupts_uninstallations && last.status != Status::Uninstalling {
            last.status = Status::Uninstalling;
        } else if keeps_record {
            last.status = Status::Uninstalled;
            last.failure = Some(Failure::Uninstalled("x".to_owned()));
        } else {
            self.revisions.clear();
        }
    }

    fn turn(&mut self) {
        let history = History::new(self.revisions.clone());
        let wanted = Wanted {
            bundle_deployment: "web",
            deployment_id: ID,
            applied: None,
            takes_ownership: false,
        };
        let policy = self.policy.clone();
        let step = next(Situation {
            state: ReleaseState::of(&wanted, &history),
            history: &history,
            policy: &policy,
            deployment_id: ID,
            requested: Requested::default(),
            is_reported: true,
            now: Timestamp::from_second(self.now).unwrap(),
        });
        let number = |action| history.next_attempt(ID, action, Cause::Change, true).number;
        match step {
            Step::Act(Action::Install { .. }) => {
                self.attempt(AttemptAction::Install, number(AttemptAction::Install));
            }
            Step::Act(Action::Upgrade { discard }) => {
                self.revisions.retain(|one| Some(one.number) != discard);
                self.attempt(AttemptAction::Upgrade, number(AttemptAction::Upgrade));
            }
            Step::Rollback { to, .. } => {
                self.remediations += 1;
                assert!(
                    self.revisions.iter().any(|one| one.number == to),
                    "{to} does not exist"
                );
                self.roll_back();
            }
            Step::Uninstall { keeps_record, .. } => {
                self.remediations += 1;
                self.uninstall(keeps_record);
            }
            Step::Act(Action::Uninstall) => self.uninstall(is_remediation(&history, &policy, ID)),
            Step::Wait(retry) => {
                assert!(retry.at.as_second() > self.now, "it waits for what is over");
                self.now = retry.at.as_second();
            }
            Step::Act(other) => panic!("{other:?} of {:?}", self.revisions),
        }
        assert!(self.revisions.len() <= usize::try_from(self.policy.history).unwrap());
    }

    fn run(mut self) -> Self {
        for _ in 0..10_000 {
            if self.now >= DAY {
                return self;
            }
            self.turn();
        }
        panic!("no time passes: {:?}", self.revisions);
    }
}

fn policy(install: Remediation, upgrade: Remediation, retries: u32, last: bool, history: u32) -> Policy {
    let action = |remediation| ActionPolicy {
        schedule: Schedule::Intervals {
            retries,
            interval: Duration::from_mins(1),
        },
        remediation,
        remediates_last: last,
        crds: None,
        wait: Some(Duration::from_mins(5)),
    };
    Policy {
        install: action(install),
        upgrade: action(upgrade),
        test: None,
        history,
        on_delete: OnDelete::default(),
    }
}

#[test]
fn nothing_loops_and_nothing_is_given_up_whatever_the_policy_is() {
    let uninstall = [Remediation::None, Remediation::Uninstall];
    for install in uninstall {
        for upgrade in [Remediation::None, Remediation::Uninstall, Remediation::Rollback] {
            for (retries, last, history, was_deployed) in [
                (0, true, 5, true),
                (3, true, 5, true),
                (3, false, 5, true),
                (3, true, 3, true),
                (0, true, 5, false),
                (3, false, 3, false),
            ] {
                let release =
                    Release::new(policy(install, upgrade, retries, last, history), was_deployed).run();
                let case = format!("{install:?} {upgrade:?} {retries} {last} {history} {was_deployed}");
                // One an hour, and the retries of both actions at most.
                let most = 24 + 2 * (retries + 1) + 1;
                assert!(
                    (20..=most).contains(&release.attempts),
                    "{case}: {} attempts",
                    release.attempts
                );
                assert!(release.remediations <= release.attempts, "{case}");
            }
        }
    }
}

/// An uninstallation that has started shows no failure any more. Without its record, each would be followed by a first attempt.
#[test]
fn interrupted_uninstallations_lose_no_count() {
    for (was_deployed, upgrade) in [(false, Remediation::None), (true, Remediation::Uninstall)] {
        let policy = policy(Remediation::Uninstall, upgrade, 3, true, 5);
        let mut release = Release::new(policy, was_deployed);
        release.interrupts_uninstallations = true;
        let release = release.run();
        assert!(
            (20..=33).contains(&release.attempts),
            "{was_deployed}: {} attempts",
            release.attempts
        );
    }
}

/// A user has forced an attempt, or its copies have changed: what is restored is what is wanted.
#[test]
fn a_rollback_to_the_same_deployment_is_followed_by_slow_attempts() {
    let policy = policy(Remediation::None, Remediation::Rollback, 3, true, 5);
    let mut release = Release::new(policy, false);
    release.before = ID;
    release.add(Status::Deployed, ID, AttemptAction::Install, 1, false);
    release.attempt(AttemptAction::Upgrade, 1);
    let release = release.run();
    assert!(
        (20..=29).contains(&release.attempts),
        "{} attempts",
        release.attempts
    );
    let newest = release.revisions.last().unwrap();
    assert_eq!((newest.status, newest.is_rollback), (Status::Deployed, true));
}

/// Helm supersedes what a failed rollback was to replace, and each rollback and each attempt makes a record.
#[test]
fn failing_rollbacks_never_lose_what_was_deployed() {
    for history in 3..6 {
        let policy = policy(Remediation::None, Remediation::Rollback, 3, true, history);
        let mut release = Release::new(policy, true);
        release.rollbacks_fail_until = DAY / 2;
        for _ in 0..10_000 {
            if release.now >= DAY {
                break;
            }
            release.turn();
            let mut all = release.revisions.iter();
            assert!(
                all.any(|one| one.origin.deployment_id() == Some(":old") && !one.has_failed()),
                "{:?}",
                release.revisions
            );
        }
        assert!(
            (20..=28).contains(&release.attempts),
            "{} attempts",
            release.attempts
        );
        let newest = release.revisions.last().unwrap();
        assert_eq!((newest.status, newest.is_rollback), (Status::Deployed, true));
    }
}

/// `atomic` repeats attempts with a backoff, and keeps few revisions.
#[test]
fn failing_rollbacks_of_atomic_never_lose_what_was_deployed() {
    for own in 0..4 {
        let options = serde_json::json!({ "helm": { "atomic": true, "maxHistory": own } });
        let options = serde_json::from_value(options).unwrap();
        let mut release = Release::new(Policy::of(&options, None), true);
        release.rollbacks_fail_until = DAY / 2;
        while release.now < DAY {
            release.turn();
            let mut all = release.revisions.iter();
            assert!(
                all.any(|one| one.origin.deployment_id() == Some(":old") && !one.has_failed()),
                "{:?}",
                release.revisions
            );
        }
    }
}

/// A user has deleted the record of what was deployed.
#[test]
fn a_release_whose_rollback_failed_is_installed_again_if_nothing_can_be_restored() {
    let policy = policy(Remediation::None, Remediation::Rollback, 3, true, 3);
    let mut release = Release::new(policy, true);
    release.add(Status::Superseded, ID, AttemptAction::Upgrade, 1, false);
    release.add(Status::Failed, ":old", AttemptAction::Install, 1, true);
    release.revisions[1].failure = Some(Failure::NotReady("x".to_owned()));
    release.revisions.remove(0);
    let release = release.run();
    assert!(release.attempts >= 20, "{} attempts", release.attempts);
}

#[test]
fn what_was_deployed_is_never_lost() {
    for history in 3..6 {
        let policy = policy(Remediation::None, Remediation::Rollback, 3, true, history);
        let release = Release::new(policy, true).run();
        assert_eq!(release.attempts, release.remediations);
        let newest = release.revisions.last().unwrap();
        assert_eq!((newest.status, newest.is_rollback), (Status::Deployed, true));
    }
}
