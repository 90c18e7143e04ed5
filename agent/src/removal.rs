//! Removes what a deleted BundleDeployment has installed, after those that depend on it.

pub mod order;

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::ControlFlow,
    time::Duration,
};

use helmops_api::{BundleDeployment, labels};
use helmops_core::targeting::chart_record::resolved_chart;
use helmops_helm::run_scope::RunScope;
use helmops_model::{names::safe_concat, reason::Reason};
use helmops_process::exit::with_causes;
use helmops_release::{
    action::{self, Action},
    names::{RecordsKey, ReleaseKey, name_of},
    record::OnDeletePolicy,
    state::{ReleaseState, Wanted},
};
use helmops_runtime::{
    retry_state::{self, Failures},
    workers::WorkerPermit,
};

use self::order::Uninstalled;
use crate::{
    charts::has_files_of_bundle,
    context::Context,
    error::AgentError,
    events::Done,
    inputs,
    operations::{
        self,
        uninstall::{Options, Uninstallation},
    },
    owned::OwnedRelease,
    reports::FailureReport,
    upstream::Deleted,
};

/// BundleDeployments with which Fleet deploys its own agent start with this.
const FLEETS_OWN: &str = "fleet-agent";

/// Whether Fleet deploys its own agent with a BundleDeployment of this name. What this agent has deployed is none of these, whatever its
/// name.
fn is_fleets_own(deployment: &str) -> bool {
    deployment.starts_with(FLEETS_OWN)
}

/// Whether Fleet deploys its own agent with this BundleDeployment, as files: it has the name of the cluster. Others of such a name are none of
/// these, such as a HelmOp or the path `config` of a GitRepo `fleet-agent`.
///
/// Source: `newAgentBundle` in Fleet's `agentmanagement/controllers/manageagent/manageagent.go`.
pub fn deploys_fleets_agent(deployment: &BundleDeployment) -> bool {
    let name = name_of(deployment);
    let has_name = match labels::of(&deployment.metadata, labels::CLUSTER) {
        Some(cluster) => name == safe_concat(&[FLEETS_OWN, cluster]),
        None => is_fleets_own(name),
    };
    has_name && has_files_of_bundle(deployment) && resolved_chart(deployment).is_none()
}

/// Removes the releases of a BundleDeployment, if it certainly does not exist any more. Other releases are reconciled with the permit
/// meanwhile: it waits for Helm.
///
/// # Errors
/// If that is not certain, or a release cannot be removed.
pub async fn remove(
    context: &Context,
    deployment: &str,
    permit: &mut WorkerPermit,
) -> Result<retry_state::Done, AgentError> {
    let nothing = retry_state::Done::UNTIL_CHANGE;
    if is_fleets_own(deployment) && context.owned.of_deployment(deployment).await?.is_empty() {
        tracing::warn!("the release of Fleet's own agent is never uninstalled by this one");
        return Ok(nothing);
    }
    context.removals.follow(context.leadership.term());
    // What is uninstalled has had its turn.
    let is_uninstalled = context.removals.uninstalled(deployment).is_some();
    if !is_uninstalled && !order::is_its_turn(context, deployment).await? {
        return Ok(postponed(order::RECHECK));
    }
    let release = context.releases.of(deployment);
    let mut known = release.lock().await;
    let uninstalled = match context.removals.uninstalled(deployment) {
        Some(uninstalled) => uninstalled,
        None => match uninstall(context, deployment, permit).await? {
            ControlFlow::Continue(uninstalled) => uninstalled,
            ControlFlow::Break(done) => return Ok(done),
        },
    };
    let owned = context.owned.of_deployment(deployment).await?;
    if order::awaits_objects(context, deployment, &owned, &uninstalled) {
        return Ok(postponed(order::RECHECK));
    }
    let Uninstalled {
        gone, has_refused, ..
    } = uninstalled;
    // Those that stay need nothing any more.
    let stay = owned.into_iter().filter(|owned| !gone.contains(&owned.release));
    let stay = stay.filter(|owned| !owned.depends_on.is_empty());
    let stay: Vec<_> = stay
        .map(|owned| (deployment.to_owned(), owned.depending_on([])))
        .collect();
    if !stay.is_empty() {
        context.owned.remember(stay).await?;
    }
    if !gone.is_empty() {
        context.owned.forget(deployment, gone).await?;
    }
    known.installed = None;
    context.live.set_kinds(deployment, []);
    context
        .kinds
        .set_groups(deployment, &BTreeSet::new(), BTreeSet::new());
    context.awaited.set(deployment, Vec::new());
    context.releases.forget(deployment);
    context.removals.forget(deployment);
    if !has_refused {
        context.reports.forget(deployment);
    }
    Ok(nothing)
}

const fn postponed(wait: Duration) -> retry_state::Done {
    retry_state::Done {
        requeue_after: Some(wait),
        failures: Failures::Kept,
        counts_as: Some(Reason::Progressing),
    }
}

