//! Brings a release to what its BundleDeployment wants.

use std::fmt;

use helmops_api::{BundleDeployment, BundleDeploymentOptions};
use helmops_release::{
    action::{self, Action},
    chart_metadata::Origin,
    dependencies,
    history::History,
    names::ReleaseKey,
    post_render::PostRender,
    record::{Attempt, Cause, Status},
    report::Blocked,
    scopes::Scopes,
    state::{Applied, ReleaseState, Wanted},
};
use helmops_runtime::{client::CallError, retry_state::RetryKey};
use kube::runtime::reflector::ObjectRef;

use crate::{
    charts::ChartFile,
    context::Context,
    error::{AgentError, Lacking},
    events::Done,
    helm::request::{self, Deploy, HelmSettings, Identity, Request},
    inputs::{self, MetadataError},
};

/// How many actions one reconciliation takes at most: unlock, finish an uninstallation, install, and one for a change in between.
const MAX_ACTIONS: usize = 5;

/// The deployment of a BundleDeployment.
pub struct Deployment<'d> {
    context: &'d Context,
    wanted: &'d BundleDeployment,
    release: ReleaseKey,
}

/// A deployed revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deployed {
    /// The release.
    pub release: ReleaseKey,
    /// The revision.
    pub revision: u64,
    /// The revision that was deployed before, if there is a record of it.
    pub previous: Option<u64>,
}

/// As in a status.
impl fmt::Display for Deployed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.release, self.revision)
    }
}

impl<'d> Deployment<'d> {
    pub fn new(context: &'d Context, deployment: &'d BundleDeployment) -> Self {
        let release = ReleaseKey::of(name(deployment), &deployment.spec.options);
        Self {
            context,
            wanted: deployment,
            release,
        }
    }

    /// Takes the actions that are needed, one after the other.
    ///
    /// # Errors
    /// If one of them fails, or something is missing.
    pub async fn deploy(&self) -> Result<Deployed, AgentError> {
        let (context, release) = (self.context, &self.release);
        let options = &self.wanted.spec.options;
        if self.wanted.spec.helm_chart_options.is_none() {
            return Err(Lacking::Content.into());
        }
        inputs::check_selector(&context.downstream, options, &release.namespace).await?;
        let copies = inputs::copy(
            &context.upstream,
            &context.downstream,
            self.wanted,
            &release.namespace,
        )
        .await?;
        // The cache may be behind: it only shows that nothing is to be done.
        let cached = context.records.cached_history(release).await?;
        if let (Some(deployed), false) = (self.current(&cached), copies) {
            self.restore_namespace(&deployed).await?;
            return Ok(deployed);
        }
        self.check_backoff()?;
        self.check_dependencies()?;
        for _ in 0..MAX_ACTIONS {
            let history = context.records.current_history(release).await?;
            let mut next = action::to_deploy(self.state(&history));
            if copies && next == Action::None {
                next = Action::Upgrade { discard: None };
            }
            match next {
                Action::None => {
                    return self.current(&history).ok_or(AgentError::Changed);
                }
                Action::Wait(pending) => {
                    let release = release.clone();
                    return Err(AgentError::Busy { release, pending });
                }
                Action::Refuse(owner) => {
                    let release = release.clone();
                    return Err(AgentError::Foreign { release, owner });
                }
                Action::Unlock { revision } => context.records.unlock(release, revision).await?,
                Action::Install { replaces } => {
                    return self.run(&history, Run::Install { replaces }).await;
                }
                Action::Upgrade { discard } => {
                    if let Some(revision) = discard {
                        context.records.delete(release, revision, Status::Failed).await?;
                    }
                    return self.run(&history, Run::Upgrade).await;
                }
                Action::Uninstall | Action::Forget => {
                    super::remove::uninstall(context, release, &history).await?;
                }
            }
        }
        Err(AgentError::Changed)
    }

    /// The deployed revision, if it is what is wanted.
    fn current(&self, history: &History) -> Option<Deployed> {
        let ReleaseState::Current { revision } = self.state(history) else {
            return None;
        };
        Some(self.deployed(history, revision))
    }

    fn deployed(&self, history: &History, revision: u64) -> Deployed {
        let previous = history
            .iter()
            .map(|one| one.number)
            .find(|number| *number < revision);
        Deployed {
            release: self.release.clone(),
            revision,
            previous,
        }
    }

