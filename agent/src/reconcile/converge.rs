//! Brings a release to what its BundleDeployment wants.
//!
//! ```text
//! observe ─► plan ─► operation ─┐
//!    ▲                          │ until nothing is to be done, or an attempt has failed and is remediated
//!    └──────────────────────────┘
//! ```

use std::{ops::ControlFlow, time::Duration};

use helmops_release::{
    names::ReleaseKey,
    plan::{self, Adoption, DoneSoFar, FailedRevision, Plan, UnreportedFailure},
    record::Failure,
};
use helmops_runtime::workers::WorkerPermit;

use super::{observe, outcome::Outcome, report};
use crate::{
    error::AgentError,
    operations::{self, Effect, copies, namespace},
    session::ReleaseSession,
};

/// How many operations one reconciliation has at most: unlock, finish an uninstallation, install, remediate, and some for changes in
/// between.
const MAX_OPERATIONS: usize = 7;

/// Deploys what is wanted, if it is not deployed.
///
/// # Errors
/// If the work ends before Helm could begin, as the agent stops or the release is not wanted any more: nothing is to be reported.
pub async fn deploy(session: &ReleaseSession<'_>, permit: &mut WorkerPermit) -> Result<Outcome, AgentError> {
    match before_helm(session).await {
        Ok(ControlFlow::Continue(done)) => with_helm(session, permit, || converge(session, done)).await,
        Ok(ControlFlow::Break(outcome)) => Ok(outcome),
        Err(error) => Ok(Outcome::Failed(error)),
    }
}

/// An attempt failed although Helm succeeded. The record gets the failure, and the remediation follows.
///
/// # Errors
/// As [`deploy`].
pub async fn fail(
    session: &ReleaseSession<'_>,
    permit: &mut WorkerPermit,
    revision: u64,
    failure: &Failure,
) -> Result<Outcome, AgentError> {
    let fail = || async {
        operations::fail(session, revision, failure).await?;
        let done = DoneSoFar {
            has_failed: true,
            ..DoneSoFar::default()
        };
        match converge(session, done).await? {
            // Another client has deployed it meanwhile.
            Outcome::Deployed(_) => Ok(Outcome::ReconcileAgain),
            outcome => Ok(outcome),
        }
    };
    with_helm(session, permit, fail).await
}

/// What is done without Helm: if nothing else is to be done, that is the outcome.
async fn before_helm(session: &ReleaseSession<'_>) -> Result<ControlFlow<Outcome, DoneSoFar>, AgentError> {
    observe::check_prerequisites(session).await?;
    let observed = observe::cached(session).await?;
    let deployed = session.desired().deployed(&observed.history);
    if deployed.is_none()
        && let Some(wait) = observe::delay(session).await?
    {
        return Ok(ControlFlow::Break(Outcome::Postponed(wait)));
    }
    // Those of a deployed revision follow their sources while its next attempt is delayed.
    let has_changed_copies = match (copies::update(session).await, &deployed) {
        (Ok(changed), _) => changed,
        // What is deployed is observed and corrected all the same.
        (Err(error), Some(deployed)) => {
            let deployed = deployed.clone();
            return Ok(ControlFlow::Break(Outcome::Incomplete { deployed, error }));
        }
        (Err(error), None) => return Err(error),
    };
    let done = DoneSoFar {
        has_changed_copies,
        ..DoneSoFar::default()
    };
    if let Plan::UpToDate(deployed) = plan::next(&session.desired(), &observed, done) {
        namespace::restore(session, &deployed).await?;
        return Ok(ControlFlow::Break(Outcome::Deployed(deployed)));
    }
    if deployed.is_some()
        && let Some(wait) = observe::delay(session).await?
    {
        return Ok(ControlFlow::Break(Outcome::Postponed(wait)));
    }
    Ok(ControlFlow::Continue(done))
}

async fn converge(session: &ReleaseSession<'_>, mut done: DoneSoFar) -> Result<Outcome, AgentError> {
    let mut failure = None;
    for _ in 0..MAX_OPERATIONS {
        let observed = observe::current(session).await?;
        let operation = match plan::next(&session.desired(), &observed, done) {
            Plan::Operate(operation) => operation,
            Plan::UpToDate(deployed) => return Ok(Outcome::Deployed(deployed)),
            Plan::RetryLater(next) => return Ok(Outcome::Retry(Box::new(next))),
            Plan::Busy(pending) => {
                let release = session.release.clone();
                return Err(AgentError::Busy { release, pending });
            }
            Plan::Refuse(owner) => {
                let release = session.release.clone();
                return Err(AgentError::Foreign { release, owner });
            }
            Plan::Report(report) => return Err(reported(&report, failure)),
            Plan::ChangedMeanwhile => return failure.map_or(Ok(Outcome::ReconcileAgain), Err),
        };
        match operations::execute(session, &observed.history, operation).await? {
            Effect::Deployed(deployed) => return Ok(Outcome::Deployed(deployed)),
            Effect::Changed => {}
            Effect::Adopted => done.adoption = Adoption::Adopted,
            Effect::Differs => done.adoption = Adoption::Differs,
            Effect::FailureRecorded(error) => {
                done.has_failed = true;
                failure = Some(error);
            }
            Effect::Remediated { what, failed } => {
                let cause = failure.take();
                if failed.is_reported_after {
                    return Err(remediated(&session.release, what, &failed, cause));
                }
            }
        }
    }
    Ok(Outcome::ReconcileAgain)
}

