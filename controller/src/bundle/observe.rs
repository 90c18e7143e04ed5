//! Reads the objects that a Bundle depends on: from the caches, and from the API server what the caches do not have.

use std::{collections::BTreeMap, fmt::Debug, pin::pin, sync::Arc};

use futures::StreamExt;
use helmops_api::{
    Bundle, BundleDeployment, BundleNamespaceMapping, Cluster, ClusterGroup, Decoded, MetadataOnly,
    NamespacedName, Schedule,
};
use helmops_core::{
    policy::Policies,
    schedule::{KnownWindows, ScheduleIndex},
    targeting::{
        Member, NamespaceRefused, Target,
        copies::{CopyKind, CopyRef, Object},
        delivery::{
            BundleDelivery, CachedDeployment, ClusterState, Decisive, Read, Unseen, is_orphan_for_certain,
        },
        scope,
    },
};
use helmops_kube::path_segment;
use helmops_runtime::{
    client::{ApiError, CallError, bounded},
    pages::pages,
};
use k8s_openapi::{
    NamespaceResourceScope,
    api::core::v1::{ConfigMap, Namespace, Secret},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
    jiff::Timestamp,
};
use kube::{Api, Resource, api::ListParams};
use serde::de::DeserializeOwned;

use super::DeliveryError;
use crate::{
    context::Context,
    schedule::groups_of,
    watch::{Clusters, Copies, in_namespaces},
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
    schedules: Vec<Arc<Decoded<Schedule>>>,
    mappings: Vec<Arc<Decoded<BundleNamespaceMapping>>>,
    namespaces: Vec<Arc<MetadataOnly<Namespace>>>,
    /// The namespaces whose clusters the Bundle may target.
    within: Vec<String>,
    deployments: Vec<CachedDeployment>,
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
    let mut mappings = clusters.mappings.state();
    mappings.retain(|mapping| mapping.meta().namespace == bundle.metadata.namespace);
    let all_namespaces = clusters.namespaces.state();
    let within = namespaces(bundle, &mappings, &all_namespaces);
    let mut groups = in_namespaces(&clusters.groups, &within);
    // A store has no order, but the status needs a stable one.
    groups.sort_by(|one, other| one.meta().name.cmp(&other.meta().name));
    let schedules = in_namespaces(&clusters.schedules, &within);
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
        schedules,
        mappings,
        namespaces: all_namespaces,
        within,
        deployments,
    }
}