    fn state(&self, history: &History) -> ReleaseState {
        let (spec, status) = (&self.wanted.spec, &self.wanted.status);
        let applied = status.release.rsplit_once(':').and_then(|(release, revision)| {
            let is_this = ReleaseKey::parse(release).as_ref() == Some(&self.release);
            let revision = revision.parse().ok().filter(|_| is_this)?;
            Some(Applied {
                deployment_id: &status.applied_deployment_id,
                revision,
            })
        });
        let wanted = Wanted {
            bundle_deployment: name(self.wanted),
            deployment_id: &spec.deployment_id,
            applied,
            takes_ownership: spec.options.helm.as_ref().is_some_and(|helm| helm.take_ownership),
        };
        ReleaseState::of(&wanted, history)
    }

    /// After a failure, the next attempt is due later, whatever else has changed meanwhile.
    fn check_backoff(&self) -> Result<(), AgentError> {
        let key = ObjectRef::new(name(self.wanted))
            .within(self.wanted.metadata.namespace.as_deref().unwrap_or_default());
        let retry_key = RetryKey::of(&self.wanted.metadata, &[]);
        let remaining = self.context.retries.backoff.remaining(&key, &retry_key);
        remaining.map_or(Ok(()), |wait| Err(AgentError::Postponed(wait)))
    }

    fn check_dependencies(&self) -> Result<(), AgentError> {
        let all = self.context.deployments.state();
        let all: Vec<_> = all.iter().filter_map(|deployment| deployment.valid()).collect();
        Ok(dependencies::check(self.wanted, &all)?)
    }

    /// Restores what was deployed before a revision that did not become ready, or uninstalls it. Returns the error that is reported.
    pub async fn undo(&self, deployed: &Deployed, reason: String) -> AgentError {
        let release = &self.release;
        match self.try_undo(deployed).await {
            Ok(what) => {
                let error = format!(
                    "release {} failed, and has been {what} due to rollback-on-failure being set (atomic): {reason}",
                    release.name
                );
                self.context.reports.rolled_back(release, &error);
                AgentError::NotReady(error)
            }
            Err(error) => error,
        }
    }

