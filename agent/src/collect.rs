//! Garbage collection: releases whose BundleDeployment was deleted while the agent was away, or has another name for its release now, and
//! copies that no release uses any more.

use std::{collections::BTreeSet, time::Duration};

use helmops_api::BundleDeployment;
use helmops_model::deployment_state::is_up_to_date;
use helmops_process::exit::with_causes;
use helmops_release::{
    gate::Held,
    names::{RecordsKey, name_of},
};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::{
    context::Context,
    error::AgentError,
    inputs,
    operations::{copies, on_delete, renamed},
    owned::{Entries, OwnedRelease, RememberError},
    removal,
};

/// After a pass that failed, or in which a release was busy.
const RETRY: Duration = Duration::from_mins(1);

/// Enqueues the BundleDeployments whose releases are to be removed, immediately and then at an interval, until `stop`.
///
/// It starts after the first list of the BundleDeployments is complete. An error of one release is retried by its own backoff and
/// delays no other.
pub async fn run(
    context: &Context,
    orphans: mpsc::Sender<String>,
    interval: Duration,
    stop: CancellationToken,
) {
    loop {
        let wait = match pass(context, &orphans).await {
            // All agents that were started together do not collect together.
            Ok(Pass::Complete) => interval.mul_f64(1.0 + fastrand::f64()),
            Ok(Pass::Incomplete) => RETRY.min(interval),
            Err(error) => {
                tracing::warn!(
                    error = with_causes(&error),
                    "cannot look for releases without a BundleDeployment"
                );
                RETRY
            }
        };
        if stop.run_until_cancelled(tokio::time::sleep(wait)).await.is_none() {
            return;
        }
    }
}

/// What a pass has done.
enum Pass {
    Complete,
    /// A release was busy whose copies are to be deleted.
    Incomplete,
}

async fn pass(context: &Context, orphans: &mpsc::Sender<String>) -> Result<Pass, AgentError> {
    let owned = context.records.by_owner().await?;
    let exists = |name: &str| context.deployments.get(&context.key(name)).is_some();
    if owned.is_empty() || owned.keys().any(|name| exists(name)) {
        context.guard.remember().await?;
    }
    let remembered = context.owned.all().await?;
    let mut found = Vec::new();
    for (name, releases) in &owned {
        let deployment = context.deployments.get(&context.key(name));
        let Some(deployment) = deployment.as_ref().and_then(|deployment| deployment.valid()) else {
            continue;
        };
        if removal::deploys_fleets_agent(deployment) {
            continue;
        }
        let present = on_delete::owned(context, deployment).await?;
        if is_unremembered(&remembered, deployment, &present, releases) {
            found.push((name.clone(), present));
        }
    }
    if !found.is_empty() {
        match context.owned.remember(found).await {
            // What is removed below makes room.
            Err(error @ RememberError::Full { .. }) => {
                tracing::warn!(error = with_causes(&error), "not all releases are remembered");
            }
            remembered => remembered?,
        }
    }
    let all = owned.keys().chain(remembered.names());
    let missing: BTreeSet<&String> = all.filter(|name| !exists(name)).collect();
    for name in missing {
        if orphans.send(name.clone()).await.is_err() {
            return Ok(Pass::Complete);
        }
    }
    for (name, releases) in &owned {
        let releases = &of_this_agent(&remembered, name, releases);
        if let Some(deployment) = context.deployments.get(&context.key(name))
            && let Some(deployment) = deployment.valid()
            && renamed::is_renamed(deployment, releases)
        {
            let release = context.releases.of(name);
            // While it is being deployed, which may take long: that removes them too, or the next pass does.
            let Ok(_locked) = release.try_lock() else {
                continue;
            };
            renamed::remove_renamed(context, deployment, releases).await;
        }
    }
    prune_copies(context).await
}

