//! The plan for a release that is wanted: the next operation, or why there is none.
//!
//! ```text
//! DesiredRelease: what is wanted ────────────────────┐
//! ObservedRelease: records, time ────────────────────┼─► next ─► Plan: settled, an operation, or what to report
//! DoneSoFar: what this reconciliation has done ──────┘                     │
//!              ▲                                                           ▼
//!              └──────────────── what has changed ◄─── the operation is executed
//! ```
//!
//! What follows from failed attempts is decided in [`crate::lifecycle`]. This adds what only one reconciliation knows, and repetitions of what is
//! deployed already: for other copies, or for a name that was changed back.

use std::borrow::Cow;

use helmops_api::BundleDeployment;
use jiff::Timestamp;

use crate::{
    action::Action,
    deployed::Deployed,
    history::{FailedAttempt, History, Revision},
    lifecycle::{
        self, KeptBecause, Policy, Remediation, Remedy, Requested, Retry, Schedule, Situation, Step,
    },
    names::{ReleaseKey, name_of},
    record::{Attempt, AttemptAction, Cause, Status},
    state::{Applied, ForeignOwner, Pending, ReleaseState, Wanted},
};

/// A release that is wanted.
#[derive(Clone, Debug)]
pub struct DesiredRelease<'t> {
    /// Its name and namespaces.
    pub release: &'t ReleaseKey,
    /// Its BundleDeployment.
    pub deployment: &'t BundleDeployment,
    /// Its deployment ID, with the digest of values that references name ([`input`](crate::record::input)).
    pub input: String,
    /// Whether these values have changed since they were first seen: it counts for a revision without a digest.
    pub values_changed: bool,
    /// What is to be done about failures.
    pub policy: &'t Policy,
    /// The requests of a user that no status shows as handled.
    pub requested: Requested,
}

/// What is observed of a release: at the beginning, and again after each operation.
#[derive(Clone, Debug)]
pub struct ObservedRelease {
    /// Its records.
    pub history: History,
    /// The records of the releases that its BundleDeployment has under other names.
    pub others: Vec<History>,
    /// The time.
    pub now: Timestamp,
}

/// What one reconciliation has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DoneSoFar {
    /// The content of copies was changed.
    pub has_changed_copies: bool,
    /// An attempt has failed, and no status shows that yet.
    pub has_failed: bool,
    /// What has become of the release of a user's Helm.
    pub adoption: Adoption,
}

/// What has become of the release of a user's Helm that is to be taken over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Adoption {
    /// It was not compared.
    #[default]
    Untried,
    /// It was taken over as it is.
    Adopted,
    /// It differs, so that an upgrade takes it over.
    Differs,
}

/// What follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plan {
    /// Nothing: what is wanted is deployed.
    UpToDate(Deployed),
    /// An operation, and then another observation.
    Operate(Operation),
    /// Another client is changing the release.
    Busy(Pending),
    /// The release belongs to another owner.
    Refuse(ForeignOwner),
    /// The next attempt is due later.
    RetryLater(NextAttempt),
    /// The failure of this reconciliation is to be reported before the next attempt.
    Report(UnreportedFailure),
    /// There is no failed attempt in the records any more: another client has changed them.
    ChangedMeanwhile,
}

/// A change of a release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Install it.
    Install {
        /// The name has records.
        replaces: bool,
        /// Which attempt it is.
        attempt: Attempt,
    },
    /// Upgrade it.
    Upgrade {
        /// The revision of a failed attempt whose record is deleted, once nothing that the upgrade needs is missing: until then
        /// it counts the attempts.
        discard: Option<u64>,
        /// Which attempt it is.
        attempt: Attempt,
    },
    /// Take over the release of a user's Helm as it is.
    Adopt {
        /// Its deployed revision.
        revision: u64,
        /// The attempt that its record gets.
        attempt: Attempt,
    },
    /// Mark the revision of an interrupted operation as failed.
    Unlock {
        /// The revision.
        revision: u64,
    },
    /// Restore a revision.
    Rollback {
        /// The revision to restore.
        to: u64,
        /// The attempt that failed.
        failed: FailedRevision,
    },
    /// Uninstall what failed.
    Uninstall {
        /// Whether the record of the failed attempt is kept, which counts the attempts.
        keeps_record: bool,
        /// The attempt that failed.
        failed: FailedRevision,
    },
    /// End an uninstallation that was interrupted, or failed.
    CompleteUninstallation {
        /// Whether it remediates a failed attempt, whose record is kept.
        is_remediation: bool,
    },
}

