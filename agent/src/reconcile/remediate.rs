//! What is done about a failed attempt: the revision before is restored, or the release is uninstalled.

use helmops_release::{
    history::{FailedAttempt, History},
    lifecycle,
    record::Failure,
};

use super::{
    deployment::{Deployment, name},
    recorded::Role,
    remove::{self, Uninstallation},
};
use crate::{
    error::AgentError,
    events::Remediation,
    helm::request::{self, Request, Rollback},
};

impl Deployment<'_> {
    /// Restores a revision.
    ///
    /// # Errors
    /// If a record cannot be deleted, or Helm fails.
    pub(super) async fn roll_back(
        &self,
        history: &History,
        to: u64,
        failed: FailedAttempt<'_>,
    ) -> Result<(), AgentError> {
        let (context, release) = (self.context, &self.release);
        let settings = self.settings();
        let (identity, deployer) = self.deployer().await?;
        let (history, max_history) = self.make_room(history).await?;
        let recorded = self.recorded(&deployer, true);
        if let Some(newest) = history.newest() {
            let replaced = recorded.prepare(newest.number, Role::Replaced);
            self.records.changed_by(replaced).await?;
        }
        let restored = recorded.prepare(to, Role::Restored);
        self.records.changed_by(restored).await?;
        let request = Request {
            release: release.clone(),
            identity,
            action: request::Action::Rollback(Rollback {
                revision: to,
                apply: settings.upgrade,
                max_history,
                runs_hooks: true,
            }),
            hook_timeout: settings.hook_timeout,
        };
        tracing::info!(%release, to, "rolling back");
        let kubeconfig = context.kubeconfig()?;
        let run = context.helm.run(request, kubeconfig, &self.running.deployment);
        self.records.changed_by(run).await.map_err(AgentError::from)?;
        let (revision, cause) = (failed.revision.number, failed.failure.cause());
        let what = format!("revision {revision} failed and was rolled back to revision {to}: {cause}");
        context.reports.remediated(Remediation::Rollback, release, &what);
        Ok(())
    }

    /// Uninstalls what failed. Its record is kept if it counts the attempts.
    ///
    /// # Errors
    /// If Helm fails.
    pub(super) async fn uninstall(
        &self,
        history: &History,
        keeps_record: bool,
        failed: FailedAttempt<'_>,
    ) -> Result<(), AgentError> {
        let (context, release) = (self.context, &self.release);
        let (revision, cause) = (failed.revision.number, failed.failure.cause());
        tracing::info!(%release, revision, "uninstalling what failed");
        let options = self.uninstallation(keeps_record.then(|| cause.clone()));
        self.uninstall_release(history, options).await?;
        let what = format!("revision {revision} failed and was uninstalled: {cause}");
        context.reports.remediated(Remediation::Uninstall, release, &what);
        Ok(())
    }

    /// Ends an uninstallation that has started: it was interrupted, or failed. If it was to remediate an attempt, the record of
    /// that is kept, or the attempts would be counted from the start.
    ///
    /// # Errors
    /// If Helm fails.
    pub(super) async fn complete_uninstallation(&self, history: &History) -> Result<(), AgentError> {
        let release = &self.release;
        let is_remediation =
            lifecycle::is_remediation(history, &self.policy, &self.wanted.spec.deployment_id);
        tracing::info!(%release, is_remediation, "completing the uninstallation");
        let cause = is_remediation.then(|| "the uninstallation was interrupted".to_owned());
        self.uninstall_release(history, self.uninstallation(cause)).await
    }

    /// Uninstalls the release as the account that deploys it: what its record says is no permission.
    async fn uninstall_release(&self, history: &History, options: remove::Options) -> Result<(), AgentError> {
        let account = &self.wanted.spec.options.service_account;
        let stop = &self.running.deployment;
        let uninstallation = Uninstallation {
            context: self.context,
            deployment: name(self.wanted),
            release: &self.release,
            account,
        };
        let uninstalled = uninstallation.run(history, options, stop);
        self.records.changed_by(uninstalled).await
    }

    /// How the release is uninstalled. With the cause of a failure, its record is kept.
    fn uninstallation(&self, cause: Option<String>) -> remove::Options {
        let on_delete = &self.policy.on_delete;
        remove::Options {
            keeps_history: cause.is_some(),
            description: cause.map_or_else(String::new, |cause| Failure::Uninstalled(cause).description()),
            skips_hooks: on_delete.disable_hooks,
            timeout: on_delete.timeout.or(Some(self.settings().hook_timeout)),
        }
    }
}
