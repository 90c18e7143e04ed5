//! Runs Helm to install or upgrade a release.

use helmops_api::BundleDeploymentOptions;
use helmops_release::{
    chart_metadata::Origin,
    history::History,
    post_render::PostRender,
    record::{Acceptance, Attempt, Cause, Status},
    scopes::Scopes,
};
use helmops_trace::in_span;
use kube::Client;

use super::{
    deployed::Deployed,
    deployment::{Deployment, Run, name},
    namespace::namespace_error,
};
use crate::{
    charts::ChartFile,
    crds::ChartCrds,
    error::AgentError,
    events::Done,
    helm::request::{self, Deploy, HelmSettings, Identity, Request},
    inputs,
};

/// What a deployment needs.
pub(super) struct Prepared {
    /// Who deploys.
    pub identity: Identity,
    /// The cluster, as this account.
    pub deployer: Client,
    /// The archive of the chart. It stays in the cache as long as this exists.
    pub chart: ChartFile,
    /// What the options mean.
    pub settings: HelmSettings,
    /// What Helm gets.
    pub deploy: Deploy,
}

impl Deployment<'_> {
    /// Runs Helm to install or upgrade.
    ///
    /// # Errors
    /// If something is missing, or Helm fails.
    pub(super) async fn run(&self, run: Run, attempt: Attempt) -> Result<Deployed, AgentError> {
        let (context, release) = (self.context, &self.release);
        let options = &self.wanted.spec.options;
        let prepared = self.prepare(attempt).await?;
        let releases = context.records.of_deployment(name(self.wanted)).await?;
        let is_renamed = super::is_renamed(self.wanted, &releases);
        // Objects that do not have the name of the release in theirs pass from the old release to the new one.
        let takes_over = is_renamed
            && matches!(run, Run::Install { .. })
            && self.owns_all_that_exists(&prepared, &releases).await?;
        let Prepared {
            identity,
            deployer,
            chart,
            settings,
            deploy,
        } = prepared;
        let crds = self.policy.for_action(run.action()).crds;
        if let Some(policy) = crds {
            let chart_crds = ChartCrds {
                helm: &context.helm,
                client: &deployer,
                release,
                stop: &self.running.deployment,
            };
            let applied = chart_crds.apply(policy, chart.path(), &deploy.values).await;
            let applied = applied.map_err(AgentError::from)?;
            tracing::debug!(%release, ?applied, "applied the CRDs of the chart");
        }
        let deploy = Deploy {
            skips_crds: crds.is_some(),
            ..deploy
        };
        self.remember().await?;
        if matches!(run, Run::Install { .. }) {
            context.guard.remember_version().await?;
        }
        if matches!(run, Run::Install { .. }) && settings.creates_namespace {
            inputs::create_namespace(&context.downstream, &deployer, &release.namespace).await?;
        }
        if !matches!(run, Run::Install { replaces: false }) {
            self.follow(run, &deployer).await?;
        }
        let done = match run {
            Run::Install { .. } => Done::Installed,
            Run::Upgrade { .. } => Done::Upgraded,
        };
        let action = match run {
            Run::Install { replaces } => request::Action::Install(request::Install {
                deploy,
                apply: settings.install,
                takes_ownership: settings.install_takes_ownership || takes_over,
                // The agent has created it: that takes Helm more time than the rest.
                creates_namespace: false,
                replaces,
            }),
            Run::Upgrade { .. } => request::Action::Upgrade(request::Upgrade {
                deploy,
                apply: settings.upgrade,
                takes_ownership: true,
                max_history: self.policy.history,
            }),
        };
        let request = Request {
            release: release.clone(),
            identity,
            action,
            hook_timeout: settings.hook_timeout,
        };
        tracing::info!(%release, action = request.action.name(), "running Helm");
        let kubeconfig = context.kubeconfig()?;
        let success = context
            .helm
            .run(request, kubeconfig, &self.running.deployment)
            .await
            .map_err(AgentError::from)?;
        let after = context.records.current_history(release).await?;
        for replaced in after.replaced() {
            context
                .records
                .delete(release, replaced.number, replaced.status)
                .await?;
        }
        let revision = success
            .revision
            .or_else(|| after.deployed().map(|deployed| deployed.number));
        let revision = revision.ok_or(AgentError::Changed)?;
        tracing::info!(%release, revision, "deployed");
        let what = format!("revision {revision}{}", chart_of(options));
        context.reports.done(done, release, &what);
        for warning in success.warnings {
            tracing::warn!(%release, warning, "warning of the API server");
        }
        let current = self.deployed(&after, revision);
        if is_renamed {
            super::remove_renamed(context, self.wanted, &releases).await;
        }
        if !options.namespace_labels.is_empty() || !options.namespace_annotations.is_empty() {
            let applied = inputs::apply_metadata(&deployer, options, &release.namespace).await;
            applied.map_err(|error| namespace_error(&current, error))?;
        }
        Ok(current)
    }

    /// Prepares what was deployed before for the next revision, once nothing that this one needs is missing.
    async fn follow(&self, run: Run, deployer: &Client) -> Result<(), AgentError> {
        let (records, release) = (&self.context.records, &self.release);
        let mut history = records.current_history(release).await?;
        if let Run::Upgrade { discard } = run {
            self.take_fields(deployer, &history).await?;
            if let Some(revision) = discard {
                records.delete(release, revision, Status::Failed).await?;
                history = records.current_history(release).await?;
            }
        }
        self.make_room(&history).await
    }

    /// Deletes records that nothing needs before Helm makes another one: also after failures, which may be many.
    ///
    /// # Errors
    /// If a record cannot be deleted.
    pub(super) async fn make_room(&self, history: &History) -> Result<(), AgentError> {
        let kept = usize::try_from(self.policy.history).unwrap_or(usize::MAX);
        for unneeded in history.unneeded(kept.saturating_sub(1)) {
            let records = &self.context.records;
            records
                .delete(&self.release, unneeded.number, unneeded.status)
                .await?;
        }
        Ok(())
    }

    /// Reads what a deployment needs.
    ///
    /// # Errors
    /// If something is missing.
    pub(super) async fn prepare(&self, attempt: Attempt) -> Result<Prepared, AgentError> {
        let context = self.context;
        let options = &self.wanted.spec.options;
        let identity =
            inputs::identity(&context.downstream, &context.namespace, &options.service_account).await?;
        let deployer = context.deployer(&identity)?;
        let values =
            inputs::values(&context.upstream, &deployer, self.wanted, &self.release.namespace).await?;
        let chart = in_span("fetch chart", context.charts.get(&context.upstream, self.wanted)).await?;
        let settings = self.settings();
        let deploy = self.render(attempt, &chart, values, &identity, &settings).await?;
        Ok(Prepared {
            identity,
            deployer,
            chart,
            settings,
            deploy,
        })
    }

    async fn render(
        &self,
        attempt: Attempt,
        chart: &ChartFile,
        values: Vec<Vec<u8>>,
        identity: &Identity,
        settings: &HelmSettings,
    ) -> Result<Deploy, AgentError> {
        let (context, deployment) = (self.context, self.wanted);
        let options = &deployment.spec.options;
        let is_moved = !options.namespace.is_empty();
        let scopes = if is_moved {
            context.kinds.scopes().await?
        } else {
            Scopes::default()
        };
        let labels = deployment.metadata.labels.as_ref();
        let service_account = match identity {
            Identity::ServiceAccount { .. } => options.service_account.clone(),
            Identity::Agent => String::new(),
        };
        let is_awaited = self.policy.wait.is_some() || self.policy.test.is_some();
        Ok(Deploy {
            archive: chart.path().to_owned(),
            origin: Origin {
                bundle_deployment: name(deployment).to_owned(),
                agent_namespace: context.namespace.clone(),
                service_account,
                keep_resources: options.keep_resources,
                deletes_namespace: options.delete_namespace,
                commit: labels
                    .and_then(|labels| labels.get("fleet.cattle.io/commit"))
                    .cloned()
                    .unwrap_or_default(),
                copies: (!options.downstream_resources.is_empty())
                    .then_some(deployment.spec.downstream_resources_generation),
                forced_by: if attempt.cause == Cause::Request {
                    self.force_request().to_owned()
                } else {
                    String::new()
                },
                attempt: Some(attempt.clone()),
            },
            values,
            post_render: PostRender {
                set: context.set_of(name(deployment)).as_str().to_owned(),
                namespace: is_moved.then(|| options.namespace.clone()),
                deletes_crds: options.delete_crd_resources,
                scopes,
            },
            enables_dns: settings.enables_dns,
            skips_schema: settings.skips_schema,
            description: attempt.to_string(),
            skips_crds: false,
            acceptance: is_awaited.then_some(Acceptance::Awaited),
            on_delete: Some(self.policy.on_delete).filter(|on_delete| !on_delete.is_default()),
        })
    }
}

/// The chart, for messages.
fn chart_of(options: &BundleDeploymentOptions) -> String {
    let helm = options.helm.as_ref();
    helm.map_or_else(String::new, |helm| {
        // A registry or an archive has no name of a chart.
        let chart = if helm.chart.is_empty() {
            &helm.repo
        } else {
            &helm.chart
        };
        format!(", chart {chart} {}", helm.version).trim_end().to_owned()
    })
}