/// Uninstalls the releases of a BundleDeployment, unless it exists, or that is not certain yet.
async fn uninstall(
    context: &Context,
    deployment: &str,
    permit: &mut WorkerPermit,
) -> Result<ControlFlow<retry_state::Done, Uninstalled>, AgentError> {
    match is_deleted(context, deployment).await? {
        Deleted::No => return Ok(ControlFlow::Break(retry_state::Done::UNTIL_CHANGE)),
        Deleted::NotYet(wait) => return Ok(ControlFlow::Break(postponed(wait))),
        Deleted::Yes => {}
    }
    let owned = context.owned.of_deployment(deployment).await?;
    order::warn(context, deployment, &owned);
    let stop = scope(context, owned.first());
    let removal = || remove_releases(context, deployment, &owned);
    let ends = operations::with_helm_permit(&context.helm, &stop, false, permit, removal).await??;
    // They may be there without a release: the first deployment needed something else that was missing.
    if ends.values().all(|end| *end == End::Removed) {
        inputs::delete_copies(&context.downstream, deployment, &context.release_namespaces).await?;
    }
    let owned = owned.iter().map(|owned| &owned.release);
    let gone = owned.filter(|release| ends.get(release) != Some(&End::Stays));
    let has_refused = ends.values().any(|end| *end == End::Refused);
    let uninstalled = Uninstalled::new(gone.cloned().collect(), has_refused);
    Ok(ControlFlow::Continue(uninstalled))
}

/// Whether a BundleDeployment was deleted. Reports why its removal is refused, if it is not certain.
///
/// # Errors
/// If that is not certain: its removal starts from the beginning.
async fn is_deleted(context: &Context, deployment: &str) -> Result<Deleted, AgentError> {
    let deleted = context.guard.is_deleted(deployment).await;
    let refused = match &deleted {
        Err(error) if !context.records.of_deployment(deployment).await?.is_empty() => Some(error),
        _ => None,
    };
    if deleted.is_err() {
        // When it is certain, those that depend on it come first again.
        context.removals.forget(deployment);
    }
    context.reports.removal(deployment, &context.namespace, refused);
    Ok(deleted?)
}

/// Removes the releases that are those of a BundleDeployment, as records or the ConfigMap of the agent say.
async fn remove_releases(
    context: &Context,
    deployment: &str,
    owned: &[OwnedRelease],
) -> Result<BTreeMap<ReleaseKey, End>, AgentError> {
    // The cache of the records may be behind, and what is forgotten is never removed.
    let recorded = context.records.of_deployment(deployment).await?;
    let mut releases: BTreeSet<ReleaseKey> = owned.iter().map(|owned| owned.release.clone()).collect();
    let known: BTreeSet<RecordsKey> = releases.iter().map(ReleaseKey::records).collect();
    let unknown = recorded.iter().filter(|records| !known.contains(records));
    releases.extend(unknown.map(RecordsKey::release));
    let (mut ends, mut failed) = (BTreeMap::new(), None);
    for release in releases {
        let owned = owned.iter().find(|owned| owned.release == release);
        match remove_release(context, deployment, &release, owned).await {
            Ok(end) => {
                context.helm.forget(&release);
                ends.insert(release, end);
            }
            // It does not keep the others. One Event is enough, or each retry would have new ones.
            Err(error) if failed.is_some() => {
                tracing::warn!(%release, error = with_causes(&error), "cannot remove the release");
            }
            Err(error) => {
                let failure = FailureReport::of(&error);
                context.reports.failed(deployment, "", &release, failure);
                failed = Some(error);
            }
        }
    }
    failed.map_or(Ok(ends), Err)
}

/// What has become of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// Its objects are deleted, or it had none.
    Removed,
    /// Its objects are kept, and so are the copies of Secrets and ConfigMaps that they may use.
    Kept,
    /// It stays as it is, with its records.
    Stays,
    /// This agent has not deployed it: only its record says that it belongs to the BundleDeployment.
    Refused,
}

/// Removes a release. Its records are deleted last, so that an agent that was interrupted finds it again.
async fn remove_release(
    context: &Context,
    deployment: &str,
    release: &ReleaseKey,
    owned: Option<&OwnedRelease>,
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
        return Ok(End::Stays);
    }
    let Some(owned) = owned else {
        return Ok(refuse(context, deployment, release, &state));
    };
    let removal = Removal {
        context,
        deployment,
        release,
        account: &owned.service_account,
        keeps_history: on_delete.keep_history,
    };
    // What was wanted last may not have been deployed.
    let keep = on_delete.policy == OnDeletePolicy::Forget || newest.keeps_objects;
    // Records that are to stay keep their namespace.
    let deletes_namespace = !on_delete.keep_history && owned.deletes_namespace;
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
                propagation: on_delete.propagation,
                timeout: on_delete.timeout,
                description: String::new(),
            };
            let uninstallation = Uninstallation {
                context,
                deployment,
                release,
                account: &owned.service_account,
            };
            let stop = scope(context, Some(owned));
            uninstallation.run(&history, options, &stop).await?;
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
        // It belongs to another owner now, with the copies that its objects may use.
        Action::None => {
            inputs::keep_copies(&context.downstream, deployment, &context.release_namespaces).await?;
            Ok(End::Kept)
        }
        Action::Refuse(_)
        | Action::Unlock { .. }
        | Action::Install { .. }
        | Action::Upgrade { .. }
        | Action::TakeOver { .. } => Ok(End::Removed),
    }
}