    async fn try_undo(&self, deployed: &Deployed) -> Result<&'static str, AgentError> {
        let (context, release) = (self.context, &self.release);
        let options = &self.wanted.spec.options;
        let history = context.records.current_history(release).await?;
        if history.newest().map(|newest| newest.number) != Some(deployed.revision) {
            return Err(AgentError::Changed);
        }
        let Some(base) = history.before(deployed.revision) else {
            super::remove::uninstall(context, release, &history).await?;
            return Ok("uninstalled");
        };
        let settings = HelmSettings::of(options);
        let request = Request {
            release: release.clone(),
            identity: inputs::identity(&context.downstream, &context.namespace, &options.service_account)
                .await?,
            action: request::Action::Rollback(request::Rollback {
                revision: base.number,
                apply: settings.upgrade,
                max_history: settings.max_history,
                runs_hooks: true,
            }),
            hook_timeout: settings.hook_timeout,
        };
        tracing::info!(%release, to = base.number, "rolling back");
        let run = context
            .helm
            .run(request, context.kubeconfig()?, &context.stop)
            .await;
        run.map_err(AgentError::from)?;
        Ok("rolled back")
    }

    /// Runs Helm to install or upgrade.
    async fn run(&self, history: &History, run: Run) -> Result<Deployed, AgentError> {
        let (context, release) = (self.context, &self.release);
        let options = &self.wanted.spec.options;
        let identity =
            inputs::identity(&context.downstream, &context.namespace, &options.service_account).await?;
        let deployer = context.deployer(&identity)?;
        let values = inputs::values(&context.upstream, &deployer, self.wanted, &release.namespace).await?;
        let chart = context.charts.get(&context.upstream, self.wanted).await?;
        let settings = HelmSettings::of(options);
        let others = context.records.of_deployment(name(self.wanted)).await?;
        let is_renamed = others.iter().any(|other| *other != *release);
        let deploy = self.render(history, &chart, values, &identity, &settings).await?;
        if matches!(run, Run::Install { .. }) && settings.creates_namespace {
            inputs::create_namespace(&context.downstream, &deployer, &release.namespace).await?;
        }
        let done = match run {
            Run::Install { .. } => Done::Installed,
            Run::Upgrade => Done::Upgraded,
        };
        let action = match run {
            Run::Install { replaces } => request::Action::Install(request::Install {
                deploy,
                apply: settings.install,
                // Objects that do not have the name of the release in theirs pass from the old release to the new one.
                takes_ownership: settings.install_takes_ownership || is_renamed,
                // The agent has created it: that takes Helm more time than the rest.
                creates_namespace: false,
                replaces,
            }),
            Run::Upgrade => request::Action::Upgrade(request::Upgrade {
                deploy,
                apply: settings.upgrade,
                takes_ownership: true,
                max_history: settings.max_history,
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
            .run(request, kubeconfig, &context.stop)
            .await
            .map_err(AgentError::from)?;
        let history_after = context.records.current_history(release).await?;
        for replaced in history_after.unneeded() {
            context
                .records
                .delete(release, replaced.number, replaced.status)
                .await?;
        }
        let revision = success
            .revision
            .or_else(|| history_after.deployed().map(|deployed| deployed.number));
        let revision = revision.ok_or(AgentError::Changed)?;
        tracing::info!(%release, revision, "deployed");
        let what = format!("revision {revision}{}", chart_of(options));
        context.reports.done(done, release, &what);
        for warning in success.warnings {
            tracing::warn!(%release, warning, "warning of the API server");
        }
        let current = self.deployed(&history_after, revision);
        if is_renamed {
            super::remove::remove_renamed(context, self.wanted, &others).await?;
        }
        if !options.namespace_labels.is_empty() || !options.namespace_annotations.is_empty() {
            let applied = inputs::apply_metadata(&deployer, options, &release.namespace).await;
            applied.map_err(|error| namespace_error(&current, error))?;
        }
        Ok(current)
    }

    /// Sets the labels and annotations of the namespace again if one is missing: another client has removed it, or the account that
    /// deploys was not allowed to set it.
    async fn restore_namespace(&self, current: &Deployed) -> Result<(), AgentError> {
        let (context, options) = (self.context, &self.wanted.spec.options);
        if options.namespace_labels.is_empty() && options.namespace_annotations.is_empty() {
            return Ok(());
        }
        let identity =
            inputs::identity(&context.downstream, &context.namespace, &options.service_account).await?;
        let client = context.deployer(&identity)?;
        let result = inputs::restore_metadata(&client, options, &self.release.namespace).await;
        result.map_err(|error| namespace_error(current, error))
    }

    /// The attempt that the next revision is.
    fn attempt(&self, history: &History) -> Attempt {
        let (spec, status) = (&self.wanted.spec, &self.wanted.status);
        let was_applied = status.applied_deployment_id == spec.deployment_id && !status.release.is_empty();
        let cause = if was_applied && history.newest().is_none() {
            Cause::Missing
        } else {
            Cause::Change
        };
        history.next_attempt(&spec.deployment_id, cause)
    }

    async fn render(
        &self,
        history: &History,
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
        let attempt = self.attempt(history);
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
        })
    }
}

/// What Helm does.
#[derive(Clone, Copy, Debug)]
enum Run {
    Install { replaces: bool },
    Upgrade,
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

/// Without the permission, the deployment counts as failed. Other errors change nothing of what is reported of it.
fn namespace_error(deployed: &Deployed, error: MetadataError) -> AgentError {
    let MetadataError { verb, source } = error;
    let namespace = &deployed.release.namespace;
    if !source.is_forbidden() {
        let object = format!("Namespace {namespace}");
        return CallError::of("set the labels and annotations of", object)(source).into();
    }
    AgentError::NamespaceForbidden {
        release: deployed.to_string(),
        error: Blocked::namespace_forbidden(verb, namespace, &source.to_string()),
    }
}

fn name(deployment: &BundleDeployment) -> &str {
    deployment.metadata.name.as_deref().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use helmops_runtime::client::ApiError;

    use super::*;

    #[test]
    fn a_forbidden_namespace_is_reported_with_the_missing_verb_and_any_other_error_is_retried() {
        let failed = |verb, code| {
            let status = kube::core::Status::failure("no", "Forbidden").with_code(code);
            let source = ApiError::from(kube::Error::Api(status.boxed()));
            let deployed = Deployed {
                release: ReleaseKey::of("web", &BundleDeploymentOptions::default()),
                revision: 2,
                previous: None,
            };
            namespace_error(&deployed, MetadataError { verb, source })
        };
        for verb in ["get", "patch"] {
            let AgentError::NamespaceForbidden { release, error } = failed(verb, 403) else {
                panic!("not forbidden");
            };
            assert_eq!(release, "default/web:2");
            assert_eq!(error, Blocked::namespace_forbidden(verb, "default", "no (403)"));
        }
        assert_eq!(
            failed("patch", 500).to_string(),
            "could not set the labels and annotations of Namespace default: no (500)"
        );
    }
}