impl ClusterSnapshot {
    /// The clusters, without those that do not decode or are being deleted: nothing is deployed to them.
    pub fn members(&self) -> impl Iterator<Item = Member<'_>> {
        let groups = groups_of(&self.groups);
        self.clusters
            .iter()
            .filter_map(|entry| Some((entry, entry.cluster.valid()?)))
            .filter(|(_, cluster)| cluster.metadata.deletion_timestamp.is_none())
            .map(move |(entry, cluster)| {
                Member::new(cluster, &groups).with_namespace(entry.namespace.clone())
            })
    }

    /// The same clusters, each with what its Schedules decide at a time. Where that is not certain, it is what the status says: what was
    /// decided before.
    pub fn scheduled_members(&self, now: Timestamp, known: &KnownWindows) -> Vec<Member<'_>> {
        let schedules = self.schedules.iter().map(|schedule| &**schedule);
        let index = ScheduleIndex::new(schedules, self.groups.iter().map(|group| &**group), known);
        let mut members: Vec<_> = self.members().collect();
        for member in &mut members {
            if let Some(windows) = index.of_cluster(member, now, known) {
                member.set_windows(&windows);
            }
        }
        members
    }

    /// The first decode error of an object that selects the targets, if there is any: then the targets are not certain.
    pub fn decode_error(&self) -> Option<String> {
        let clusters = self
            .clusters
            .iter()
            .filter_map(|entry| decode_error(&entry.cluster));
        let groups = self.groups.iter().filter_map(|group| decode_error(group));
        let mappings = self.mappings.iter().filter_map(|mapping| decode_error(mapping));
        clusters.chain(groups).chain(mappings).next()
    }

    /// Whether the Bundle may target the clusters in a namespace.
    pub fn includes(&self, namespace: &str) -> bool {
        self.within.iter().any(|one| one == namespace)
    }

    /// Compares what decides which clusters are targets of the Bundle, except for the Clusters themselves, with the API server. Each kind
    /// has a watch of its own, and while one of them is behind, the caches together show a state that never was.
    ///
    /// # Errors
    /// If anything differs, or cannot be read.
    pub async fn confirm(&self, context: &Context, bundle: &Bundle) -> Result<(), DeliveryError> {
        let name = NamespacedName::of(&bundle.metadata);
        let current = metadata::<Bundle>(context, &name).await?;
        if current.as_ref().map(Decisive::of) != Some(Decisive::of(&bundle.metadata)) {
            return Err(DeliveryError::Stale(format!("Bundle {name}")));
        }
        let client = || context.client.clone();
        let api = Api::<MetadataOnly<BundleNamespaceMapping>>::namespaced(client(), &name.namespace);
        let mappings = self.mappings.iter().map(|one| named(one.meta()));
        unchanged(api, mappings, of_metadata, |_| true).await?;
        if !self.mappings.is_empty() {
            self.confirm_namespaces(context).await?;
        }
        let api: Api<MetadataOnly<ClusterGroup>> = match &*self.within {
            [one] => Api::namespaced(client(), one),
            _ => Api::all(client()),
        };
        let groups = self.groups.iter().map(|group| named(group.meta()));
        unchanged(api, groups, of_metadata, |namespace| self.includes(namespace)).await
    }

    /// Compares all that decides which Cluster has which namespace with the API server.
    ///
    /// # Errors
    /// If anything differs, or cannot be read.
    pub async fn confirm_clusters(&self, context: &Context) -> Result<(), DeliveryError> {
        self.confirm_namespaces(context).await?;
        let clusters = self.clusters.iter().map(|entry| &*entry.cluster);
        let clusters = clusters.map(|cluster| (NamespacedName::of(cluster.meta()), of_cluster(cluster)));
        let api = Api::<Decoded<Cluster>>::all(context.client.clone());
        let is_included = |namespace: &str| self.includes(namespace);
        unchanged(api, clusters, of_cluster, is_included).await
    }

    async fn confirm_namespaces(&self, context: &Context) -> Result<(), DeliveryError> {
        let namespaces = self.namespaces.iter().map(|namespace| named(namespace.meta()));
        let api = Api::<MetadataOnly<Namespace>>::all(context.client.clone());
        unchanged(api, namespaces, of_metadata, |_| true).await
    }

    /// Whether a Cluster is in the API server. The snapshot shows what decides of it as it is there.
    ///
    /// # Errors
    /// If that differs, or cannot be read.
    pub async fn confirm_cluster(
        &self,
        context: &Context,
        name: &NamespacedName,
    ) -> Result<bool, DeliveryError> {
        let api = Api::<Decoded<Cluster>>::namespaced(context.client.clone(), &name.namespace);
        let current = bounded(api.get_opt(&path_segment(&name.name))).await;
        let current = current.map_err(CallError::of("read", format_args!("Cluster {name}")))?;
        let current = current.as_ref().map(of_cluster);
        let is_there = current.is_some();
        let cached = self
            .cluster(&name.namespace, &name.name)
            .map(Decisive::of_cluster);
        if is_orphan_for_certain(cached.as_ref(), current.as_ref()) {
            Ok(is_there)
        } else {
            Err(DeliveryError::Stale(format!("Cluster {name}")))
        }
    }

    fn cluster(&self, namespace: &str, name: &str) -> Option<&Decoded<Cluster>> {
        let has_name = |cluster: &&Arc<Decoded<Cluster>>| {
            let metadata = (**cluster).meta();
            metadata.namespace.as_deref() == Some(namespace) && metadata.name.as_deref() == Some(name)
        };
        let mut clusters = self.clusters.iter().map(|entry| &entry.cluster);
        clusters.find(has_name).map(|cluster| &**cluster)
    }

    /// For the log: why a Cluster in a namespace of the Bundle is no target, as far as the API server `has` it.
    pub fn why_no_target(&self, cluster: &NamespacedName, has: bool) -> String {
        let is_it =
            |member: &Member<'_>| member.namespace() == cluster.namespace && member.name() == cluster.name;
        match self.members().find(is_it) {
            _ if !has => format!("Cluster {cluster} does not exist any more"),
            None => format!("Cluster {cluster} is being deleted"),
            Some(member) => {
                let groups: Vec<_> = member.group_names().collect();
                let labels = member.cluster.metadata.labels.iter().flatten();
                let labels: Vec<_> = labels.map(|(key, value)| format!("{key}={value}")).collect();
                format!(
                    "no target of the Bundle matches Cluster {cluster} any more; its ClusterGroups: [{}], its labels: [{}]",
                    groups.join(" "),
                    labels.join(" ")
                )
            }
        }
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
    bundle: &Bundle,
    mappings: &[Arc<Decoded<BundleNamespaceMapping>>],
    namespaces: &[Arc<MetadataOnly<Namespace>>],
) -> Vec<String> {
    let mappings: Vec<&BundleNamespaceMapping> =
        mappings.iter().filter_map(|mapping| mapping.valid()).collect();
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

fn decode_error<K: Resource<DynamicType = ()>>(object: &Decoded<K>) -> Option<String> {
    match object {
        Decoded::Valid(_) => None,
        Decoded::Invalid { metadata, error } => Some(format!(
            "{} {} {}",
            K::kind(&()),
            metadata.name.as_deref().unwrap_or_default(),
            error.predicate()
        )),
    }
}

/// The state of the namespace of a target's cluster, from the caches.
pub fn cluster(
    context: &Context,
    copies: &Copies,
    delivery: &BundleDelivery<'_>,
    target: &Target<'_>,
) -> ClusterState {
    let Some(namespace) = target.namespace() else {
        return ClusterState::default();
    };
    let filter = delivery.cache_filter(target);
    let deployments = &context.stores.deployments;
    let deployments = if filter.needs_all_deployments() {
        deployments.in_namespace(namespace)
    } else {
        deployments.get(namespace, filter.name()).into_iter().collect()
    };
    let copies = copies.select(namespace, |kind, name, copy| filter.includes(kind, name, copy));
    ClusterState::cached(deployments, copies, context.pruned_deployment_fields.get())
}

/// Adds what has to be read from the API server to the state of a cluster.
///
/// # Errors
/// If something cannot be read, or if the API server has a BundleDeployment that the cache lacks.
pub async fn read(
    context: &Context,
    copies: &Copies,
    reads: Vec<Read>,
    state: &mut ClusterState,
) -> Result<(), DeliveryError> {
    for read in reads {
        match read {
            Read::Object(copy) => {
                let CopyRef { kind, name } = &copy;
                let object = object(context, *kind, &name.namespace, &name.name).await;
                let object = object.map_err(CallError::of("read", format_args!("{kind} {name}")))?;
                if object.is_none() {
                    copies.deleted(&copy);
                }
                state.add_object(copy, object);
            }
            Read::Metadata(copy) => {
                let metadata = copy_metadata(context, copies, &copy).await?;
                state.add_metadata(copy, metadata);
            }
            Read::Deployment(name) => {
                if metadata::<BundleDeployment>(context, &name).await?.is_some() {
                    return Err(DeliveryError::Stale(format!("BundleDeployment {name}")));
                }
            }
        }
    }
    Ok(())
}

/// The metadata of a copy; `None` if it does not exist any more.
pub async fn copy_metadata(
    context: &Context,
    copies: &Copies,
    copy: &CopyRef,
) -> Result<Option<ObjectMeta>, CallError> {
    let CopyRef { kind, name } = copy;
    let found = match kind {
        CopyKind::Secret => metadata::<Secret>(context, name).await?,
        CopyKind::ConfigMap => metadata::<ConfigMap>(context, name).await?,
    };
    if found.is_none() {
        copies.deleted(copy);
    }
    Ok(found)
}

fn of_metadata<K>(object: &MetadataOnly<K>) -> Decisive<'_> {
    Decisive::of(&object.metadata)
}

