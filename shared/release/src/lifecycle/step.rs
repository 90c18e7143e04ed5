//! The next step for a release that is wanted, when attempts may have failed.
//!
//! | last attempt for the wanted deployment | step |
//! |---|---|
//! | none, or it succeeded | the action of [`crate::action`] |
//! | failed, to be rolled back, with a revision to restore | roll back |
//! | failed, to be uninstalled | uninstall; nothing if what would be deleted is older than the attempt, is to be kept, or may be that of a release of another name |
//! | failed, and its rollback failed | roll back again; the next attempt if it is due |
//! | failed and remediated, or nothing to remediate | the action if the next attempt is due or requested, and the failure is reported; wait otherwise |
//! | an upgrade that was uninstalled | install now: nothing runs |
//! | to be uninstalled, but that has not ended | the uninstallation, which keeps the record |

use std::{fmt, time::Duration};

use helmops_api::{BundleDeployment, lifecycle::Requests, timestamp::timestamp};
use jiff::{SignedDuration, Timestamp};

use super::policy::{KeptBecause, Policy, Remediation, Schedule};
use crate::{
    action::{self, Action},
    history::{FailedAttempt, History},
    record::{self, Acceptance, AttemptAction, Failure, Status},
    state::ReleaseState,
};

/// What the next step follows from.
#[derive(Clone, Debug)]
pub struct Situation<'h> {
    /// The state of the release.
    pub state: ReleaseState,
    /// Its revisions.
    pub history: &'h History,
    /// What is to be done about failures.
    pub policy: &'h Policy,
    /// The ID of the desired deployment.
    pub deployment_id: &'h str,
    /// What a user requests.
    pub requested: Requested,
    /// Whether the last failure was reported. The next attempt waits for that, also when it is due: a remediation may take longer
    /// than the interval, and then no status would ever show a failure.
    pub is_reported: bool,
    /// The time.
    pub now: Timestamp,
}

/// What a user requests with annotations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Requested {
    /// The next attempt now.
    pub attempt: bool,
    /// Another deployment of what is deployed already.
    pub force: bool,
    /// Whether failed attempts are to be forgotten.
    pub reset: bool,
}

/// The requests of a user; `None` if there were none.
pub fn requests(deployment: &BundleDeployment) -> Option<&Requests> {
    deployment.spec.lifecycle.as_ref()?.requests.as_ref()
}

impl Requested {
    /// What is requested and was not handled yet. A request is a token, and each has its effect once.
    pub fn of(requests: Option<&Requests>, handled: &Requests) -> Self {
        let Some(requests) = requests else {
            return Self::default();
        };
        let is_new = |token: &String, handled: &String| !token.is_empty() && token != handled;
        Self {
            attempt: is_new(&requests.reconcile, &handled.reconcile),
            force: is_new(&requests.force, &handled.force),
            reset: is_new(&requests.reset, &handled.reset),
        }
    }

    const fn any(self) -> bool {
        self.attempt || self.force || self.reset
    }
}

/// The next step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step<'h> {
    /// An action, as without failures.
    Act(Action),
    /// Restore a revision.
    Rollback {
        /// The revision to restore.
        to: u64,
        /// The failed attempt that is the cause.
        failed: FailedAttempt<'h>,
    },
    /// Uninstall the release.
    Uninstall {
        /// Whether the record of the failed attempt is kept, which counts the attempts.
        keeps_record: bool,
        /// The failed attempt that is the cause.
        failed: FailedAttempt<'h>,
    },
    /// Wait for the next attempt.
    Wait(Retry<'h>),
}

/// The next attempt after a failed one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retry<'h> {
    /// The failed attempt.
    pub failed: FailedAttempt<'h>,
    /// How many attempts there are before the slow ones.
    pub attempts: u32,
    /// When the next one is due.
    pub at: Timestamp,
    /// What was done about it.
    pub remedy: Remedy,
}

