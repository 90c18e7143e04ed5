//! The releases that an agent keeps, and whether they are gone.

use std::{collections::BTreeSet, time::Duration};

use futures::future::try_join_all;
use helmops_api::BundleDeployment;
use helmops_release::record::{OnDelete, OnDeletePolicy};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client, api::ListParams};

use crate::{
    cluster::{api_error, until::until},
    failure::Failure,
};

/// A release of Helm.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Release {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Whether the agent leaves it as it is when its BundleDeployment is deleted.
    pub is_kept: bool,
}

impl Release {
    /// That of a BundleDeployment, if it has been deployed: its status has `namespace/name:revision`.
    fn of(deployment: &BundleDeployment) -> Option<Self> {
        let (release, _revision) = deployment.status.release.rsplit_once(':')?;
        let (namespace, name) = release.split_once('/')?;
        let lifecycle = deployment.spec.lifecycle.as_ref();
        let policy = lifecycle.map(|lifecycle| OnDelete::parse(&lifecycle.on_delete).policy);
        Some(Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            is_kept: policy == Some(OnDeletePolicy::Keep),
        })
    }
}

/// The releases of a cluster, from the BundleDeployments in its namespace.
///
/// # Errors
/// If they cannot be listed.
pub async fn of(client: &Client, namespace: &str) -> Result<Vec<Release>, Failure> {
    if namespace.is_empty() {
        return Ok(Vec::new());
    }
    let deployments = Api::<BundleDeployment>::namespaced(client.clone(), namespace);
    let found = deployments.list(&ListParams::default()).await;
    let found = found.map_err(|error| {
        api_error::failed(
            format!("cannot list BundleDeployments in namespace {namespace}"),
            &error,
        )
    })?;
    let releases: BTreeSet<_> = found.items.iter().filter_map(Release::of).collect();
    Ok(releases.into_iter().collect())
}

/// Waits until the agent has uninstalled the releases that it does not keep.
///
/// # Errors
/// If some are not gone in time; they are named.
pub async fn until_gone(
    client: &Client,
    releases: &[Release],
    timeout: Duration,
) -> Result<((), String), Failure> {
    let (kept, wanted): (Vec<_>, Vec<_>) = releases.iter().partition(|release| release.is_kept);
    let gone = until(timeout, async || {
        let left = try_join_all(wanted.iter().map(|release| is_deployed(client, release))).await?;
        Ok((!left.contains(&true)).then_some(()))
    });
    if gone.await?.is_some() {
        let suffix = if kept.is_empty() {
            String::new()
        } else {
            format!(", kept as their HelmOps say: {}", kept.len())
        };
        return Ok(((), format!("releases uninstalled: {}{suffix}", wanted.len())));
    }
    let mut left = Vec::new();
    for release in wanted {
        if is_deployed(client, release).await? {
            left.push(format!("{}/{}", release.namespace, release.name));
        }
    }
    Err(Failure::unable(format!(
        "the agent has not uninstalled these releases: {}",
        left.join(", ")
    ))
    .with_hint("its Events show why: kubectl events --namespace NAMESPACE, on the workload cluster"))
}

/// Whether Helm has a record of the release that is not one of an uninstalled release.
async fn is_deployed(client: &Client, release: &Release) -> Result<bool, Failure> {
    let secrets = Api::<Secret>::namespaced(client.clone(), &release.namespace);
    let selector = format!("owner=helm,name={},status!=uninstalled", release.name);
    let found = secrets
        .list_metadata(&ListParams::default().labels(&selector).limit(1))
        .await;
    let found = found.map_err(|error| {
        api_error::failed(
            format!(
                "cannot list the records of release {}/{}",
                release.namespace, release.name
            ),
            &error,
        )
    })?;
    Ok(!found.items.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_release_of_a_bundle_deployment_is_in_its_status() {
        for (release, policy, expected) in [
            ("shop/web:3", "", Some(("shop", "web", false))),
            ("shop/web:3", "Keep", Some(("shop", "web", true))),
            ("", "", None),
            ("web", "", None),
        ] {
            let deployment: BundleDeployment = serde_json::from_value(json!({
                "metadata": {}, "spec": { "lifecycle": { "onDelete": policy } }, "status": { "release": release },
            }))
            .unwrap();
            let found = Release::of(&deployment);
            let found = found
                .as_ref()
                .map(|found| (&*found.namespace, &*found.name, found.is_kept));
            assert_eq!(found, expected, "{release} {policy}");
        }
    }
}
