//! The objects that decide what clusters get.

use std::{collections::BTreeMap, fmt::Debug};

use helmops_api::{
    Bundle, BundleDeployment, BundleNamespaceMapping, Cluster, ClusterGroup, HelmOp, Policy,
};
use helmops_core::{
    policy::Policies,
    targeting::{deployment::SecretValues, scope},
};
use k8s_openapi::{
    NamespaceResourceScope,
    api::core::v1::{Namespace, Secret},
};
use kube::{Api, Client, Resource, api::ListParams};
use serde::de::DeserializeOwned;

use crate::{
    cluster::{Cluster as Connected, selection::deployments_of},
    failure::Failure,
};

/// Objects in a page of a list.
const PAGE: u32 = 500;

/// What exists for one HelmOp.
#[derive(Debug, Default)]
pub struct Workspace {
    /// The Policies of the namespace.
    pub policies: Policies,
    /// The Bundle of the HelmOp.
    pub bundle: Option<Bundle>,
    /// The clusters that it may target.
    pub clusters: Vec<Cluster>,
    /// Their groups.
    pub groups: Vec<ClusterGroup>,
    /// Its deployments.
    pub deployments: Vec<BundleDeployment>,
    /// The values of the deployments, by namespace.
    pub values: BTreeMap<String, SecretValues>,
}

/// Reads a HelmOp.
///
/// # Errors
/// If it does not exist or cannot be read.
pub async fn helmop(cluster: &Connected, name: &str) -> Result<HelmOp, Failure> {
    let api = Api::<HelmOp>::namespaced(cluster.client.clone(), &cluster.namespace);
    let found = api.get_opt(name).await;
    let found = found.map_err(|error| Failure::because(format!("cannot read HelmOp {name:?}"), &error))?;
    found.ok_or_else(|| {
        Failure::negative(format!(
            "there is no HelmOp {name:?} in namespace {:?}",
            cluster.namespace
        ))
        .with_hint("list those of all namespaces with: kubectl get helmops --all-namespaces")
    })
}

impl Workspace {
    /// Reads everything that decides about a HelmOp, of this name in this namespace.
    ///
    /// # Errors
    /// If something cannot be read.
    pub async fn read(cluster: &Connected, namespace: &str, name: &str) -> Result<Self, Failure> {
        let client = &cluster.client;
        let policies: Vec<Policy> = list(client, Some(namespace), None).await?;
        let bundle = Api::<Bundle>::namespaced(client.clone(), namespace)
            .get_opt(name)
            .await;
        let bundle =
            bundle.map_err(|error| Failure::because(format!("cannot read Bundle {name:?}"), &error))?;
        let mappings: Vec<BundleNamespaceMapping> = list(client, Some(namespace), None).await?;
        let namespaces = match mappings.as_slice() {
            [] => vec![namespace.to_owned()],
            mappings => namespaces(client, namespace, name, bundle.as_ref(), mappings).await?,
        };
        let mut workspace = Self {
            policies: Policies::of(&policies),
            bundle,
            ..Self::default()
        };
        for namespace in &namespaces {
            workspace
                .clusters
                .extend(list::<Cluster>(client, Some(namespace), None).await?);
            workspace
                .groups
                .extend(list::<ClusterGroup>(client, Some(namespace), None).await?);
        }
        let selector = deployments_of(namespace, name);
        workspace.deployments = list(client, None, Some(&selector)).await?;
        workspace.read_values(client).await?;
        Ok(workspace)
    }

    async fn read_values(&mut self, client: &Client) -> Result<(), Failure> {
        for deployment in &self.deployments {
            if deployment.spec.values_hash.is_empty() {
                continue;
            }
            let text = |text: &Option<String>| text.clone().unwrap_or_default();
            let (namespace, name) = (
                text(&deployment.metadata.namespace),
                text(&deployment.metadata.name),
            );
            let found = Api::<Secret>::namespaced(client.clone(), &namespace)
                .get_opt(&name)
                .await;
            let found = found.map_err(|error| {
                Failure::because(
                    format!("cannot read the values in Secret {namespace}/{name}"),
                    &error,
                )
            })?;
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

async fn list<K>(client: &Client, namespace: Option<&str>, labels: Option<&str>) -> Result<Vec<K>, Failure>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Debug,
{
    let api = match namespace {
        Some(namespace) => Api::<K>::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    };
    let mut params = ListParams::default().limit(PAGE);
    params.label_selector = labels.map(str::to_owned);
    let mut all = Vec::new();
    loop {
        let page = match api.list(&params).await {
            // Without the CRD there are none.
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(all),
            page => {
                page.map_err(|error| Failure::because(format!("cannot read the {}", K::plural(&())), &error))?
            }
        };
        all.extend(page.items);
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params.continue_token = Some(token),
            None => return Ok(all),
        }
    }
}
