//! The cache of BundleDeployments, indexed by Bundle and by the namespace of the cluster.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, Mutex},
};

use futures::{Stream, StreamExt};
use helmops_api::{BundleDeployment, Decoded, NamespacedName, labels};
use helmops_core::status::helmop_of;
use helmops_kube::is_absent;
use helmops_process::{exit::with_causes, lock};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Resource, runtime::watcher};
use tokio::sync::watch;

use super::same_name_as;
use crate::work::{BundleKey, ClusterKey, HelmOpKey, key};

/// A BundleDeployment, or why it does not decode.
pub type Deployment = Arc<Decoded<BundleDeployment>>;

/// All BundleDeployments, as last observed. Clones share the cache.
#[derive(Clone, Debug)]
pub struct Deployments {
    index: Arc<Mutex<Index>>,
    presence: watch::Sender<Presence>,
}

/// Whether BundleDeployments can be watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Presence {
    /// The first list is not complete.
    Unknown,
    /// The CRD does not exist, because no bundle controller is installed, or the scope does not include them.
    Absent,
    /// The first list is complete.
    Synced,
}

#[derive(Debug, Default)]
struct Index {
    all: BTreeMap<NamespacedName, Deployment>,
    of_bundle: HashMap<BundleKey, BTreeSet<NamespacedName>>,
    /// The objects of an incomplete list.
    listed: Vec<Deployment>,
}

/// The objects that a change of a BundleDeployment affects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Affected {
    /// Its Bundle.
    pub bundle: Option<BundleKey>,
    /// The shard of the Bundle.
    pub shard: String,
    /// Its HelmOp.
    pub helmop: Option<HelmOpKey>,
    /// Its Cluster.
    pub cluster: Option<ClusterKey>,
}

impl Deployments {
    /// An empty cache.
    pub fn new() -> Self {
        Self {
            index: Arc::default(),
            presence: watch::Sender::new(Presence::Unknown),
        }
    }

    /// The BundleDeployments of a HelmOp; `None` if they cannot be watched.
    pub fn of_helmop(&self, helmop: &HelmOpKey) -> Option<Vec<Deployment>> {
        if *self.presence.borrow() != Presence::Synced {
            return None;
        }
        let mut deployments = self.of_bundle(&same_name_as(helmop));
        deployments.retain(|deployment| helmop_key(deployment.meta()).as_ref() == Some(helmop));
        Some(deployments)
    }

    /// The BundleDeployments of a Bundle.
    pub fn of_bundle(&self, bundle: &BundleKey) -> Vec<Deployment> {
        let index = lock(&self.index);
        let names = index.of_bundle.get(bundle).into_iter().flatten();
        names.filter_map(|name| index.all.get(name).cloned()).collect()
    }

    /// The number of BundleDeployments of a Bundle.
    pub fn count(&self, bundle: &BundleKey) -> usize {
        lock(&self.index).of_bundle.get(bundle).map_or(0, BTreeSet::len)
    }

    /// The BundleDeployments in the namespace of a cluster.
    pub fn in_namespace(&self, namespace: &str) -> Vec<Deployment> {
        let index = lock(&self.index);
        let from = NamespacedName::new(namespace, "");
        let following = index.all.range(from..);
        following
            .take_while(|(deployment, _)| deployment.namespace == namespace)
            .map(|(_, deployment)| Arc::clone(deployment))
            .collect()
    }

    /// A BundleDeployment by its namespace and name.
    pub fn get(&self, namespace: &str, name: &str) -> Option<Deployment> {
        lock(&self.index)
            .all
            .get(&NamespacedName::new(namespace, name))
            .cloned()
    }

    /// A BundleDeployment by its namespace and name, if it has no labels that name its Bundle.
    pub fn unlabelled(&self, namespace: &str, name: &str) -> Option<Deployment> {
        let found = self.get(namespace, name)?;
        Affected::by(found.meta()).bundle.is_none().then_some(found)
    }

    /// Waits until the first list is complete, or they are known not to exist.
    pub async fn wait_until_synced(&self) {
        let mut presence = self.presence.subscribe();
        // It fails only if the sender is gone, when the process stops.
        let _ = presence.wait_for(|presence| *presence != Presence::Unknown).await;
    }

    /// They are outside of the scope: the status of Bundles is used instead.
    pub fn mark_absent(&self) {
        self.presence.send_replace(Presence::Absent);
    }

