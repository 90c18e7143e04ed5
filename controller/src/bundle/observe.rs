//! What there is around a Bundle, as it was last seen.

use std::{collections::BTreeMap, sync::Arc};

use helmops_shared::{
    api::{Bundle, BundleDeployment, BundleNamespaceMapping, Cluster, ClusterGroup, Decoded},
    policy::Policies,
    targeting::{Group, Member, NamespaceRefused, scope},
};
use kube::{Resource, runtime::reflector::Store};

use super::DeliveryError;
use crate::{
    context::Context,
    watch::{Clusters, Deployment},
    work::BundleKey,
};

/// The Policies of a Bundle's namespace.
///
/// # Errors
/// While it is unknown which there are: nothing is done that one of them might forbid.
pub fn policies(context: &Context, bundle: &Bundle) -> Result<Arc<Policies>, DeliveryError> {
    let namespace = bundle.metadata.namespace.as_deref().unwrap_or_default();
    let policies = context.stores.policies.of(namespace);
    policies.ok_or(DeliveryError::UnknownPolicies)
}

/// Whether a Bundle that is being worked on still says the same. Metadata may have changed, which brings it here again.
pub fn is_current(context: &Context, key: &BundleKey, bundle: &Bundle) -> bool {
    let latest = context.stores.bundles.get(key);
    latest.is_some_and(|latest| {
        let latest = latest.meta();
        (&latest.uid, latest.generation) == (&bundle.metadata.uid, bundle.metadata.generation)
            && latest.deletion_timestamp.is_none()
    })
}

/// Where a Bundle may go, and where it is.
pub struct ClusterSnapshot {
    clusters: Vec<Home>,
    groups: Vec<Arc<Decoded<ClusterGroup>>>,
    mappings: Vec<Arc<Decoded<BundleNamespaceMapping>>>,
    deployments: Vec<Deployment>,
    /// Where the Bundle is.
    namespace: Option<String>,
}

/// A Cluster, and the namespace that is its own: empty while it has none yet.
struct Home {
    cluster: Arc<Decoded<Cluster>>,
    namespace: Result<String, NamespaceRefused>,
}

impl Home {
    fn of(cluster: Arc<Decoded<Cluster>>, clusters: &Clusters) -> Self {
        // Before its status says so, its namespace may not have been created.
        let when_known = |cluster: &Cluster, namespace: String| {
            let is_known = !cluster.status.namespace.is_empty();
            if is_known { namespace } else { String::new() }
        };
        let namespace = cluster.good().map_or(Ok(String::new()), |cluster| {
            let namespace = clusters.namespace_of(cluster)?;
            Ok(when_known(cluster, namespace))
        });
        Self { cluster, namespace }
    }

    fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref().ok()
    }
}

/// Looks around.
pub fn surroundings(
    context: &Context,
    clusters: &Clusters,
    key: &BundleKey,
    bundle: &Bundle,
) -> ClusterSnapshot {
    let mappings = clusters.mappings.state();
    let within = namespaces(clusters, bundle, &mappings);
    let mut groups = inside(&clusters.groups, &within);
    // A store has no order, and a status must have one.
    groups.sort_by(|one, other| one.meta().name.cmp(&other.meta().name));
    let clusters = inside(&clusters.all, &within)
        .into_iter()
        .map(|cluster| Home::of(cluster, clusters))
        .collect::<Vec<_>>();
    let mut deployments = context.stores.deployments.of_bundle(key);
    // Whose labels were taken off is still what it was.
    let homes = clusters.iter().filter_map(Home::namespace);
    deployments.extend(homes.filter_map(|home| context.stores.deployments.unlabelled(home, &key.name)));
    ClusterSnapshot {
        clusters,
        groups,
        mappings,
        deployments,
        namespace: bundle.metadata.namespace.clone(),
    }
}

impl ClusterSnapshot {
    /// The clusters. One that does not decode, or is being deleted, is none to bring anything to.
    pub fn members(&self) -> impl Iterator<Item = Member<'_>> {
        let groups = self.groups.iter().filter_map(|group| group.good());
        let groups: Vec<_> = groups.filter_map(Group::of).collect();
        self.clusters
            .iter()
            .filter_map(|home| Some((home, home.cluster.good()?)))
            .filter(|(_, cluster)| cluster.metadata.deletion_timestamp.is_none())
            .map(move |(home, cluster)| Member::new(cluster, &groups).with_namespace(home.namespace.clone()))
    }

    /// Something that says where the Bundle goes and does not decode, if there is any: what it says is not known.
    pub fn odd(&self) -> Option<String> {
        let clusters = self.clusters.iter().filter_map(|home| odd(&home.cluster));
        let groups = self.groups.iter().filter_map(|group| odd(group));
        let mappings = self.mappings.iter();
        let mappings = mappings
            .filter(|mapping| mapping.meta().namespace == self.namespace)
            .filter_map(|mapping| odd(mapping));
        clusters.chain(groups).chain(mappings).next()
    }

    /// A cluster as it is seen.
    pub fn cluster(&self, namespace: &str, name: &str) -> Option<&Decoded<Cluster>> {
        let is_it = |cluster: &&Arc<Decoded<Cluster>>| {
            let metadata = (**cluster).meta();
            metadata.namespace.as_deref() == Some(namespace) && metadata.name.as_deref() == Some(name)
        };
        let mut clusters = self.clusters.iter().map(|home| &home.cluster);
        clusters.find(is_it).map(|cluster| &**cluster)
    }

    /// What is on clusters already.
    pub fn existing(&self) -> Vec<&BundleDeployment> {
        self.deployments
            .iter()
            .filter_map(|deployment| deployment.good())
            .collect()
    }
}

/// The namespaces in which the Bundle looks for clusters.
fn namespaces(
    clusters: &Clusters,
    bundle: &Bundle,
    mappings: &[Arc<Decoded<BundleNamespaceMapping>>],
) -> Vec<String> {
    let mappings: Vec<&BundleNamespaceMapping> =
        mappings.iter().filter_map(|mapping| mapping.good()).collect();
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

fn inside<K>(store: &Store<Decoded<K>>, namespaces: &[String]) -> Vec<Arc<Decoded<K>>>
where
    K: Resource<DynamicType = ()> + Clone + 'static,
{
    let is_inside = |object: &Arc<Decoded<K>>| {
        let namespace = object.meta().namespace.as_ref();
        namespace.is_some_and(|namespace| namespaces.contains(namespace))
    };
    store.state().into_iter().filter(is_inside).collect()
}

fn odd<K: Resource<DynamicType = ()>>(object: &Decoded<K>) -> Option<String> {
    match object {
        Decoded::Valid(_) => None,
        Decoded::Invalid { metadata, error } => Some(format!(
            "{} {} does not decode: {error}",
            K::kind(&()),
            metadata.name.as_deref().unwrap_or_default()
        )),
    }
}
