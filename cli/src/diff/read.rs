//! The objects that decide what clusters get.

use std::collections::BTreeMap;

use helmops_api::{Bundle, BundleDeployment, BundleNamespaceMapping, Cluster, ClusterGroup, HelmOp, Policy};
use helmops_core::{
    policy::Policies,
    targeting::{deployment::SecretValues, scope},
};
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::{Api, Client, api::ListParams};

use crate::{
    cluster::{
        Cluster as Connected,
        selection::{Scope, deployments_of},
    },
    failure::Failure,
};

/// What exists for one HelmOp.
#[derive(Debug, Default)]
pub struct Workspace {
    /// The Policies of the namespace.
    pub policies: Policies,
    /// The Bundle of the HelmOp.
    pub bundle: Option<Bundle>,
    /// `spec.caBundle` of the HelmOp on the cluster, which the Bundle has in place of Rancher's CAs.
    pub live_ca_bundle: String,
    /// The clusters that it may target.
    pub clusters: Vec<Cluster>,
    pub groups: Vec<ClusterGroup>,
    pub deployments: Vec<BundleDeployment>,
    /// The values of the deployments, by namespace.
    pub values: BTreeMap<String, SecretValues>,
}

impl Workspace {
    /// Reads everything that decides about a HelmOp, of this name in this namespace.
    ///
    /// # Errors
    /// If something cannot be read.
    pub async fn read(cluster: &Connected, namespace: &str, name: &str) -> Result<Self, Failure> {
        let own = Scope::Namespace(namespace);
        let policies: Vec<Policy> = cluster.list_known(own, None).await?;
        let bundle = cluster.find::<Bundle>(namespace, name).await?;
        let live = cluster.find::<HelmOp>(namespace, name).await?;
        let mappings: Vec<BundleNamespaceMapping> = cluster.list_known(own, None).await?;
        let namespaces = match mappings.as_slice() {
            [] => vec![namespace.to_owned()],
            mappings => namespaces(&cluster.client, namespace, name, bundle.as_ref(), mappings).await?,
        };
        let mut workspace = Self {
            policies: Policies::of(&policies),
            bundle,
            live_ca_bundle: live.map_or_else(String::new, |live| live.spec.ca_bundle),
            ..Self::default()
        };
        for namespace in &namespaces {
            let scope = Scope::Namespace(namespace);
            let clusters = cluster.list_known::<Cluster>(scope, None).await?;
            workspace.clusters.extend(clusters);
            let groups = cluster.list_known::<ClusterGroup>(scope, None).await?;
            workspace.groups.extend(groups);
        }
        let selector = deployments_of(namespace, name);
        workspace.deployments = cluster.list_known(Scope::All, Some(&selector)).await?;
        workspace.read_values(cluster).await?;
        Ok(workspace)
    }

    async fn read_values(&mut self, cluster: &Connected) -> Result<(), Failure> {
        for deployment in &self.deployments {
            if deployment.spec.values_hash.is_empty() {
                continue;
            }
            let text = |text: &Option<String>| text.clone().unwrap_or_default();
            let (namespace, name) = (
                text(&deployment.metadata.namespace),
                text(&deployment.metadata.name),
            );
            let found = cluster.find::<Secret>(&namespace, &name).await?;
            let data = found.and_then(|secret| secret.data).unwrap_or_default();
            let text = |key| {
                let bytes = data.get(key).map_or(&[][..], |bytes| &bytes.0);
                String::from_utf8_lossy(bytes).into_owned()
            };
            let values = SecretValues {
                values: text("values"),
                staged: text("stagedValues"),
                ids: None,
            };
            self.values.insert(namespace, values);
        }
        Ok(())
    }
}

/// The namespaces of the clusters, with those of mappings.
async fn namespaces(
    client: &Client,
    namespace: &str,
    name: &str,
    bundle: Option<&Bundle>,
    mappings: &[BundleNamespaceMapping],
) -> Result<Vec<String>, Failure> {
    let all = Api::<Namespace>::all(client.clone())
        .list(&ListParams::default())
        .await;
    let all = all.map_err(|error| Failure::because("cannot read the namespaces", &error))?;
    let known: Vec<_> = all
        .items
        .iter()
        .filter_map(|namespace| {
            Some((
                namespace.metadata.name.as_deref()?,
                namespace.metadata.labels.as_ref(),
            ))
        })
        .collect();
    let mut own = bundle.cloned().unwrap_or_default();
    own.metadata.namespace = Some(namespace.to_owned());
    own.metadata.name = Some(name.to_owned());
    let found = scope::namespaces(&own, mappings, &known);
    Ok(found.into_iter().map(str::to_owned).collect())
}