fn of_cluster(cluster: &Decoded<Cluster>) -> Decisive<'_> {
    Decisive::of_cluster(cluster)
}

fn named(metadata: &ObjectMeta) -> (NamespacedName, Decisive<'_>) {
    (NamespacedName::of(metadata), Decisive::of(metadata))
}

/// Checks that the API server has exactly the cached objects of the namespaces that are included, with the same that is `decisive`. It reads
/// no further than to the first difference, so never much more than what is cached.
async fn unchanged<K>(
    api: Api<K>,
    cached: impl Iterator<Item = (NamespacedName, Decisive<'_>)>,
    decisive: fn(&K) -> Decisive<'_>,
    is_included: impl Fn(&str) -> bool,
) -> Result<(), DeliveryError>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let kind = K::kind(&());
    let stale = |name: NamespacedName| DeliveryError::Stale(format!("{kind} {name}"));
    let mut unseen = Unseen::new(cached);
    let read = async |params| api.list(&params).await;
    let mut pages = pin!(pages(ListParams::default(), read));
    while let Some(page) = pages.next().await {
        for object in page.map_err(CallError::of("list", format_args!("{kind}s")))? {
            let name = NamespacedName::of(object.meta());
            if is_included(&name.namespace) {
                unseen.see(name, &decisive(&object)).map_err(stale)?;
            }
        }
    }
    unseen.end().map_err(stale)
}

