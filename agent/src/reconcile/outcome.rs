//! What a reconciliation has led to.

use std::time::Duration;

use helmops_helm::FailureReason;
use helmops_model::reason::Reason;
use helmops_release::{deployed::Deployed, plan::NextAttempt, report::DeployOutcome};
use helmops_runtime::{
    backoff,
    retry_state::{Done, Failures},
};

use crate::{
    error::{AgentError, until},
    reports::FailureReport,
};

/// What the deployment of a release has led to.
#[derive(Debug)]
pub enum Outcome {
    /// What is wanted is deployed.
    Deployed(Deployed),
    /// It is deployed, except that the objects next to it cannot be copied or compared with their sources.
    Incomplete {
        /// What is deployed.
        deployed: Deployed,
        /// Why they cannot be copied.
        error: AgentError,
    },
    /// It is deployed, and has to become ready before it counts as such.
    Waiting {
        /// How long that may take.
        remaining: Duration,
        /// What is late, and why.
        late: String,
    },
    /// An attempt failed, and the life cycle decides when the next one is due.
    Retry(Box<NextAttempt>),
    /// The last attempt failed, and the next one is due after this time.
    Postponed(Duration),
    /// Something is to be done again immediately: another client has changed the release, or a failed revision is ready after all.
    ReconcileAgain,
    /// It failed.
    Failed(AgentError),
}

/// An error is a failure.
impl From<Result<Self, AgentError>> for Outcome {
    fn from(result: Result<Self, AgentError>) -> Self {
        result.unwrap_or_else(Self::Failed)
    }
}

impl Outcome {
    /// The revision that runs; `None` if none does, or if it is not known which one.
    pub fn running(&self) -> Option<&Deployed> {
        match self {
            Self::Deployed(deployed) | Self::Incomplete { deployed, .. } => Some(deployed),
            Self::Retry(next) => next.running.as_ref(),
            _ => None,
        }
    }

    /// The deployed revision, if nothing that belongs to it is missing.
    pub const fn deployed(&self) -> Option<&Deployed> {
        match self {
            Self::Deployed(deployed) => Some(deployed),
            _ => None,
        }
    }

    /// Whether requests had their effect: nothing that the deployment needs was missing, and Helm could begin.
    pub const fn is_attempt(&self) -> bool {
        match self {
            Self::Deployed(_) | Self::Retry(_) | Self::Failed(AgentError::AttemptFailed(_)) => true,
            Self::Failed(AgentError::Helm(failure)) => !matches!(
                failure.reason,
                FailureReason::Stopped
                    | FailureReason::Superseded
                    | FailureReason::NotStarted
                    | FailureReason::OtherHelm
                    | FailureReason::Crashed
                    | FailureReason::Unreachable
                    | FailureReason::Unauthorized
            ),
            _ => false,
        }
    }

    /// What the status shows of it.
    pub fn reported(&self) -> DeployOutcome {
        match self {
            Self::Deployed(deployed) => DeployOutcome::Deployed {
                release: deployed.id.to_string(),
            },
            Self::Incomplete { error, .. } | Self::Failed(error) => error.reported(),
            Self::Retry(next) => match &next.running {
                Some(running) if next.is_rolled_back => DeployOutcome::RolledBack {
                    release: running.id.to_string(),
                    deployment_id: next.deployment_id.clone(),
                    error: next.text.clone(),
                },
                _ => DeployOutcome::Failed {
                    error: next.text.clone(),
                },
            },
            Self::Waiting { .. } | Self::Postponed(_) | Self::ReconcileAgain => DeployOutcome::Unchanged,
        }
    }

    /// What Events show of it; `None` if something is only in progress.
    pub fn failure(&self) -> Option<FailureReport> {
        match self {
            Self::Incomplete { error, .. } | Self::Failed(error) => FailureReport::of(error),
            Self::Retry(next) => Some(FailureReport {
                reason: Reason::HelmFailed,
                text: next.text.clone(),
                exhausted_after: next.exhausted,
            }),
            Self::Deployed(_) | Self::Waiting { .. } | Self::Postponed(_) | Self::ReconcileAgain => None,
        }
    }