/// Deletes the copies that settled releases do without. An error of one delays no other.
async fn prune_copies(context: &Context) -> Result<Pass, AgentError> {
    let mut pass = Pass::Complete;
    let namespaces = &context.release_namespaces;
    let copies = inputs::agent_copies(&context.downstream, &context.namespace, None, namespaces).await?;
    for (name, existing) in copies {
        let Some(deployment) = context.deployments.get(&context.key(&name)) else {
            continue;
        };
        let Some(deployment) = deployment.valid() else {
            continue;
        };
        if !is_up_to_date(deployment) || Held::of(&deployment.spec).is_some() {
            continue;
        }
        let release = context.releases.of(&name);
        let Ok(_locked) = release.try_lock() else {
            pass = Pass::Incomplete;
            continue;
        };
        if let Err(error) = copies::prune(context, deployment, &existing).await {
            let error = with_causes(&error);
            tracing::warn!(
                bundledeployment = name,
                error,
                "cannot delete a copy of downstreamResources; it is tried again"
            );
        }
    }
    Ok(pass)
}

/// The releases that this agent has deployed.
fn of_this_agent(remembered: &Entries, name: &str, records: &[RecordsKey]) -> Vec<OwnedRelease> {
    let mut own = Vec::with_capacity(records.len());
    for release in records {
        match remembered.with_records(name, release) {
            Some(owned) => own.push(owned.clone()),
            None => {
                tracing::warn!(bundledeployment = name, %release, "its record names the BundleDeployment, but this agent has not deployed it");
            }
        }
    }
    own
}

/// Whether the release of a BundleDeployment is not remembered, such as one of Fleet's agent, or not as it was deployed last: an earlier version
/// has remembered less.
fn is_unremembered(
    remembered: &Entries,
    deployment: &BundleDeployment,
    present: &OwnedRelease,
    records: &[RecordsKey],
) -> bool {
    match remembered.get(name_of(deployment), &present.release) {
        // What is wanted may not be deployed yet, with another account.
        Some(known) => known != present && is_up_to_date(deployment),
        None => records.contains(&present.release.records()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use helmops_release::names::ReleaseKey;

    use super::*;

    #[test]
    fn only_the_present_release_of_a_bundledeployment_is_remembered_and_once() {
        let release = |name: &str| ReleaseKey::new("shop", name);
        let records = |name: &str| release(name).records();
        let deployment = serde_json::json!({
            "metadata": { "name": "web", "namespace": "cluster-a", "labels": { "fleet.cattle.io/bundle-namespace": "team-a" } },
            "spec": { "options": { "defaultNamespace": "shop", "serviceAccount": "deployer" } },
        });
        let deployment: BundleDeployment = serde_json::from_value(deployment).unwrap();
        let none = Entries::default();
        let present = OwnedRelease::of(&deployment);
        let expected = OwnedRelease {
            release: release("web"),
            service_account: "deployer".to_owned(),
            bundle_namespace: "team-a".to_owned(),
            deletes_namespace: false,
            depends_on: Vec::new(),
        };
        assert_eq!(present, expected);
        let is_unremembered = |remembered: &Entries, deployment: &BundleDeployment, names: &[&str]| {
            let records: Vec<_> = names.iter().map(|name| records(name)).collect();
            is_unremembered(remembered, deployment, &present, &records)
        };
        assert!(is_unremembered(&none, &deployment, &["other", "web"]));
        // A record alone makes no release one of the BundleDeployment.
        assert!(!is_unremembered(&none, &deployment, &["other"]));
        let data = [("web".to_owned(), r#"[{"release":"shop/web"}]"#.to_owned())];
        let known = Entries::of(&BTreeMap::from(data));
        // An attempt changes the account.
        assert!(!is_unremembered(&known, &deployment, &["web"]));
        let ready = serde_json::json!({
            "metadata": deployment.metadata,
            "spec": deployment.spec,
            "status": { "ready": true, "appliedDeploymentID": deployment.spec.deployment_id },
        });
        let ready: BundleDeployment = serde_json::from_value(ready).unwrap();
        assert!(is_unremembered(&known, &ready, &["web"]));
    }
}
