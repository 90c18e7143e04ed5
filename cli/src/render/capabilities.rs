//! What templates learn of a cluster without reading it: its version, and the kinds that it has.

use std::collections::BTreeMap;

use helmops_helm::request::Capabilities;
use kube::{Client, discovery::Discovery};

use crate::failure::Failure;

/// The capabilities of a cluster.
///
/// # Errors
/// If the API server cannot be reached.
pub async fn of(client: &Client) -> Result<Capabilities, Failure> {
    let unable = |error| Failure::because("cannot read the kinds of the cluster", &error);
    let version = client.apiserver_version().await.map_err(unable)?;
    let discovered = Discovery::new(client.clone()).run_aggregated().await;
    let discovered = discovered.map_err(unable)?;
    let mut capabilities = Capabilities {
        kube_version: version.git_version,
        api_versions: BTreeMap::default(),
    };
    for group in discovered.groups() {
        for version in group.versions() {
            for (resource, _) in group.versioned_resources(version) {
                let kinds = capabilities.api_versions.entry(resource.api_version);
                kinds.or_default().insert(resource.kind);
            }
        }
    }
    Ok(capabilities)
}