    /// When the release is reconciled again. `recheck` is when something of a deployed one changes by itself.
    ///
    /// # Errors
    /// If it failed: the class of the error decides.
    pub fn done(self, recheck: Option<Duration>) -> Result<Done, AgentError> {
        let kept = |requeue_after, counts_as| Done {
            requeue_after: Some(requeue_after),
            failures: Failures::Kept,
            counts_as,
        };
        let earlier = |time: Duration| recheck.map_or(time, |recheck| recheck.min(time));
        match self {
            Self::Deployed(_) => Ok(Done {
                requeue_after: recheck,
                ..Done::UNTIL_CHANGE
            }),
            // Earlier failures count: it has not succeeded yet. Otherwise releases that never become ready would be rolled back and upgraded
            // without a pause. What is looked at again before the end of the wait may be what is late.
            Self::Waiting { remaining, .. } => Ok(kept(earlier(remaining), None)),
            // What runs may recover.
            Self::Retry(next) => Ok(kept(earlier(until(next.at)), Some(Reason::HelmFailed))),
            Self::Postponed(wait) => Ok(kept(wait, Some(Reason::Progressing))),
            Self::ReconcileAgain => Ok(Done {
                failures: Failures::Another(backoff::CONFLICT.into()),
                counts_as: Some(Reason::Progressing),
                ..Done::UNTIL_CHANGE
            }),
            Self::Incomplete { error, .. } | Self::Failed(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use helmops_helm::Failure;
    use helmops_release::{history::History, names::ReleaseKey};
    use helmops_runtime::{
        error_class::ClassifiedError,
        retry_state::{RetryKey, RetryState},
    };
    use k8s_openapi::jiff::{SignedDuration, Timestamp};
    use kube::runtime::reflector::ObjectRef;

    use super::*;
    use crate::context::Key;

    fn waiting(remaining: u64) -> Outcome {
        Outcome::Waiting {
            remaining: Duration::from_secs(remaining),
            late: "Deployment web".to_owned(),
        }
    }

    /// Such as a kind that the cluster does not have yet.
    #[test]
    fn what_is_due_before_the_end_of_a_wait_is_not_delayed_by_it() {
        let seconds = Duration::from_secs;
        for (recheck, expected) in [(None, 60), (Some(15), 15), (Some(120), 60)] {
            let done = waiting(60).done(recheck.map(seconds)).unwrap();
            assert_eq!(done.requeue_after, Some(seconds(expected)), "{recheck:?}");
        }
    }

    fn deployed() -> Deployed {
        let release = ReleaseKey::parse("shop/web").unwrap();
        Deployed::of(&release, &History::default(), 3)
    }

    fn retry(is_rolled_back: bool) -> Outcome {
        Outcome::Retry(Box::new(NextAttempt {
            text: "upgrade failed".to_owned(),
            at: Timestamp::now() + SignedDuration::from_mins(1),
            running: Some(deployed()),
            deployment_id: Some(":old".to_owned()),
            is_rolled_back,
            exhausted: Some(3),
            may_recover: false,
        }))
    }

    /// What each outcome shows in the status and in Events, counts as, and whether it ends requests.
    #[test]
    fn every_outcome_is_reported_counted_and_repeated() {
        let superseded = || Failure::new(FailureReason::Superseded, "gone").into();
        let failed = || AgentError::AttemptFailed("no".to_owned());
        let failure = |text: &str| DeployOutcome::Failed {
            error: text.to_owned(),
        };
        let shown = |reason: Reason, text: &str, exhausted_after| {
            Some(FailureReport {
                reason,
                text: text.to_owned(),
                exhausted_after,
            })
        };
        let release = || "shop/web:3".to_owned();
        let rolled_back = DeployOutcome::RolledBack {
            release: release(),
            deployment_id: Some(":old".to_owned()),
            error: "upgrade failed".to_owned(),
        };
        let of_deployed = DeployOutcome::Deployed { release: release() };
        let incomplete = Outcome::Incomplete {
            deployed: deployed(),
            error: failed(),
        };
        let progressing = Some(Reason::Progressing);
        let helm_failed = Some(Reason::HelmFailed);
        let retried = || shown(Reason::HelmFailed, "upgrade failed", Some(3));
        let no = || shown(Reason::HelmFailed, "no", None);
        let unchanged = || DeployOutcome::Unchanged;
        for (outcome, is_attempt, reported, event, counts_as) in [
            (Outcome::Deployed(deployed()), true, of_deployed, None, None),
            (incomplete, false, failure("no"), no(), helm_failed),
            (waiting(5), false, unchanged(), None, None),
            (retry(true), true, rolled_back, retried(), helm_failed),
            (
                retry(false),
                true,
                failure("upgrade failed"),
                retried(),
                helm_failed,
            ),
            (
                Outcome::Postponed(Duration::from_secs(5)),
                false,
                unchanged(),
                None,
                progressing,
            ),
            (Outcome::ReconcileAgain, false, unchanged(), None, progressing),
            (Outcome::Failed(failed()), true, failure("no"), no(), helm_failed),
            (
                Outcome::Failed(superseded()),
                false,
                unchanged(),
                None,
                progressing,
            ),
        ] {
            let text = format!("{outcome:?}");
            assert_eq!(outcome.is_attempt(), is_attempt, "{text}");
            assert_eq!(outcome.reported(), reported, "{text}");
            assert_eq!(outcome.failure(), event, "{text}");
            let counted = match outcome.done(None) {
                Ok(done) => done.counts_as,
                Err(error) => Some(error.reason()),
            };
            assert_eq!(counted, counts_as, "{text}");
        }
        let retried = retry(true).done(None).unwrap();
        assert!(retried.requeue_after > Some(Duration::from_secs(50)));
        assert_eq!(retried.failures, Failures::Kept);
    }

    #[tokio::test(start_paused = true)]
    async fn attempts_that_only_fail_after_a_wait_are_retried_more_and_more_slowly() {
        let retries = RetryState::<Key>::default();
        let key = ObjectRef::new("web").within("cluster");
        let mut delays = Vec::new();
        for _ in 0..4 {
            let waiting = retries.requeue_after(&key, RetryKey::default(), waiting(5).done(None));
            assert_eq!(waiting, Some(Duration::from_secs(5)));
            let failed = AgentError::AttemptFailed("not ready in time".to_owned());
            let delay = retries.requeue_after(&key, RetryKey::default(), Outcome::Failed(failed).done(None));
            delays.extend(delay);
            tokio::time::advance(delay.unwrap()).await;
        }
        assert!(delays.is_sorted() && delays[3] > 4 * delays[0], "{delays:?}");
    }
}
