//! Removes what a deleted BundleDeployment has installed.

use std::time::Duration;

use helmops_api::BundleDeployment;
use helmops_release::{
    action::{self, Action},
    gate::Held,
    history::{History, Owner},
    marks,
    names::ReleaseKey,
    object::ObjectId,
    record::{OnDeletePolicy, Record},
    state::{ReleaseState, Wanted},
};

use crate::{
    context::Context,
    error::AgentError,
    events::Done,
    helm::{
        request::{self, Request, Uninstall},
        stop::Stop,
    },
    inputs, live,
    monitor::{Installed, MonitorError},
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
    let deleted = context.guard.is_deleted(deployment).await;
    let refused = match &deleted {
        Err(error) if !context.records.of_deployment(deployment).await?.is_empty() => Some(error),
        _ => None,
    };
    let namespace = &context.namespace;
    context.reports.removal(deployment, namespace, refused);
    match deleted? {
        Deleted::No => return Ok(()),
        Deleted::NotYet(wait) => return Err(AgentError::Postponed(wait)),
        Deleted::Yes => {}
    }
    let mut keeps_copies = false;
    for release in context.records.of_deployment(deployment).await? {
        let removed = remove_release(context, deployment, &release).await;
        let end = removed.inspect_err(|error| context.reports.failed(deployment, "", &release, error))?;
        keeps_copies |= end == End::Kept;
        context.helm.forget(&release);
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
            let stop = Stop::of_agent(&context.stop);
            uninstall(context, release, &history, options, &stop).await?;
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

fn keeps_objects(record: &Record) -> bool {
    record.chart_annotation(marks::KEEP_RESOURCES) == Some("true")
}

/// Removes the releases that a BundleDeployment had under other names, once the present one is deployed.
///
/// The caller holds the lock of the BundleDeployment. Objects that the present release has as well stay: it took them over. The others
/// are deleted, without hooks: a release that still runs under another name is not to be shut down.
///
/// # Errors
/// If something cannot be read or deleted.
pub async fn remove_renamed(
    context: &Context,
    deployment: &BundleDeployment,
    releases: &[ReleaseKey],
) -> Result<(), AgentError> {
    let name = deployment.metadata.name.as_deref().unwrap_or_default();
    let present = ReleaseKey::of(name, &deployment.spec.options);
    if releases.iter().all(|release| *release == present) || Held::of(&deployment.spec).is_some() {
        return Ok(());
    }
    let history = context.records.current_history(&present).await?;
    let Some(deployed) = history
        .deployed()
        .filter(|deployed| Some(deployed.number) == history.newest().map(|newest| newest.number))
    else {
        return Ok(());
    };
    let kept = Installed::read(&context.records, &context.kinds, &present, deployed.number, None);
    let kept = kept.await.map_err(MonitorError::from)?;
    for release in releases.iter().filter(|release| **release != present) {
        let history = context.records.current_history(release).await?;
        let Some(newest) = history.newest() else {
            continue;
        };
        tracing::info!(%release, %present, "removing the release that was renamed");
        let old = Installed::read(&context.records, &context.kinds, release, newest.number, None);
        let old = old.await.map_err(MonitorError::from)?;
        prune(context, name, &old, &kept).await?;
        context.records.delete_all(release, &history).await?;
    }
    Ok(())
}

/// Deletes the objects of a revision that another one does not have, as far as they belong to the BundleDeployment.
async fn prune(
    context: &Context,
    deployment: &str,
    old: &Installed,
    kept: &Installed,
) -> Result<(), AgentError> {
    let set = context.set_of(deployment);
    let is_kept = |id: &ObjectId| {
        kept.desired.iter().any(|kept| {
            (kept.id.group(), &kept.id.kind, &kept.id.namespace, &kept.id.name)
                == (id.group(), &id.kind, &id.namespace, &id.name)
        })
    };
    for object in old.desired.iter().rev().filter(|object| !is_kept(&object.id)) {
        if let Some(kind) = &object.kind {
            live::delete(&context.downstream, kind, &object.id, &set).await?;
        }
    }
    Ok(())
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

/// Uninstalls a release, as the account that installed it.
///
/// # Errors
/// If Helm fails.
pub async fn uninstall(
    context: &Context,
    release: &ReleaseKey,
    history: &History,
    options: Options,
    stop: &Stop,
) -> Result<(), AgentError> {
    let newest = history
        .newest()
        .filter(|newest| newest.origin.owner != Owner::Other);
    let record = match newest {
        Some(newest) => context.records.read(release, newest.number).await?,
        None => None,
    };
    let Some(record) = record else {
        return Ok(());
    };
    let account = record
        .chart_annotation(marks::SERVICE_ACCOUNT)
        .unwrap_or_default();
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
    let run = context.helm.run(request, kubeconfig, stop).await;
    run.map_err(AgentError::from)?;
    Ok(())
}
