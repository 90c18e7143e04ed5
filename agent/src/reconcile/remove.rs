//! Removes what a deleted BundleDeployment has installed.

use std::time::Duration;

use helmops_release::{
    action::{self, Action},
    history::{History, Owner},
    marks,
    names::ReleaseKey,
    record::{OnDeletePolicy, Record},
    state::{ReleaseState, Wanted},
};

use crate::{
    context::Context,
    error::AgentError,
    events::Done,
    helm::request::{self, Request, Uninstall},
    inputs,
    upstream::Deleted,
};

/// BundleDeployments with which Fleet deploys its own agent start with this.
const FLEETS_OWN: &str = "fleet-agent";

/// Removes the releases of a BundleDeployment, if it certainly does not exist any more.
///
/// # Errors
/// If that is not certain, or a release cannot be removed.
pub async fn remove(context: &Context, deployment: &str) -> Result<(), AgentError> {
    if deployment.starts_with(FLEETS_OWN) {
        tracing::warn!("the release of Fleet's own agent is never uninstalled by this one");
        return Ok(());
    }
    let release = context.releases.of(deployment);
    let mut known = release.lock().await;
    match context.guard.is_deleted(deployment).await? {
        Deleted::No => return Ok(()),
        Deleted::NotYet(wait) => return Err(AgentError::Postponed(wait)),
        Deleted::Yes => {}
    }
    let mut keeps_copies = false;
    for release in context.records.of_deployment(deployment).await? {
        let removed = remove_release(context, deployment, &release).await;
        let end = removed.inspect_err(|error| context.reports.failed(deployment, "", &release, error))?;
        keeps_copies |= end == End::Kept;
    }
    // They may be there without a release: the first deployment needed something else that was missing.
    if !keeps_copies {
        inputs::delete_copies(&context.downstream, deployment, &context.release_namespaces).await?;
    }
    known.installed = None;
    context.live.set_kinds(deployment, []);
    context.releases.forget(deployment);
    context.reports.forget(deployment);
    Ok(())
}

/// What has become of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// Its objects are deleted, or it had none.
    Removed,
    /// Its objects are kept, and so are the copies of Secrets and ConfigMaps that they may use.
    Kept,
}

/// Removes a release. Its records are deleted last, so that an agent that was interrupted finds it again.
async fn remove_release(
    context: &Context,
    deployment: &str,
    release: &ReleaseKey,
) -> Result<End, AgentError> {
    // What the cache shows may be older than what was wanted last.
    let (history, on_delete) = context.records.current_end(release).await?;
    let wanted = Wanted {
        bundle_deployment: deployment,
        deployment_id: "",
        applied: None,
        takes_ownership: false,
    };
    let state = ReleaseState::of(&wanted, &history);
    let Some(newest) = history.newest() else {
        return Ok(End::Removed);
    };
    let on_delete = on_delete.unwrap_or_default();
    if on_delete.policy == OnDeletePolicy::Keep {
        tracing::debug!(%release, "the release is kept");
        return Ok(End::Kept);
    }
    let removal = Removal {
        context,
        deployment,
        release,
        keeps_history: on_delete.keep_history,
    };
    let record = context.records.read(release, newest.number).await?;
    let keep = record.as_ref().is_some_and(keeps_objects);
    // Records that are to stay keep their namespace.
    let deletes_namespace = !on_delete.keep_history && record.as_ref().is_some_and(deletes_namespace);
    match action::to_remove(&state, keep) {
        Action::Uninstall => {
            tracing::info!(%release, "uninstalling");
            let namespaces = &context.release_namespaces;
            let has_copies = inputs::has_copies(&context.downstream, deployment, namespaces).await?;
            let is_complete = !has_copies && !deletes_namespace;
            let options = Options {
                // As long as there is something else to delete, which may fail.
                keeps_history: on_delete.keep_history || !is_complete,
                skips_hooks: on_delete.disable_hooks,
                timeout: on_delete.timeout,
                description: String::new(),
            };
            let account = record
                .as_ref()
                .and_then(|record| record.chart_annotation(marks::SERVICE_ACCOUNT));
            uninstall(context, release, &history, account.unwrap_or_default(), options).await?;
            if !is_complete {
                removal.complete(deletes_namespace).await?;
            }
            let why = "its BundleDeployment was deleted";
            context.reports.done(Done::Uninstalled, release, why);
            Ok(End::Removed)
        }
        Action::Forget if state == ReleaseState::Uninstalled => {
            removal.complete(deletes_namespace).await?;
            Ok(End::Removed)
        }
        Action::Forget => {
            tracing::info!(%release, "forgetting the release; its objects are kept");
            inputs::keep_copies(&context.downstream, deployment, &context.release_namespaces).await?;
            context.records.delete_all(release, &history).await?;
            let why = "its BundleDeployment was deleted; its objects are kept (keepResources)";
            context.reports.done(Done::Uninstalled, release, why);
            Ok(End::Kept)
        }
        Action::Wait(pending) => {
            let release = release.clone();
            Err(AgentError::Busy { release, pending })
        }
        Action::None
        | Action::Refuse(_)
        | Action::Unlock { .. }
        | Action::Install { .. }
        | Action::Upgrade { .. }
        | Action::TakeOver { .. } => Ok(End::Removed),
    }
}

