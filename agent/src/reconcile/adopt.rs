//! Takes over the release of a user's Helm as it is: if a deployment would change no object, only the record is changed.

use helmops_core::chart::source::is_oci;
use helmops_release::{
    adoption,
    record::{Attempt, AttemptAction, Cause},
};

use super::{deployment::Deployment, prepare::Prepared};
use crate::{
    error::AgentError,
    helm::request::{Action, Render, Request},
};

impl Deployment<'_> {
    /// Makes a revision that of this BundleDeployment. Returns whether it was: if anything differs, an upgrade takes it over.
    ///
    /// # Errors
    /// If something is missing that an upgrade needs too, or the record cannot be written.
    pub(super) async fn adopt(&self, revision: u64) -> Result<bool, AgentError> {
        let (context, release) = (self.context, &self.release);
        let Some(record) = context.records.read(release, revision).await? else {
            return Ok(false);
        };
        let helm = self.wanted.spec.options.helm.as_ref();
        let (chart, version) = helm.map_or(("", ""), |helm| {
            let has_index = !helm.repo.is_empty() && !is_oci(&helm.repo);
            (if has_index { &*helm.chart } else { "" }, &*helm.version)
        });
        if let Err(obstacle) = adoption::check_chart(&record, chart, version) {
            tracing::info!(%release, revision, %obstacle, "upgrading to take over the release");
            return Ok(false);
        }
        let attempt = Attempt {
            action: if revision == 1 {
                AttemptAction::Install
            } else {
                AttemptAction::Upgrade
            },
            deployment_id: self.wanted.spec.deployment_id.clone(),
            cause: Cause::Change,
            number: 1,
        };
        let prepared = self.prepare(attempt).await?;
        let (origin, post_render) = (
            prepared.deploy.origin.clone(),
            prepared.deploy.post_render.clone(),
        );
        let rendered = self.rendered(&prepared, revision > 1).await?;
        drop(prepared);
        // An upgrade fails too, and reports it.
        let Some(rendered) = rendered else {
            return Ok(false);
        };
        if let Err(obstacle) = adoption::check(&record, &rendered, &post_render) {
            tracing::info!(%release, revision, %obstacle, "upgrading to take over the release");
            return Ok(false);
        }
        self.remember().await?;
        let is_adopted = context.records.adopt(release, revision, &origin).await?;
        if is_adopted {
            tracing::info!(%release, revision, "took over the release as it is");
        }
        Ok(is_adopted)
    }

    /// The objects and hooks of the chart before the post-renderer; `None` if it cannot be rendered.
    ///
    /// # Errors
    /// If the agent stops.
    pub(super) async fn rendered(
        &self,
        prepared: &Prepared,
        is_upgrade: bool,
    ) -> Result<Option<String>, AgentError> {
        let context = self.context;
        let request = Request {
            release: self.release.clone(),
            identity: prepared.identity.clone(),
            action: Action::Render(Render {
                deploy: prepared.deploy.clone(),
                is_upgrade,
            }),
            hook_timeout: prepared.settings.hook_timeout,
        };
        let kubeconfig = context.kubeconfig()?;
        let run = context.helm.run(request, kubeconfig, &self.running.deployment);
        match run.await {
            Ok(success) => Ok(Some(success.printed)),
            Err(failure) if failure.reason.is_interruption() => Err(AgentError::from(failure)),
            Err(failure) => {
                tracing::info!(release = %self.release, %failure, "the chart cannot be rendered");
                Ok(None)
            }
        }
    }
}
