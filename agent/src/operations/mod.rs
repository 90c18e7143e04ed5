//! The operations on a release. Each changes it in one way, and returns what that has led to.
//!
//! ```text
//! prepare: values, chart, account ─► before Helm: older objects, CRDs, records ─► Helm ─► after Helm: the record, the namespace
//! ```

mod adopt;
pub mod copies;
mod deploy;
mod existing;
mod fields;
mod history;
pub mod leftovers;
pub mod namespace;
pub mod on_delete;
mod prepare;
mod prune;
mod recorded;
mod remediate;
pub mod renamed;
mod storage;
pub mod test;
pub mod uninstall;

use helmops_helm::{FailureReason, run_scope::RunScope};
use helmops_release::{
    deployed::Deployed,
    history::History,
    plan::{FailedRevision, Operation},
    record::{AttemptAction, Failure},
};
use helmops_runtime::workers::WorkerPermit;

use crate::{error::AgentError, helm::HelmRuns, session::ReleaseSession};

/// What an operation has led to.
#[derive(Debug)]
pub enum Effect {
    /// What is wanted is deployed.
    Deployed(Deployed),
    /// The records have changed, by this operation or by another client meanwhile.
    Changed,
    /// The release of a user's Helm was taken over as it is.
    Adopted,
    /// The release of a user's Helm differs from what is wanted.
    Differs,
    /// An attempt failed, and what follows is decided by its record.
    FailureRecorded(AgentError),
    /// Something was done about a failed attempt.
    Remediated {
        /// What was done, such as `rolled back`.
        what: &'static str,
        /// The attempt that had failed.
        failed: FailedRevision,
    },
}

/// Executes an operation. `history` are the records that it was planned from.
///
/// # Errors
/// If it fails, and the records do not decide what follows.
pub async fn execute(
    session: &ReleaseSession<'_>,
    history: &History,
    operation: Operation,
) -> Result<Effect, AgentError> {
    storage::check_namespace(session, history).await?;
    match operation {
        Operation::Install { replaces, attempt } => {
            let deployed = deploy::install(session, history, replaces, attempt).await;
            after_attempt(session, history, AttemptAction::Install, deployed).await
        }
        Operation::Upgrade { discard, attempt } => {
            let deployed = deploy::upgrade(session, history, discard, attempt).await;
            after_attempt(session, history, AttemptAction::Upgrade, deployed).await
        }
        Operation::Adopt { revision, attempt } => {
            session.context.guard.remember_version().await?;
            let is_adopted = adopt::adopt(session, revision, attempt).await?;
            Ok(if is_adopted {
                Effect::Adopted
            } else {
                Effect::Differs
            })
        }
        Operation::Unlock { revision } => {
            let unlocked = session.context.records.unlock(&session.release, revision);
            session.records.changed_by(unlocked).await?;
            Ok(Effect::Changed)
        }
        Operation::Rollback { to, failed } => {
            if let Err(error) = remediate::roll_back(session, history, to, &failed).await {
                record_deadline(session, &error).await?;
                return Err(error);
            }
            let what = "rolled back";
            Ok(Effect::Remediated { what, failed })
        }
        Operation::Uninstall { keeps_record, failed } => {
            remediate::uninstall(session, history, keeps_record, &failed).await?;
            let what = "uninstalled";
            Ok(Effect::Remediated { what, failed })
        }
        Operation::CompleteUninstallation { is_remediation } => {
            remediate::complete_uninstallation(session, history, is_remediation).await?;
            Ok(Effect::Changed)
        }
    }
}

/// What follows from the result of an installation or upgrade.
async fn after_attempt(
    session: &ReleaseSession<'_>,
    before: &History,
    action: AttemptAction,
    deployed: Result<Option<Deployed>, AgentError>,
) -> Result<Effect, AgentError> {
    let error = match deployed {
        Ok(deployed) => return Ok(deployed.map_or(Effect::Changed, Effect::Deployed)),
        Err(error) => error,
    };
    record_deadline(session, &error).await?;
    leftovers::clear_repeated(session).await?;
    let after = session.records.history().await?;
    if session.desired().is_decided_by_records(action, before, &after) {
        Ok(Effect::FailureRecorded(error))
    } else {
        Err(error)
    }
}

/// A run of Helm that reaches its deadline has failed: in its record it looks like one that was interrupted, which neither
/// counts nor is remediated.
async fn record_deadline(session: &ReleaseSession<'_>, error: &AgentError) -> Result<(), AgentError> {
    if !matches!(error, AgentError::Helm(failure) if failure.reason == FailureReason::Deadline) {
        return Ok(());
    }
    let history = session.records.history().await?;
    if let Some(newest) = history.newest_of(session.name()) {
        let records = &session.context.records;
        let failed = records.fail_at_deadline(&session.release, newest.number);
        session.records.changed_by(failed).await?;
    }
    Ok(())
}

/// Records that a revision has failed, which Helm has deployed.
///
/// # Errors
/// If its record cannot be changed.
pub async fn fail(session: &ReleaseSession<'_>, revision: u64, failure: &Failure) -> Result<(), AgentError> {
    let release = &session.release;
    tracing::warn!(%release, revision, cause = failure.cause(), "the deployment failed");
    let failed = session.context.records.fail(release, revision, failure);
    session.records.changed_by(failed).await?;
    leftovers::clear_repeated(session).await
}

/// Records that a revision which was not ready in time is ready now.
///
/// # Errors
/// If its record cannot be changed.
pub async fn recover(session: &ReleaseSession<'_>, revision: u64) -> Result<(), AgentError> {
    let release = &session.release;
    tracing::info!(%release, revision, "the deployment is ready after all");
    let recovered = session.context.records.set_deployed(release, revision);
    session.records.changed_by(recovered).await?;
    Ok(())
}

/// Does something that runs Helm, after a preparation is free. Other releases are reconciled with the permit meanwhile: those that wait for
/// Helm would use up the workers, and nothing would be observed, corrected or reported.
///
/// # Errors
/// If the turn does not come: the agent stops, or the release is not wanted any more.
pub async fn with_helm_permit<T, W: Future<Output = T>>(
    helm: &HelmRuns,
    stop: &RunScope,
    is_slow: bool,
    permit: &mut WorkerPermit,
    run: impl FnOnce() -> W,
) -> Result<T, AgentError> {
    let result = permit.release_during(async {
        let _preparation = helm.prepare(stop, is_slow).await?;
        // On the heap only from here on: many may wait.
        Ok(Box::pin(run()).await)
    });
    result.await?
}