/// What is left of a release that is uninstalled.
struct Removal<'r> {
    context: &'r Context,
    deployment: &'r str,
    release: &'r ReleaseKey,
    keeps_history: bool,
}

impl Removal<'_> {
    async fn complete(&self, deletes_namespace: bool) -> Result<(), AgentError> {
        let Self {
            context,
            deployment,
            release,
            keeps_history,
        } = *self;
        inputs::delete_copies(&context.downstream, deployment, &context.release_namespaces).await?;
        if deletes_namespace {
            inputs::delete_namespace(&context.downstream, release, &context.namespace).await?;
        }
        if !keeps_history {
            let history = context.records.current_history(release).await?;
            context.records.delete_all(release, &history).await?;
        }
        Ok(())
    }
}

fn deletes_namespace(record: &Record) -> bool {
    record.chart_annotation(marks::DELETE_NAMESPACE) == Some("true")
}

pub(super) fn keeps_objects(record: &Record) -> bool {
    record.chart_annotation(marks::KEEP_RESOURCES) == Some("true")
}

/// How a release is uninstalled.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Whether the records stay.
    pub keeps_history: bool,
    /// Whether the hooks of the chart do not run.
    pub skips_hooks: bool,
    /// How long each hook may take.
    pub timeout: Option<Duration>,
    /// The description of the newest record, if it stays.
    pub description: String,
}

/// Uninstalls a release as an account; empty for that of the agent. It is not the one that a record names: everyone who may write Secrets
/// could choose it then.
///
/// # Errors
/// If Helm fails.
pub async fn uninstall(
    context: &Context,
    release: &ReleaseKey,
    history: &History,
    account: &str,
    options: Options,
) -> Result<(), AgentError> {
    let newest = history.newest();
    if newest.is_none_or(|newest| newest.origin.owner == Owner::Other) {
        return Ok(());
    }
    let identity = inputs::identity(&context.downstream, &context.namespace, account).await?;
    let request = Request {
        release: release.clone(),
        identity,
        action: request::Action::Uninstall(Uninstall {
            keeps_history: options.keeps_history,
            description: options.description,
            runs_hooks: !options.skips_hooks,
        }),
        hook_timeout: options.timeout.unwrap_or(request::DEFAULT_HOOK_TIMEOUT),
    };
    let kubeconfig = context.kubeconfig()?;
    let run = context.helm.run(request, kubeconfig, &context.stop).await;
    run.map_err(AgentError::from)?;
    Ok(())
}