    /// Follows a watch, and returns what each change affects.
    pub fn follow<S>(&self, events: S) -> impl Stream<Item = Affected> + use<S>
    where
        S: Stream<Item = watcher::Result<watcher::Event<Decoded<BundleDeployment>>>>,
    {
        let deployments = self.clone();
        events
            .map(move |event| match event {
                Ok(event) => deployments.observe(event),
                Err(error) => {
                    deployments.failed(&error);
                    Vec::new()
                }
            })
            .flat_map(futures::stream::iter)
    }

    /// Records a BundleDeployment that was just written, so that the next reconciliation does not miss it.
    pub fn wrote(&self, deployment: BundleDeployment) {
        lock(&self.index).put(Arc::new(Decoded::Valid(Arc::new(deployment))));
    }

    /// Records that a BundleDeployment was deleted.
    pub fn deleted(&self, namespace: &str, name: &str) {
        lock(&self.index).remove(&NamespacedName::new(namespace, name));
    }

    /// Records an event, and returns what it affects.
    fn observe(&self, event: watcher::Event<Decoded<BundleDeployment>>) -> Vec<Affected> {
        let mut index = lock(&self.index);
        match event {
            watcher::Event::Apply(deployment) => index.put(Arc::new(deployment)),
            watcher::Event::Delete(deployment) => index
                .remove(&NamespacedName::of(deployment.meta()))
                .into_iter()
                .collect(),
            watcher::Event::Init => {
                index.listed.clear();
                Vec::new()
            }
            watcher::Event::InitApply(deployment) => {
                index.listed.push(Arc::new(deployment));
                Vec::new()
            }
            watcher::Event::InitDone => {
                let affected = index.replace();
                drop(index);
                self.presence.send_replace(Presence::Synced);
                affected
            }
        }
    }

    fn failed(&self, error: &watcher::Error) {
        // The next list starts over.
        lock(&self.index).listed.clear();
        let is_absent = is_absent(error);
        let is_first = self.presence.send_if_modified(|presence| {
            is_absent && std::mem::replace(presence, Presence::Absent) != Presence::Absent
        });
        if is_first {
            tracing::info!(
                "the CRD of BundleDeployments does not exist; the status of HelmOps on clusters is reported as soon as a bundle \
                 controller is installed"
            );
        } else if !is_absent {
            tracing::warn!(
                kind = "BundleDeployment",
                error = with_causes(&error),
                "watch failed; restarting"
            );
        }
    }
}

/// Removes the options of a BundleDeployment, which are its largest part, and keeps what is needed to compute its state.
pub fn slim(deployment: &mut Decoded<BundleDeployment>) {
    if let Decoded::Valid(deployment) = deployment {
        let deployment = Arc::make_mut(deployment);
        let spec = std::mem::take(&mut deployment.spec);
        deployment.spec.deployment_id = spec.deployment_id;
        deployment.spec.staged_deployment_id = spec.staged_deployment_id;
    }
}

impl Index {
    fn put(&mut self, deployment: Deployment) -> Vec<Affected> {
        let name = NamespacedName::of(deployment.meta());
        if let Some(known) = self.all.get(&name)
            && is_older(deployment.meta(), known.meta())
        {
            return Vec::new();
        }
        let (before, now) = (self.remove(&name), Affected::by(deployment.meta()));
        if let Some(bundle) = &now.bundle {
            self.of_bundle
                .entry(bundle.clone())
                .or_default()
                .insert(name.clone());
        }
        self.all.insert(name, deployment);
        // The labels may have changed: both the previous and the new objects are affected.
        let mut affected: Vec<_> = before.into_iter().chain([now]).collect();
        affected.dedup();
        affected
    }

    fn remove(&mut self, name: &NamespacedName) -> Option<Affected> {
        let affected = Affected::by(self.all.remove(name)?.meta());
        if let Some(bundle) = &affected.bundle
            && let Some(names) = self.of_bundle.get_mut(bundle)
        {
            names.remove(name);
            if names.is_empty() {
                self.of_bundle.remove(bundle);
            }
        }
        Some(affected)
    }