/// What a removal belongs to: the tenant that the release was deployed for.
fn scope(context: &Context, owned: Option<&OwnedRelease>) -> RunScope {
    let tenant = owned.map_or("", |owned| &owned.bundle_namespace);
    RunScope::of_agent(&context.stop, tenant)
}

/// Reports a release that this agent has not deployed. One without objects is left silently.
fn refuse(context: &Context, deployment: &str, release: &ReleaseKey, state: &ReleaseState) -> End {
    if !has_objects(state) {
        return End::Removed;
    }
    let error = AgentError::NotOwned {
        release: release.clone(),
        deployment: deployment.to_owned(),
        agent_namespace: context.namespace.clone(),
    };
    tracing::warn!("{error}");
    let failure = FailureReport::of(&error);
    context.reports.failed(deployment, "", release, failure);
    End::Refused
}

const fn has_objects(state: &ReleaseState) -> bool {
    !matches!(
        state,
        ReleaseState::Absent
            | ReleaseState::Uninstalled
            | ReleaseState::Foreign(_)
            | ReleaseState::Unmanaged { .. }
    )
}

/// What is left of a release that is uninstalled.
struct Removal<'r> {
    context: &'r Context,
    deployment: &'r str,
    release: &'r ReleaseKey,
    /// The account that has deployed it; empty for the agent itself.
    account: &'r str,
    keeps_history: bool,
}

impl Removal<'_> {
    async fn complete(&self, deletes_namespace: bool) -> Result<(), AgentError> {
        let Self {
            context,
            deployment,
            release,
            account,
            keeps_history,
        } = *self;
        inputs::delete_copies(&context.downstream, deployment, &context.release_namespaces).await?;
        if deletes_namespace {
            // As the account: who may deploy in a namespace may not always delete it.
            let (_, deployer) = context.accounts.deployer(account).await?;
            let is_shared = context.owned.all().await?.has_other_in(deployment, release);
            inputs::delete_namespace(
                &context.downstream,
                &deployer,
                release,
                &context.namespace,
                is_shared,
            )
            .await?;
        }
        if !keeps_history {
            let history = context.records.current_history(release).await?;
            context.records.delete_all(release, &history).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use helmops_release::{
        record::Status,
        state::{ForeignOwner, Pending},
    };

    use serde_json::json;

    use super::*;

    #[test]
    fn only_the_bundle_with_the_name_of_the_cluster_deploys_fleets_agent() {
        let long = "x".repeat(60);
        let of_long = safe_concat(&[FLEETS_OWN, &long]);
        for (name, cluster, chart_options, expected) in [
            ("fleet-agent-edge", Some("edge"), json!(null), true),
            (&of_long, Some(&long), json!(null), true),
            ("fleet-agent-edge", None, json!(null), true),
            ("fleet-agent-edge", Some("edge"), json!({}), false),
            ("fleet-agent-config", Some("edge"), json!(null), false),
            ("fleet-agent", Some("edge"), json!(null), false),
            ("web", None, json!(null), false),
        ] {
            let labels = cluster.map(|cluster| json!({ labels::CLUSTER: cluster }));
            let object = json!({
                "metadata": { "name": name, "labels": labels }, "spec": { "helmChartOptions": chart_options },
            });
            let deployment = serde_json::from_str(&object.to_string()).unwrap();
            assert_eq!(deploys_fleets_agent(&deployment), expected, "{name} {cluster:?}");
        }
        let record = json!({ "version": "0.0.0+1" }).to_string();
        let of_helmop = json!({
            "metadata": { "name": "fleet-agent-edge", "annotations": { labels::RESOLVED: record } },
            "spec": { "options": { "helm": { "version": "0.0.0+1" } } },
        });
        let deployment = serde_json::from_str(&of_helmop.to_string()).unwrap();
        assert!(has_files_of_bundle(&deployment) && !deploys_fleets_agent(&deployment));
    }

    #[test]
    fn a_release_that_this_agent_has_not_deployed_is_reported_if_it_has_objects() {
        let pending = Pending {
            revision: 1,
            status: Status::PendingInstall,
        };
        for (state, expected) in [
            (ReleaseState::Outdated { revision: 1 }, true),
            (ReleaseState::Uninstalling, true),
            (ReleaseState::Busy(pending), true),
            (ReleaseState::Uninstalled, false),
            (ReleaseState::Absent, false),
            (ReleaseState::Unmanaged { revision: 1 }, false),
            (ReleaseState::Foreign(ForeignOwner::Unmanaged), false),
        ] {
            assert_eq!(has_objects(&state), expected, "{state:?}");
        }
    }
}