/// What was done about a failed attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// Nothing: that is the policy.
    None,
    /// Nothing: there is no revision to restore.
    NoRevision,
    /// The release was rolled back.
    RolledBack {
        /// The revision that runs now.
        revision: u64,
    },
    /// The release was uninstalled.
    Uninstalled,
    /// The release was not uninstalled.
    Kept(KeptBecause),
}

/// The next step.
pub fn next(situation: Situation<'_>) -> Step<'_> {
    let Situation {
        state,
        history,
        policy,
        deployment_id,
        requested,
        is_reported,
        now,
    } = situation;
    if let (ReleaseState::Current { .. }, true) = (&state, requested.force) {
        return Step::Act(Action::Upgrade { discard: None });
    }
    let Some(failed) = history.failed_attempt(deployment_id) else {
        return Step::Act(action::to_deploy(state));
    };
    let own = policy.for_action(failed.attempt.action);
    let number = failed.attempt.number;
    let delay = own.delay(number).filter(|_| !requested.any());
    let at = delay.map(|delay| due(failed, delay, now));
    let is_due = at.is_none_or(|at| at <= now);
    let wait = |at, remedy| {
        Step::Wait(Retry {
            failed,
            attempts: attempts(own.schedule),
            at,
            remedy,
        })
    };
    let target = history.before(failed.revision.number);
    let remedy = match state {
        ReleaseState::Failed(_) => match (own.remediation_of(failed.attempt), target) {
            (Remediation::Rollback, Some(target)) if is_newest(history, failed) || !is_due => {
                let to = target.number;
                return Step::Rollback { to, failed };
            }
            (Remediation::Uninstall, _) if is_newest(history, failed) => {
                let keeps_record = own.keeps_record();
                return Step::Uninstall { keeps_record, failed };
            }
            (Remediation::Rollback, None) => Remedy::NoRevision,
            (Remediation::Keep(because), _) => Remedy::Kept(because),
            _ => Remedy::None,
        },
        // What a rollback restores may be a revision of a user's Helm, which is not taken over again before the next attempt. Or
        // one of what is wanted: the attempt that failed was forced, or was to deploy other copies.
        ReleaseState::Current { revision }
        | ReleaseState::Outdated { revision }
        | ReleaseState::Unmanaged { revision } => Remedy::RolledBack { revision },
        ReleaseState::Uninstalled if failed.attempt.action == AttemptAction::Upgrade => {
            return if is_reported {
                Step::Act(action::to_deploy(state))
            } else {
                wait(due(failed, Duration::ZERO, now), Remedy::Uninstalled)
            };
        }
        ReleaseState::Uninstalled => Remedy::Uninstalled,
        _ => return Step::Act(action::to_deploy(state)),
    };
    match at {
        Some(at) if !is_due || !is_reported => wait(at, remedy),
        _ => Step::Act(attempt_again(state)),
    }
}

/// The action of the next attempt: also if what was restored is what is wanted.
fn attempt_again(state: ReleaseState) -> Action {
    match action::to_deploy(state) {
        Action::None => Action::Upgrade { discard: None },
        action => action,
    }
}

/// The revision that is deployed as it is wanted, if no attempt is to follow: it was not restored after a failed one.
pub fn completed(state: &ReleaseState, history: &History, deployment_id: &str) -> Option<u64> {
    match state {
        ReleaseState::Current { revision } if history.failed_attempt(deployment_id).is_none() => {
            Some(*revision)
        }
        _ => None,
    }
}

/// Whether an uninstallation that has started and has not ended was to remediate an attempt. Helm overwrites the failure when it
/// begins, so that this follows from the policy; what was accepted had not failed.
pub fn is_remediation(history: &History, policy: &Policy, deployment_id: &str) -> bool {
    let uninstalling = history.newest().filter(|newest| {
        newest.status == Status::Uninstalling && newest.acceptance != Some(Acceptance::Accepted)
    });
    let attempt = uninstalling.and_then(|newest| newest.origin.attempt.as_ref());
    attempt.is_some_and(|attempt| {
        let own = policy.for_action(attempt.action);
        record::is_same_input(&attempt.deployment_id, deployment_id)
            && own.remediation_of(attempt) == Remediation::Uninstall
            && own.keeps_record()
    })
}

fn is_newest(history: &History, failed: FailedAttempt<'_>) -> bool {
    history.newest().map(|newest| newest.number) == Some(failed.revision.number)
}

/// When the next attempt is due. A record without a time is one of long ago, and so is one that is further in the future than the delay: its
/// clock was wrong, and the release would not be deployed until then.
fn due(failed: FailedAttempt<'_>, delay: Duration, now: Timestamp) -> Timestamp {
    let revision = failed.revision;
    let failed_at = match revision.status {
        // Helm supersedes it with each rollback that fails: these must not postpone the next attempt.
        Status::Superseded => revision.made_at,
        _ => revision.changed_at,
    };
    let delay = SignedDuration::try_from(delay).unwrap_or(SignedDuration::MAX);
    let after = |time: Timestamp| time.saturating_add(delay).unwrap_or(Timestamp::MAX);
    let failed_at = failed_at.filter(|failed_at| *failed_at <= after(now));
    after(failed_at.unwrap_or(Timestamp::UNIX_EPOCH))
}

const fn attempts(schedule: Schedule) -> u32 {
    match schedule {
        Schedule::Backoff => 0,
        Schedule::Intervals { retries, .. } => retries.saturating_add(1),
    }
}

impl Retry<'_> {
    /// The revision whose objects are on the cluster; `None` if there is none, or if it is not complete.
    pub fn running(&self) -> Option<u64> {
        match (&self.remedy, self.failed.failure) {
            (Remedy::RolledBack { revision }, _) => Some(*revision),
            (
                Remedy::None | Remedy::NoRevision | Remedy::Kept(_),
                Failure::NotReady(_) | Failure::Test(_),
            ) => Some(self.failed.revision.number),
            _ => None,
        }
    }

    /// Whether the retries are used up with this failure.
    pub const fn is_first_slow(&self) -> bool {
        self.failed.attempt.number == self.attempts
    }
}

