//! Reads the objects that a Bundle depends on from the caches.

use std::{collections::BTreeMap, sync::Arc};

use helmops_api::{Bundle, BundleDeployment, BundleNamespaceMapping, Cluster, ClusterGroup, Decoded};
use helmops_core::{
    policy::Policies,
    targeting::{Group, Member, NamespaceRefused, scope},
};
use helmops_kube::ObjectCache;
use kube::Resource;

use super::DeliveryError;
use crate::{
    context::Context,
    watch::{Clusters, Deployment},
    work::BundleKey,
};

/// The Policies of a Bundle's namespace.
///
/// # Errors
/// While the Policy cache is not synced: nothing is done that a Policy might forbid.
pub fn policies(context: &Context, bundle: &Bundle) -> Result<Arc<Policies>, DeliveryError> {
    let namespace = bundle.metadata.namespace.as_deref().unwrap_or_default();
    let policies = context.stores.policies.of(namespace);
    policies.ok_or(DeliveryError::UnknownPolicies)
}

/// Whether the spec of a Bundle is unchanged since the reconciliation started. A change of its metadata alone does not count; it
/// triggers another reconciliation.
pub fn is_current(context: &Context, key: &BundleKey, bundle: &Bundle) -> bool {
    let latest = context.stores.bundles.get(key);
    latest.is_some_and(|latest| {
        let latest = latest.meta();
        (&latest.uid, latest.generation) == (&bundle.metadata.uid, bundle.metadata.generation)
            && latest.deletion_timestamp.is_none()
    })
}

/// The clusters that a Bundle may target, and its existing deployments.
pub struct ClusterSnapshot {
    clusters: Vec<ClusterEntry>,
    groups: Vec<Arc<Decoded<ClusterGroup>>>,
    mappings: Vec<Arc<Decoded<BundleNamespaceMapping>>>,
    deployments: Vec<Deployment>,
    /// The namespace of the Bundle.
    namespace: Option<String>,
}

/// A Cluster, and the namespace for its BundleDeployments: empty while it has none.
struct ClusterEntry {
    cluster: Arc<Decoded<Cluster>>,
    namespace: Result<String, NamespaceRefused>,
}

impl ClusterEntry {
    fn of(cluster: Arc<Decoded<Cluster>>, clusters: &Clusters) -> Self {
        // Until its status has the namespace, the namespace may not exist.
        let when_known = |cluster: &Cluster, namespace: String| {
            let is_known = !cluster.status.namespace.is_empty();
            if is_known { namespace } else { String::new() }
        };
        let namespace = cluster.valid().map_or(Ok(String::new()), |cluster| {
            let namespace = clusters.namespace_of(cluster)?;
            Ok(when_known(cluster, namespace))
        });
        Self { cluster, namespace }
    }

    fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref().ok()
    }
}

/// Reads the caches.
pub fn snapshot(context: &Context, clusters: &Clusters, key: &BundleKey, bundle: &Bundle) -> ClusterSnapshot {
    let mappings = clusters.mappings.state();
    let within = namespaces(clusters, bundle, &mappings);
    let mut groups = in_namespaces(&clusters.groups, &within);
    // A store has no order, but the status needs a stable one.
    groups.sort_by(|one, other| one.meta().name.cmp(&other.meta().name));
    let clusters = in_namespaces(&clusters.all, &within)
        .into_iter()
        .map(|cluster| ClusterEntry::of(cluster, clusters))
        .collect::<Vec<_>>();
    let mut deployments = context.stores.deployments.of_bundle(key);
    // A deployment without its labels still belongs to the Bundle.
    let namespaces = clusters.iter().filter_map(ClusterEntry::namespace);
    deployments.extend(
        namespaces.filter_map(|namespace| context.stores.deployments.unlabelled(namespace, &key.name)),
    );
    ClusterSnapshot {
        clusters,
        groups,
        mappings,
        deployments,
        namespace: bundle.metadata.namespace.clone(),
    }
}

impl ClusterSnapshot {
    /// The clusters, without those that do not decode or are being deleted: nothing is deployed to them.
    pub fn members(&self) -> impl Iterator<Item = Member<'_>> {
        let groups = self.groups.iter().filter_map(|group| group.valid());
        let groups: Vec<_> = groups.filter_map(Group::of).collect();
        self.clusters
            .iter()
            .filter_map(|entry| Some((entry, entry.cluster.valid()?)))
            .filter(|(_, cluster)| cluster.metadata.deletion_timestamp.is_none())
            .map(move |(entry, cluster)| {
                Member::new(cluster, &groups).with_namespace(entry.namespace.clone())
            })
    }

    /// The first decode error of an object that selects the targets, if there is any: then the targets are not certain.
    pub fn decode_error(&self) -> Option<String> {
        let clusters = self
            .clusters
            .iter()
            .filter_map(|entry| decode_error(&entry.cluster));
        let groups = self.groups.iter().filter_map(|group| decode_error(group));
        let mappings = self.mappings.iter();
        let mappings = mappings
            .filter(|mapping| mapping.meta().namespace == self.namespace)
            .filter_map(|mapping| decode_error(mapping));
        clusters.chain(groups).chain(mappings).next()
    }

    /// A Cluster of the snapshot.
    pub fn cluster(&self, namespace: &str, name: &str) -> Option<&Decoded<Cluster>> {
        let has_name = |cluster: &&Arc<Decoded<Cluster>>| {
            let metadata = (**cluster).meta();
            metadata.namespace.as_deref() == Some(namespace) && metadata.name.as_deref() == Some(name)
        };
        let mut clusters = self.clusters.iter().map(|entry| &entry.cluster);
        clusters.find(has_name).map(|cluster| &**cluster)
    }

    /// The deployments that exist and decode.
    pub fn existing(&self) -> Vec<&BundleDeployment> {
        self.deployments
            .iter()
            .filter_map(|deployment| deployment.valid())
            .collect()
    }
}

/// The namespaces whose clusters the Bundle may target.
fn namespaces(
    clusters: &Clusters,
    bundle: &Bundle,
    mappings: &[Arc<Decoded<BundleNamespaceMapping>>],
) -> Vec<String> {
    let mappings: Vec<&BundleNamespaceMapping> =
        mappings.iter().filter_map(|mapping| mapping.valid()).collect();
    let namespaces = clusters.namespaces.state();
    let known: Vec<(&str, Option<&BTreeMap<String, String>>)> = namespaces
        .iter()
        .filter_map(|namespace| {
            Some((
                namespace.metadata.name.as_deref()?,
                namespace.metadata.labels.as_ref(),
            ))
        })
        .collect();
    let found = scope::namespaces(bundle, mappings, &known);
    found.into_iter().map(str::to_owned).collect()
}

fn in_namespaces<K, F>(cache: &ObjectCache<Decoded<K>, F>, namespaces: &[String]) -> Vec<Arc<Decoded<K>>>
where
    K: Resource<DynamicType = ()> + Clone + 'static,
{
    let is_included = |object: &Arc<Decoded<K>>| {
        let namespace = object.meta().namespace.as_ref();
        namespace.is_some_and(|namespace| namespaces.contains(namespace))
    };
    cache.state().into_iter().filter(is_included).collect()
}

fn decode_error<K: Resource<DynamicType = ()>>(object: &Decoded<K>) -> Option<String> {
    match object {
        Decoded::Valid(_) => None,
        Decoded::Invalid { metadata, error } => Some(format!(
            "{} {} does not decode: {error}",
            K::kind(&()),
            metadata.name.as_deref().unwrap_or_default()
        )),
    }
}