    /// Replaces all objects with those of the complete list.
    fn replace(&mut self) -> Vec<Affected> {
        let listed = std::mem::take(&mut self.listed);
        let before = std::mem::take(&mut self.all);
        self.of_bundle.clear();
        let mut affected = Vec::new();
        for deployment in listed {
            // A list can be older than what was just written, too.
            let known = before.get(&NamespacedName::of(deployment.meta()));
            let known = known.filter(|known| is_older(deployment.meta(), known.meta()));
            affected.extend(self.put(known.map_or(deployment, Arc::clone)));
        }
        let deleted = before
            .into_iter()
            .filter(|(name, _)| !self.all.contains_key(name));
        affected.extend(deleted.map(|(_, deployment)| Affected::by(deployment.meta())));
        affected
    }
}

impl Affected {
    /// What the labels of a BundleDeployment name.
    fn by(metadata: &ObjectMeta) -> Self {
        let labelled =
            |namespace, name| Some((labels::of(metadata, namespace)?, labels::of(metadata, name)?));
        // A HelmOp and its Bundle have the same name.
        let bundle = labelled(labels::BUNDLE_NAMESPACE, labels::BUNDLE_NAME).or_else(|| helmop_of(metadata));
        let cluster = labelled(labels::CLUSTER_NAMESPACE, labels::CLUSTER);
        Self {
            bundle: bundle.map(|(namespace, name)| key(namespace, name)),
            shard: labels::of(metadata, labels::SHARD).unwrap_or_default().to_owned(),
            helmop: helmop_key(metadata),
            cluster: cluster.map(|(namespace, name)| key(namespace, name)),
        }
    }
}

fn helmop_key(metadata: &ObjectMeta) -> Option<HelmOpKey> {
    helmop_of(metadata).map(|(namespace, name)| key(namespace, name))
}