/// The error of a failed attempt: that of Helm, if it ran in this reconciliation.
fn reported(report: &UnreportedFailure, error: Option<AgentError>) -> AgentError {
    match error {
        Some(AgentError::Helm(failure)) if failure.is_captured() => AgentError::Helm(failure),
        Some(error) if report.kept.is_none() => error,
        error => {
            let mut text = error.map_or_else(|| report.text.clone(), |error| error.to_string());
            if let Some(because) = report.kept {
                text = format!("{text}; {because}");
            }
            AgentError::AttemptFailed(text)
        }
    }
}

/// The error of a failed attempt after its remediation, in the words of Fleet's agent.
fn remediated(
    release: &ReleaseKey,
    what: &str,
    failed: &FailedRevision,
    error: Option<AgentError>,
) -> AgentError {
    let cause = match error {
        Some(AgentError::Helm(failure)) if failure.is_captured() => return AgentError::Helm(failure),
        Some(error) => error.to_string(),
        None => failed.cause.clone(),
    };
    AgentError::AttemptFailed(format!(
        "release {} failed, and has been {what} due to rollback-on-failure being set (atomic): {cause}",
        release.name
    ))
}

/// How long a release is deployed before that is reported. Most take less time, and need no more than one write of their status.
const REPORTED_AFTER: Duration = Duration::from_secs(3);

/// Does something that runs Helm for a release, when its turn comes.
async fn with_helm<W: Future<Output = Result<Outcome, AgentError>>>(
    session: &ReleaseSession<'_>,
    permit: &mut WorkerPermit,
    run: impl FnOnce() -> W,
) -> Result<Outcome, AgentError> {
    let helm = &session.context.helm;
    let is_slow = helm.is_slow(&session.release, &session.deployment.spec.deployment_id);
    let run = || report::while_deploying(session, REPORTED_AFTER, run());
    let turn = operations::with_helm_permit(helm, &session.work.deployment, is_slow, permit, run);
    let outcome = Outcome::from(turn.await?);
    if let Outcome::Failed(error) = &outcome {
        session.failed(error);
    }
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use helmops_helm::{Failure as HelmFailure, FailureReason};
    use helmops_release::lifecycle::KeptBecause;

    use super::*;

    fn of_helm(reason: FailureReason) -> AgentError {
        HelmFailure::new(reason, "Helm says no").into()
    }

    /// A failure that is final for its deployment ID stays what it is: the status has another text for it.
    #[test]
    fn a_failure_is_reported_with_the_error_of_helm_and_with_why_nothing_was_done() {
        let kept = Some(KeptBecause::OtherName);
        for (kept, error, expected) in [
            (None, None, "release web failed: no"),
            (None, Some(of_helm(FailureReason::HookFailed)), "Helm says no"),
            (kept, None, "release web failed: no; "),
            (kept, Some(of_helm(FailureReason::HookFailed)), "Helm says no; "),
        ] {
            let text = "release web failed: no".to_owned();
            let because = kept.map_or_else(String::new, |because| because.to_string());
            let report = UnreportedFailure { text, kept };
            assert_eq!(
                reported(&report, error).to_string(),
                format!("{expected}{because}")
            );
        }
        let report = UnreportedFailure {
            text: String::new(),
            kept,
        };
        let captured = reported(&report, Some(of_helm(FailureReason::ManifestInvalid)));
        assert!(matches!(captured, AgentError::Helm(_)), "{captured:?}");
    }

    #[test]
    fn a_remediation_is_reported_in_the_words_of_fleet() {
        let release = ReleaseKey::parse("shop/web").unwrap();
        let failed = FailedRevision {
            number: 2,
            cause: "not ready".to_owned(),
            is_reported_after: true,
        };
        let text = |error| remediated(&release, "rolled back", &failed, error).to_string();
        let prefix =
            "release web failed, and has been rolled back due to rollback-on-failure being set (atomic): ";
        assert_eq!(text(None), format!("{prefix}not ready"));
        assert_eq!(
            text(Some(of_helm(FailureReason::HookFailed))),
            format!("{prefix}Helm says no")
        );
        let captured = remediated(
            &release,
            "x",
            &failed,
            Some(of_helm(FailureReason::ManifestInvalid)),
        );
        assert!(matches!(captured, AgentError::Helm(_)), "{captured:?}");
    }
}