/// What failed, what runs, and what comes next: for the status.
impl fmt::Display for Retry<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FailedAttempt {
            revision,
            attempt,
            failure,
        } = self.failed;
        let what = match attempt.action {
            AttemptAction::Install => "installation of",
            AttemptAction::Upgrade => "upgrade to",
        };
        write!(f, "{what} chart {} failed", revision.chart)?;
        let is_slow = attempt.number >= self.attempts;
        if is_slow {
            write!(f, " (attempt {})", attempt.number)?;
        } else {
            write!(f, " (attempt {} of {})", attempt.number, self.attempts)?;
        }
        let cause = failure.cause();
        let (cause, log) = cause.split_once('\n').unwrap_or((&cause, ""));
        write!(f, ": {cause}")?;
        match &self.remedy {
            Remedy::None => Ok(()),
            Remedy::NoRevision => f.write_str("; not rolled back, because no earlier revision was deployed"),
            Remedy::RolledBack { revision } => write!(f, "; rolled back, as revision {revision}"),
            Remedy::Uninstalled => f.write_str("; uninstalled"),
            Remedy::Kept(because) => write!(f, "; {because}"),
        }?;
        write!(f, "; next attempt at {}", timestamp(self.at))?;
        if is_slow {
            f.write_str(", then once an hour")?;
        }
        // Last, since some tools show only the first line, and long messages are cut.
        if log.is_empty() {
            Ok(())
        } else {
            write!(f, "\n{log}")
        }
    }
}

/// Whether a revision that failed may have become ready since: its objects are in place, and nothing was done about it.
pub fn may_recover(history: &History, deployment_id: &str) -> Option<u64> {
    let failed = history.failed_attempt(deployment_id)?;
    let is_unready = matches!(failed.failure, Failure::NotReady(_));
    (is_unready && is_newest(history, failed) && failed.revision.status == Status::Failed)
        .then_some(failed.revision.number)
}

#[cfg(test)]
mod flux;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