/// Whether it is an earlier version of the same object. A watch can be behind what was just written.
fn is_older(metadata: &ObjectMeta, than: &ObjectMeta) -> bool {
    let parsed = |metadata: &ObjectMeta| metadata.resource_version.as_ref()?.parse::<u64>().ok();
    metadata.uid == than.uid
        && parsed(metadata)
            .zip(parsed(than))
            .is_some_and(|(version, known)| version < known)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// A BundleDeployment with values at these paths, as `pointer|key`.
    fn object(cluster: &str, bundle: &str, more: &[(&str, Value)]) -> Decoded<BundleDeployment> {
        let mut object = json!({
            "metadata": {
                "namespace": cluster, "name": bundle,
                "labels": {
                    labels::BUNDLE_NAMESPACE: "fleet-default", labels::BUNDLE_NAME: bundle, labels::HELM_NAME: bundle,
                    labels::CLUSTER_NAMESPACE: "fleet-default", labels::CLUSTER: cluster,
                }
            },
            "spec": { "deploymentID": ":a", "options": { "helm": { "chart": "web" } } },
        });
        for (path, value) in more {
            let (parent, key) = path.rsplit_once('|').unwrap();
            object.pointer_mut(parent).unwrap()[key] = value.clone();
        }
        serde_json::from_str(&object.to_string()).unwrap()
    }

    fn deployment(cluster: &str, bundle: &str) -> Decoded<BundleDeployment> {
        object(cluster, bundle, &[])
    }

    fn web() -> HelmOpKey {
        key("fleet-default", "web")
    }

    fn clusters(deployments: &Deployments, helmop: &HelmOpKey) -> Option<Vec<String>> {
        let of = deployments.of_helmop(helmop)?;
        Some(
            of.iter()
                .map(|one| NamespacedName::of(one.meta()).namespace)
                .collect(),
        )
    }

    fn helmops(affected: Vec<Affected>) -> Vec<String> {
        affected
            .into_iter()
            .filter_map(|one| Some(one.helmop?.name))
            .collect()
    }

    #[test]
    fn nothing_is_reported_before_the_first_list_is_complete() {
        let deployments = Deployments::new();
        deployments.observe(watcher::Event::Init);
        assert!(
            deployments
                .observe(watcher::Event::InitApply(deployment("c1", "web")))
                .is_empty()
        );
        assert_eq!(clusters(&deployments, &web()), None);
        assert_eq!(helmops(deployments.observe(watcher::Event::InitDone)), ["web"]);
        assert_eq!(clusters(&deployments, &web()), Some(vec!["c1".to_owned()]));
        let db = key("fleet-default", "db");
        assert_eq!(clusters(&deployments, &db), Some(Vec::new()));
    }

    #[test]
    fn a_change_affects_its_bundle_helmop_and_cluster() {
        let deployments = Deployments::new();
        deployments.observe(watcher::Event::InitDone);
        let expected = Affected {
            bundle: Some(key("fleet-default", "web")),
            shard: String::new(),
            helmop: Some(web()),
            cluster: Some(key("fleet-default", "c1")),
        };
        for _ in 0..2 {
            let affected = deployments.observe(watcher::Event::Apply(deployment("c1", "web")));
            assert_eq!(affected, std::slice::from_ref(&expected));
        }
        let more = [
            (&*format!("/metadata/labels|{}", labels::HELM_NAME), json!("")),
            (&*format!("/metadata/labels|{}", labels::SHARD), json!("b")),
        ];
        let other = object("c1", "web", &more);
        let affected = deployments.observe(watcher::Event::Apply(other));
        assert_eq!(affected.len(), 2, "it has no HelmOp any more");
        assert_eq!((&affected[1].helmop, &*affected[1].shard), (&None, "b"));
        assert_eq!(clusters(&deployments, &web()), Some(Vec::new()));
        assert_eq!(deployments.of_bundle(&key("fleet-default", "web")).len(), 1);
        deployments.observe(watcher::Event::Apply(deployment("c2", "db")));
        assert_eq!(deployments.in_namespace("c1").len(), 1);
        assert_eq!(
            helmops(deployments.observe(watcher::Event::Delete(deployment("c2", "db")))),
            ["db"]
        );
        deployments.observe(watcher::Event::Delete(deployment("c1", "web")));
        let index = lock(&deployments.index);
        assert!(
            index.all.is_empty() && index.of_bundle.is_empty(),
            "no index entry remains"
        );
    }

    #[test]
    fn objects_missing_in_a_list_are_removed() {
        let deployments = Deployments::new();
        deployments.observe(watcher::Event::InitDone);
        deployments.observe(watcher::Event::Apply(deployment("c1", "web")));
        deployments.observe(watcher::Event::Apply(deployment("c2", "db")));
        deployments.observe(watcher::Event::Init);
        deployments.observe(watcher::Event::InitApply(deployment("c2", "db")));
        assert_eq!(
            clusters(&deployments, &web()),
            Some(vec!["c1".to_owned()]),
            "until the list is complete"
        );
        assert_eq!(
            helmops(deployments.observe(watcher::Event::InitDone)),
            ["db", "web"]
        );
        assert_eq!(clusters(&deployments, &web()), Some(Vec::new()));
    }

    #[test]
    fn an_older_version_does_not_replace_a_written_one() {
        let deployments = Deployments::new();
        deployments.observe(watcher::Event::InitDone);
        let version = |version: &str, id: &str| {
            let more = [
                ("/metadata|uid", json!("u")),
                ("/metadata|resourceVersion", json!(version)),
                ("/spec|deploymentID", json!(id)),
            ];
            object("c1", "web", &more)
        };
        let id = || {
            let of = deployments.of_bundle(&key("fleet-default", "web"));
            of[0].valid().unwrap().spec.deployment_id.clone()
        };
        let Decoded::Valid(written) = version("10", ":new") else {
            panic!("it decodes");
        };
        deployments.wrote(written.as_ref().clone());
        assert!(
            deployments
                .observe(watcher::Event::Apply(version("9", ":old")))
                .is_empty()
        );
        assert_eq!(id(), ":new");
        deployments.observe(watcher::Event::Apply(version("11", ":newer")));
        assert_eq!(id(), ":newer");
    }

    #[test]
    fn a_slimmed_deployment_keeps_its_ids_and_no_options() {
        let mut deployment = deployment("c1", "web");
        slim(&mut deployment);
        let spec = &deployment.valid().unwrap().spec;
        assert_eq!((&*spec.deployment_id, &spec.options.helm), (":a", &None));
    }

    #[tokio::test]
    async fn waiting_ends_if_the_crd_does_not_exist() {
        let deployments = Deployments::new();
        let missing = kube::core::Status::failure("not found", "NotFound")
            .with_code(404)
            .boxed();
        deployments.failed(&watcher::Error::InitialListFailed(kube::Error::Api(missing)));
        deployments.wait_until_synced().await;
        assert_eq!(clusters(&deployments, &web()), None);
        deployments.observe(watcher::Event::InitDone);
        assert_eq!(
            clusters(&deployments, &web()),
            Some(Vec::new()),
            "the CRD was installed"
        );
    }
}