/// The revision of a failed attempt that is remediated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedRevision {
    /// Its number.
    pub number: u64,
    /// Why it failed.
    pub cause: String,
    /// Whether the failure is reported after the remediation: without a life cycle, the backoff of the reconciliation decides when the next
    /// attempt is made.
    pub is_reported_after: bool,
}

/// The next attempt after a failed one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NextAttempt {
    /// What failed, what was done about it, and what comes next.
    pub text: String,
    /// When it is due.
    pub at: Timestamp,
    /// The revision whose objects are on the cluster.
    pub running: Option<Deployed>,
    /// What that deploys.
    pub deployment_id: Option<String>,
    /// Whether it was restored, and is not the one that failed.
    pub is_rolled_back: bool,
    /// After so many attempts the retries are used up. Only with the first failure after that.
    pub exhausted: Option<u32>,
    /// Whether the failed revision counts as deployed as soon as its objects are ready.
    pub may_recover: bool,
}

/// A failure that no status shows yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreportedFailure {
    /// The failure, as its record shows it.
    pub text: String,
    /// Why it was not remediated although its policy says so.
    pub kept: Option<KeptBecause>,
}

impl DesiredRelease<'_> {
    /// The state of the release.
    pub fn state(&self, history: &History) -> ReleaseState {
        ReleaseState::of(&self.wanted(), history)
    }

    /// The deployed revision, if it is what is wanted and no attempt is to follow a failed one.
    pub fn deployed(&self, history: &History) -> Option<Deployed> {
        let number = lifecycle::completed(&self.state(history), history, self.deployment_id())?;
        Some(Deployed::of(self.release, history, number))
    }

    /// Whether the next step after a failed attempt follows from the records. Otherwise the error is retried with the backoff: Helm made no
    /// record, or the policy has no more to say.
    pub fn is_decided_by_records(&self, action: AttemptAction, before: &History, after: &History) -> bool {
        let policy = self.policy.for_action(action);
        let has_policy = policy.schedule != Schedule::Backoff || policy.remediation != Remediation::None;
        has_policy
            && after.failed_attempt(self.deployment_id()).is_some()
            && after.newest() != before.newest()
    }

    fn name(&self) -> &str {
        name_of(self.deployment)
    }

    fn deployment_id(&self) -> &str {
        &self.input
    }

    fn wanted(&self) -> Wanted<'_> {
        let (spec, status) = (&self.deployment.spec, &self.deployment.status);
        let applied = status.release.rsplit_once(':').and_then(|(release, revision)| {
            let is_this = release == self.release.to_string();
            let revision = revision.parse().ok().filter(|_| is_this)?;
            Some(Applied {
                deployment_id: &status.applied_deployment_id,
                revision,
            })
        });
        Wanted {
            bundle_deployment: self.name(),
            deployment_id: &self.input,
            applied,
            takes_ownership: spec.options.helm.as_ref().is_some_and(|helm| helm.take_ownership),
        }
    }

    /// What is requested and was not handled yet: also if the agent was stopped before a status could show that.
    fn requested(&self, history: &History) -> Requested {
        Requested {
            force: self.requested.force && !history.was_forced_by(self.force_request()),
            ..self.requested
        }
    }

    /// The token of the last request to deploy again; empty if there is none.
    pub fn force_request(&self) -> &str {
        lifecycle::requests(self.deployment).map_or("", |requests| &requests.force)
    }

    /// The attempt that the next revision is.
    fn attempt(&self, history: &History, action: AttemptAction, requested: Requested) -> Attempt {
        let (spec, status) = (&self.deployment.spec, &self.deployment.status);
        let was_applied = status.applied_deployment_id == spec.deployment_id && !status.release.is_empty();
        let cause = if requested.force {
            Cause::Request
        } else if was_applied && history.newest().is_none() {
            Cause::Missing
        } else if self.has_other_values(history) {
            Cause::Values
        } else {
            Cause::Change
        };
        history.next_attempt(&self.input, action, cause, !requested.reset)
    }

    /// Whether the newest revision differs only in the values of references.
    fn has_other_values(&self, history: &History) -> bool {
        history.newest().is_some_and(|newest| {
            newest.origin.deployment_id() == Some(&*self.deployment.spec.deployment_id)
                && (!newest.origin.has_input(&self.input) || self.has_unrecorded_values(newest))
        })
    }

    /// Whether the values have changed since a revision that does not show those that it has.
    fn has_unrecorded_values(&self, revision: &Revision) -> bool {
        self.values_changed && !revision.origin.has_values()
    }

    /// Whether what is deployed was deployed with other copies. They are no part of the deployment ID. Their generation counts, and not
    /// that they were changed just now: a reconciliation may change them before the controller has written the new generation, and
    /// after an attempt that did not begin they are changed already.
    fn has_undeployed_copies(&self, history: &History, deployed: &Deployed, are_changed: bool) -> bool {
        let (spec, status) = (&self.deployment.spec, &self.deployment.status);
        if spec.options.downstream_resources.is_empty() {
            return false;
        }
        let recorded = history
            .get(deployed.id.number)
            .and_then(|revision| revision.copies);
        // Fleet's agent records nothing of them.
        let reported = Some(status.downstream_resources_generation).filter(|_| !status.release.is_empty());
        recorded.or(reported).map_or(are_changed, |deployed| {
            deployed != spec.downstream_resources_generation
        })
    }

    /// The policy, without uninstallations while there is a release of another name: objects may be those of both.
    fn policy_beside(&self, others: &[History]) -> Cow<'_, Policy> {
        let has_objects = |other: &History| {
            let newest = other.newest_of(self.name());
            newest.is_some_and(|newest| newest.status != Status::Uninstalled)
        };
        if others.iter().any(has_objects) {
            Cow::Owned(self.policy.clone().without_uninstallation(KeptBecause::OtherName))
        } else {
            Cow::Borrowed(self.policy)
        }
    }

    /// Whether a release of another name was made after the present one: a change of the name that was taken back. What both releases have
    /// may be as that one wanted it.
    fn was_renamed_since(&self, deployed: &Deployed, others: &[History]) -> bool {
        let made_at = |other: &History| other.newest_of(self.name()).and_then(|newest| newest.made_at);
        deployed.id.made_at.is_some() && others.iter().any(|other| made_at(other) > deployed.id.made_at)
    }

    /// Whether a deployed revision is deployed again, if nothing else is to be done.
    fn is_repeated(&self, deployed: &Deployed, observed: &ObservedRelease, done: DoneSoFar) -> bool {
        let revision = observed.history.get(deployed.id.number);
        revision.is_some_and(|revision| self.has_unrecorded_values(revision))
            || self.has_undeployed_copies(&observed.history, deployed, done.has_changed_copies)
            || self.was_renamed_since(deployed, &observed.others)
    }

    fn failed_revision(&self, failed: FailedAttempt<'_>) -> FailedRevision {
        let action = self.policy.for_action(failed.attempt.action);
        FailedRevision {
            number: failed.revision.number,
            cause: failed.failure.cause(),
            is_reported_after: action.schedule == Schedule::Backoff,
        }
    }

    /// What is reported until the next attempt.
    fn next_attempt(&self, history: &History, retry: &Retry<'_>) -> NextAttempt {
        let running = retry.running();
        let deployment_id = running.and_then(|revision| history.get(revision)?.origin.deployment_id());
        let may_recover = lifecycle::may_recover(history, self.deployment_id());
        NextAttempt {
            text: retry.to_string(),
            at: retry.at,
            running: running.map(|revision| Deployed::of(self.release, history, revision)),
            deployment_id: deployment_id.map(ToOwned::to_owned),
            is_rolled_back: matches!(retry.remedy, Remedy::RolledBack { .. }),
            exhausted: retry.is_first_slow().then_some(retry.failed.attempt.number),
            may_recover: may_recover.is_some() && may_recover == running,
        }
    }

    /// The report of a failure that no status shows yet.
    fn report(&self, history: &History, policy: &Policy) -> Plan {
        let Some(failed) = history.failed_attempt(self.deployment_id()) else {
            return Plan::ChangedMeanwhile;
        };
        let remediation = policy
            .for_action(failed.attempt.action)
            .remediation_of(failed.attempt);
        Plan::Report(UnreportedFailure {
            text: format!("release {} failed: {}", self.release.name, failed.failure.cause()),
            kept: match remediation {
                Remediation::Keep(because) => Some(because),
                _ => None,
            },
        })
    }
}

