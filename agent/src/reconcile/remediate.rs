//! What is done about a failed attempt: the revision before is restored, or the release is uninstalled.

use helmops_release::{
    history::{FailedAttempt, History},
    record::Failure,
};

use super::{deployment::Deployment, remove};
use crate::{
    error::AgentError,
    events::Remediation,
    helm::request::{self, Request, Rollback},
    inputs,
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
        let options = &self.wanted.spec.options;
        let settings = self.settings();
        let request = Request {
            release: release.clone(),
            identity: inputs::identity(&context.downstream, &context.namespace, &options.service_account)
                .await?,
            action: request::Action::Rollback(Rollback {
                revision: to,
                apply: settings.upgrade,
                max_history: self.policy.history,
                runs_hooks: true,
            }),
            hook_timeout: settings.hook_timeout,
        };
        tracing::info!(%release, to, "rolling back");
        let kubeconfig = context.kubeconfig()?;
        self.make_room(history).await?;
        let run = context.helm.run(request, kubeconfig, &self.running.deployment);
        let run = run.await;
        run.map_err(AgentError::from)?;
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
        let options = remove::Options {
            keeps_history: keeps_record,
            description: if keeps_record {
                Failure::Uninstalled(cause.clone()).description()
            } else {
                String::new()
            },
            skips_hooks: self.policy.on_delete.disable_hooks,
            timeout: self.policy.on_delete.timeout,
        };
        let stop = &self.running.deployment;
        remove::uninstall(context, release, history, options, stop).await?;
        let what = format!("revision {revision} failed and was uninstalled: {cause}");
        context.reports.remediated(Remediation::Uninstall, release, &what);
        Ok(())
    }
}
