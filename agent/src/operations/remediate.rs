//! What is done about a failed attempt: the revision before is restored, or the release is uninstalled.

use helmops_helm::request::{self, Request, Rollback};
use helmops_release::{
    history::History,
    plan::FailedRevision,
    record::{Failure, Propagation},
};

use super::{
    history,
    recorded::{self, Role},
    uninstall::{self, Uninstallation},
};
use crate::{error::AgentError, events::Remediation, session::ReleaseSession};

/// Restores a revision.
///
/// # Errors
/// If a record cannot be deleted, or Helm fails.
pub async fn roll_back(
    session: &ReleaseSession<'_>,
    history: &History,
    to: u64,
    failed: &FailedRevision,
) -> Result<(), AgentError> {
    let (context, release) = (session.context, &session.release);
    let settings = session.settings();
    let (identity, deployer) = session.deployer().await?;
    let (history, max_history) = history::make_room(session, history).await?;
    let recorded = recorded::of(session, &deployer, true);
    if let Some(newest) = history.newest() {
        let replaced = recorded.prepare(newest.number, Role::Replaced);
        session.records.changed_by(replaced).await?;
    }
    let restored = recorded.prepare(to, Role::Restored);
    session.records.changed_by(restored).await?;
    let request = Request {
        release: release.clone(),
        identity,
        action: request::Action::Rollback(Rollback {
            revision: to,
            settings: settings.rollback,
            max_history,
        }),
        hook_timeout: settings.rollback.hook_timeout,
    };
    tracing::info!(%release, to, "rolling back");
    let kubeconfig = context.kubeconfig()?;
    let run = context.helm.run(request, kubeconfig, &session.work.deployment);
    session.records.changed_by(run).await.map_err(AgentError::from)?;
    let (revision, cause) = (failed.number, &failed.cause);
    let what = format!("revision {revision} failed and was rolled back to revision {to}: {cause}");
    context.reports.remediated(Remediation::Rollback, release, &what);
    Ok(())
}

/// Uninstalls what failed. Its record is kept if it counts the attempts.
///
/// # Errors
/// If Helm fails.
pub async fn uninstall(
    session: &ReleaseSession<'_>,
    history: &History,
    keeps_record: bool,
    failed: &FailedRevision,
) -> Result<(), AgentError> {
    let (context, release) = (session.context, &session.release);
    let (revision, cause) = (failed.number, &failed.cause);
    tracing::info!(%release, revision, "uninstalling what failed");
    let options = options(session, keeps_record.then(|| cause.clone()));
    uninstall_release(session, history, options).await?;
    let what = format!("revision {revision} failed and was uninstalled: {cause}");
    context.reports.remediated(Remediation::Uninstall, release, &what);
    Ok(())
}

/// Ends an uninstallation that has started: it was interrupted, or failed. If it was to remediate an attempt, the record of
/// that is kept, or the attempts would be counted from the start.
///
/// # Errors
/// If Helm fails.
pub async fn complete_uninstallation(
    session: &ReleaseSession<'_>,
    history: &History,
    is_remediation: bool,
) -> Result<(), AgentError> {
    tracing::info!(release = %session.release, is_remediation, "completing the uninstallation");
    let cause = is_remediation.then(|| "the uninstallation was interrupted".to_owned());
    uninstall_release(session, history, options(session, cause)).await
}

/// Uninstalls the release as the account that deploys it: what its record says is no permission.
async fn uninstall_release(
    session: &ReleaseSession<'_>,
    history: &History,
    how: uninstall::Options,
) -> Result<(), AgentError> {
    let account = &session.deployment.spec.options.service_account;
    let stop = &session.work.deployment;
    let uninstallation = Uninstallation {
        context: session.context,
        deployment: session.name(),
        release: &session.release,
        account,
    };
    let uninstalled = uninstallation.run(history, how, stop);
    session.records.changed_by(uninstalled).await
}

/// How the release is uninstalled. With the cause of a failure, its record is kept.
fn options(session: &ReleaseSession<'_>, cause: Option<String>) -> uninstall::Options {
    let on_delete = &session.policy.on_delete;
    uninstall::Options {
        keeps_history: cause.is_some(),
        description: cause.map_or_else(String::new, |cause| Failure::Uninstalled(cause).description()),
        skips_hooks: on_delete.disable_hooks,
        propagation: in_remediation(on_delete.propagation),
        timeout: on_delete.timeout.or(Some(session.settings().hook_timeout)),
    }
}

/// What happens with dependents. In the foreground, an object exists until they are gone, and the next installation would apply it meanwhile.
const fn in_remediation(propagation: Propagation) -> Propagation {
    match propagation {
        Propagation::Orphan => Propagation::Orphan,
        Propagation::Background | Propagation::Foreground => Propagation::Background,
    }
}
