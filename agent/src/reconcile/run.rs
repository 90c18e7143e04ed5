//! Runs Helm to install or upgrade a release.

use helmops_api::BundleDeploymentOptions;
use helmops_process::exit::with_causes;
use helmops_release::{
    history::History,
    lifecycle::CrdPolicy,
    record::{Attempt, Status},
};
use kube::Client;

use super::{
    deployed::Deployed,
    deployment::{Deployment, Run, name},
    namespace::namespace_error,
    prepare::Prepared,
    recorded::{RecordedObjects, Role},
    renamed::own_releases,
};
use crate::{
    charts::ChartFile,
    crds::ChartCrds,
    error::AgentError,
    events::Done,
    helm::{
        FailureReason,
        outcome::SecretTexts,
        request::{self, Deploy, Request},
    },
    inputs, live,
};

/// Attempts without a deployed revision whose records are kept beside those of the policy.
const MAX_UNFINISHED: usize = 10;

impl Deployment<'_> {
    /// Runs Helm to install or upgrade.
    ///
    /// # Errors
    /// If something is missing, or Helm fails.
    pub(super) async fn run(&self, run: Run, attempt: Attempt) -> Result<Deployed, AgentError> {
        let (context, release) = (self.context, &self.release);
        let options = &self.wanted.spec.options;
        let mut prepared = self.prepare(attempt).await?;
        self.look_for_older_objects(run, &mut prepared).await?;
        let releases = own_releases(context, name(self.wanted)).await?;
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
            self.apply_crds(policy, &deployer, &chart, &deploy).await?;
        }
        let secrets = deploy.secrets.clone();
        let deploy = Deploy {
            skips_crds: crds.is_some(),
            ..deploy
        };
        self.remember().await?;
        if matches!(run, Run::Install { .. }) {
            context.guard.remember_version().await?;
            if settings.creates_namespace {
                inputs::create_namespace(&context.downstream, &deployer, &release.namespace).await?;
            }
        }
        let max_history = match run {
            Run::Install { replaces: false } => self.policy.history,
            Run::Install { .. } | Run::Upgrade { .. } => self.follow(run, &deployer).await?,
        };
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
                max_history,
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
        let run = context.helm.run(request, kubeconfig, &self.running.deployment);
        let run = self.records.changed_by(run).await;
        if let Err(failure) = &run {
            self.correct_record(failure.reason, &secrets).await;
        }
        let success = run.map_err(AgentError::from)?;
        let after = self.records.history().await?;
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

    /// Marks the newest revision as failed if it is pending. Helm does that itself when it is interrupted, but its hooks write the same
    /// record at the same time, and may write the status from before. What fails here is done before the next operation.
    async fn end_pending(&self) {
        let (records, release) = (&self.context.records, &self.release);
        let ended = async {
            let history = self.records.history().await?;
            match history.newest_of(name(self.wanted)) {
                Some(newest) => {
                    let unlocked = records.unlock(release, newest.number);
                    self.records.changed_by(unlocked).await
                }
                None => Ok(()),
            }
        };
        if let Err(error) = ended.await {
            let error = with_causes(&error);
            tracing::warn!(%release, error, "cannot record that Helm was interrupted");
        }
    }

    /// After a failure, changes what Helm has written into the newest record.
    async fn correct_record(&self, reason: FailureReason, secrets: &SecretTexts) {
        if !secrets.is_empty() {
            self.hide(secrets).await;
        }
        // Otherwise another replica does that.
        if reason.is_interruption() && self.context.leadership.remaining().is_some() {
            self.end_pending().await;
        }
    }

    /// Removes values of Secrets from what Helm has written into the newest record: statuses and Events show it, and so does `helm
    /// history`.
    async fn hide(&self, secrets: &SecretTexts) {
        let (records, release) = (&self.context.records, &self.release);
        let hidden = async {
            let history = self.records.history().await?;
            match history.newest_of(name(self.wanted)) {
                // A deployed one is older: Helm has failed before it wrote another.
                Some(newest) if newest.status != Status::Deployed => {
                    let change = |text: &str| secrets.hide(text);
                    let described = records.describe(release, newest.number, change);
                    self.records.changed_by(described).await
                }
                _ => Ok(()),
            }
        };
        if let Err(error) = hidden.await {
            let error = with_causes(&error);
            tracing::warn!(%release, error, "cannot remove values of Secrets from the record");
        }
    }

    /// Applies the CRDs of the chart in place of Helm.
    async fn apply_crds(
        &self,
        policy: CrdPolicy,
        deployer: &Client,
        chart: &ChartFile,
        deploy: &Deploy,
    ) -> Result<(), AgentError> {
        let chart_crds = ChartCrds {
            helm: &self.context.helm,
            client: deployer,
            release: &self.release,
            stop: &self.running.deployment,
        };
        let applied = chart_crds.apply(policy, chart.path(), &deploy.values).await;
        let kinds = &self.context.kinds;
        let applied = applied.map_err(|error| {
            // Some may have been written.
            kinds.forget_all();
            AgentError::from(error)
        })?;
        for crd in applied.created.iter().chain(&applied.replaced) {
            kinds.changed(live::group_of_crd(crd));
        }
        tracing::debug!(release = %self.release, ?applied, "applied the CRDs of the chart");
        Ok(())
    }

    /// Prepares what was deployed before for the next revision, once nothing that this one needs is missing. Returns how many revisions Helm
    /// keeps.
    async fn follow(&self, run: Run, deployer: &Client) -> Result<u32, AgentError> {
        let (records, release) = (&self.context.records, &self.release);
        let mut history = self.records.history().await?;
        let is_own = history.newest_of(name(self.wanted)).is_some();
        // Helm takes it over first, with the permissions of the account that deploys: these records belong to another owner.
        let mut kept = self.policy.history;
        if is_own {
            if let Run::Upgrade {
                discard: Some(revision),
            } = run
            {
                let deleted = records.delete(release, revision, Status::Failed);
                self.records.changed_by(deleted).await?;
                history = self.records.history().await?;
            }
            (history, kept) = self.make_room(&history).await?;
        }
        if let Run::Upgrade { .. } = run
            && let Some(replaced) = history.replaced_by_upgrade()
        {
            let recorded = self.recorded(deployer, is_own);
            let prepared = recorded.prepare(replaced.number, Role::Replaced);
            self.records.changed_by(prepared).await?;
            self.take_fields(deployer, replaced.number).await?;
        }
        Ok(kept)
    }

    /// What Helm reads in the records. An own record is changed as the agent.
    pub(super) fn recorded<'r>(&'r self, deployer: &'r Client, is_own: bool) -> RecordedObjects<'r> {
        RecordedObjects {
            context: self.context,
            deployer,
            writer: if is_own {
                &self.context.downstream
            } else {
                deployer
            },
            release: &self.release,
            set: self.context.set_of(name(self.wanted)),
        }
    }

    /// Deletes records that nothing needs before Helm makes another one: also after failures, which may be many. Returns what is left, and how
    /// many Helm keeps. Attempts that did not end with a deployed revision are kept beside those of the policy until one does: only their records have what
    /// they have created.
    ///
    /// # Errors
    /// If a record cannot be deleted.
    pub(super) async fn make_room(&self, history: &History) -> Result<(History, u32), AgentError> {
        let unfinished = history.unfinished_before(u64::MAX).take(MAX_UNFINISHED).count();
        let kept = self
            .policy
            .history
            .saturating_add(u32::try_from(unfinished).unwrap_or_default());
        self.keep(history, kept.saturating_sub(1)).await?;
        Ok((self.records.history().await?, kept))
    }

    /// Deletes records that nothing needs, so that no more than `kept` stay if failed ones are enough for that.
    ///
    /// # Errors
    /// If a record cannot be deleted.
    pub(super) async fn keep(&self, history: &History, kept: u32) -> Result<(), AgentError> {
        let kept = usize::try_from(kept).unwrap_or(usize::MAX);
        for unneeded in history.unneeded(kept) {
            let records = &self.context.records;
            let deleted = records.delete(&self.release, unneeded.number, unneeded.status);
            self.records.changed_by(deleted).await?;
        }
        Ok(())
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