/// The metadata of an object in the API server; `None` if it does not exist.
///
/// # Errors
/// If it cannot be read.
pub async fn metadata<K>(context: &Context, name: &NamespacedName) -> Result<Option<ObjectMeta>, CallError>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    let api = Api::<MetadataOnly<K>>::namespaced(context.client.clone(), &name.namespace);
    let found = bounded(api.get_opt(&name.name)).await;
    let found = found.map_err(CallError::of("read", format_args!("{} {name}", K::kind(&()))))?;
    Ok(found.map(|found| (*found.metadata).clone()))
}

/// A Secret or ConfigMap; `None` if it does not exist.
pub async fn object(
    context: &Context,
    kind: CopyKind,
    namespace: &str,
    name: &str,
) -> Result<Option<Object>, ApiError> {
    let client = context.client.clone();
    Ok(match kind {
        CopyKind::Secret => {
            let api = Api::<Secret>::namespaced(client, namespace);
            bounded(api.get_opt(&path_segment(name)))
                .await?
                .map(Object::Secret)
        }
        CopyKind::ConfigMap => {
            let api = Api::<ConfigMap>::namespaced(client, namespace);
            bounded(api.get_opt(&path_segment(name)))
                .await?
                .map(Object::ConfigMap)
        }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn decoded<K>(object: &Value) -> Arc<Decoded<K>>
    where
        Decoded<K>: DeserializeOwned,
    {
        Arc::new(serde_json::from_str(&object.to_string()).unwrap())
    }

    /// Whether a Bundle finds the Cluster outside of its windows at 01:00, with these labels and this status, and when it looks again.
    fn is_out_of_schedule(env: &str, status: &Value, schedules: &[Value]) -> (bool, Option<String>) {
        let metadata = json!({ "namespace": "fleet", "name": "c1", "labels": { "env": env } });
        let cluster = decoded(&json!({ "metadata": metadata, "status": status }));
        let namespace = Ok("cluster-c1".to_owned());
        let snapshot = ClusterSnapshot {
            clusters: vec![ClusterEntry { cluster, namespace }],
            groups: Vec::new(),
            schedules: schedules.iter().map(decoded).collect(),
            mappings: Vec::new(),
            namespaces: Vec::new(),
            within: vec!["fleet".to_owned()],
            deployments: Vec::new(),
        };
        let now = "2026-01-01T01:00:00Z".parse().unwrap();
        let members = snapshot.scheduled_members(now, &KnownWindows::default());
        let again = members[0].schedule_changes.map(|time| time.to_string());
        (members[0].is_out_of_schedule, again)
    }

    /// The loop of Clusters writes the status seconds after the labels have changed.
    #[test]
    fn a_cluster_with_new_labels_is_out_of_schedule_before_its_status_says_so() {
        let schedule =
            |spec: Value| json!({ "metadata": { "namespace": "fleet", "name": "night" }, "spec": spec });
        let targets = json!({ "clusters": [{ "clusterSelector": { "matchLabels": { "env": "prod" } } }] });
        let night = schedule(json!({ "schedule": "0 0 2 * * ?", "duration": "2h", "targets": targets }));
        let unreadable = schedule(json!(1));
        let (free, closed) = (json!({}), json!({ "scheduled": true }));
        let at_two = Some("2026-01-01T02:00:00Z".to_owned());
        let one = std::slice::from_ref::<Value>;
        for (env, status, schedules, expected) in [
            ("prod", &free, one(&night), (true, at_two.clone())),
            ("prod", &closed, one(&night), (true, at_two)),
            ("test", &closed, one(&night), (false, None)),
            ("prod", &closed, &[], (false, None)),
            // What was decided before stays.
            ("prod", &closed, one(&unreadable), (true, None)),
            ("test", &free, &[night.clone(), unreadable.clone()], (false, None)),
        ] {
            let found = is_out_of_schedule(env, status, schedules);
            assert_eq!(found, expected, "{env} {status} {schedules:?}");
        }
    }
}