/// The next operation, or why there is none.
pub fn next(desired: &DesiredRelease<'_>, observed: &ObservedRelease, done: DoneSoFar) -> Plan {
    let history = &observed.history;
    let policy = desired.policy_beside(&observed.others);
    // A request has one effect. That of a failure which is not reported yet was the attempt that failed.
    let requested = if done.has_failed {
        Requested::default()
    } else {
        desired.requested(history)
    };
    let mut step = lifecycle::next(Situation {
        state: desired.state(history),
        history,
        policy: &policy,
        deployment_id: desired.deployment_id(),
        requested,
        is_reported: !done.has_failed,
        now: observed.now,
    });
    if step == Step::Act(Action::None)
        && let Some(deployed) = desired.deployed(history)
    {
        let has_deployed = done.has_failed || done.adoption == Adoption::Adopted;
        if has_deployed || !desired.is_repeated(&deployed, observed, done) {
            return Plan::UpToDate(deployed);
        }
        step = Step::Act(Action::Upgrade { discard: None });
    }
    if done.has_failed && is_attempt(&step) {
        // Only the backoff of the reconciliation delays it.
        return desired.report(history, &policy);
    }
    match step {
        Step::Act(action) => act(desired, history, action, requested, done.adoption),
        Step::Rollback { to, failed } => Plan::Operate(Operation::Rollback {
            to,
            failed: desired.failed_revision(failed),
        }),
        Step::Uninstall { keeps_record, failed } => Plan::Operate(Operation::Uninstall {
            keeps_record,
            failed: desired.failed_revision(failed),
        }),
        Step::Wait(retry) => Plan::RetryLater(desired.next_attempt(history, &retry)),
    }
}

fn act(
    desired: &DesiredRelease<'_>,
    history: &History,
    action: Action,
    requested: Requested,
    adoption: Adoption,
) -> Plan {
    let upgrade = |discard| Operation::Upgrade {
        discard,
        attempt: desired.attempt(history, AttemptAction::Upgrade, requested),
    };
    Plan::Operate(match action {
        Action::None => {
            return desired
                .deployed(history)
                .map_or(Plan::ChangedMeanwhile, Plan::UpToDate);
        }
        Action::Wait(pending) => return Plan::Busy(pending),
        Action::Refuse(owner) => return Plan::Refuse(owner),
        Action::Install { replaces } => Operation::Install {
            replaces,
            attempt: desired.attempt(history, AttemptAction::Install, requested),
        },
        Action::Upgrade { discard } => upgrade(discard),
        Action::TakeOver { revision } if !requested.force && adoption == Adoption::Untried => {
            Operation::Adopt {
                revision,
                attempt: adopted_attempt(desired, revision),
            }
        }
        Action::TakeOver { .. } => upgrade(None),
        Action::Unlock { revision } => Operation::Unlock { revision },
        Action::Uninstall | Action::Forget => Operation::CompleteUninstallation {
            is_remediation: lifecycle::is_remediation(history, desired.policy, desired.deployment_id()),
        },
    })
}

/// The attempt of a revision that a user's Helm has made.
fn adopted_attempt(desired: &DesiredRelease<'_>, revision: u64) -> Attempt {
    Attempt {
        action: if revision == 1 {
            AttemptAction::Install
        } else {
            AttemptAction::Upgrade
        },
        deployment_id: desired.deployment_id().to_owned(),
        cause: Cause::Change,
        number: 1,
    }
}

/// Whether a step deploys something.
const fn is_attempt(step: &Step<'_>) -> bool {
    matches!(
        step,
        Step::Act(Action::Install { .. } | Action::Upgrade { .. } | Action::TakeOver { .. })
    )
}

#[cfg(test)]
mod tests;
