//! BundleDeployments, by the Bundle that they are of and by the cluster that they are on.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, Mutex},
};

use futures::{Stream, StreamExt};
use helmops_shared::{
    api::{BundleDeployment, Decoded, NamespacedName, labels},
    runtime::{exit::with_causes, kube_client::is_absent, lock},
    status::helmop_of,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Resource, runtime::watcher};
use tokio::sync::watch;

use super::named_alike;
use crate::work::{BundleKey, ClusterKey, HelmOpKey, key};

/// One of them.
pub type Deployment = Arc<Decoded<BundleDeployment>>;

/// What became of Bundles on each cluster, as last seen. Clones share it.
#[derive(Clone, Debug)]
pub struct Deployments {
    index: Arc<Mutex<Index>>,
    presence: watch::Sender<Presence>,
}

/// Whether there is anything to see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Presence {
    /// Nobody has looked yet.
    Unknown,
    /// The cluster has no such kind, because no bundle controller has been installed, or they may not be looked at.
    Absent,
    /// All of them are known.
    Known,
}

#[derive(Debug, Default)]
struct Index {
    all: BTreeMap<NamespacedName, Deployment>,
    of_bundle: HashMap<BundleKey, BTreeSet<NamespacedName>>,
    /// What a list has shown so far that is under way.
    listed: Vec<Deployment>,
}

/// What a change of a deployment concerns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Affected {
    /// The Bundle that it is of.
    pub bundle: Option<BundleKey>,
    /// The shard that works on that.
    pub shard: String,
    /// The HelmOp that it is of.
    pub helmop: Option<HelmOpKey>,
    /// The Cluster that it is on.
    pub cluster: Option<ClusterKey>,
}

impl Deployments {
    /// None yet.
    pub fn new() -> Self {
        Self {
            index: Arc::default(),
            presence: watch::Sender::new(Presence::Unknown),
        }
    }

    /// Those of a HelmOp; `None` where the cluster knows of none at all.
    pub fn of_helmop(&self, helmop: &HelmOpKey) -> Option<Vec<Deployment>> {
        if *self.presence.borrow() != Presence::Known {
            return None;
        }
        let mut deployments = self.of_bundle(&named_alike(helmop));
        deployments.retain(|deployment| helmop_key(deployment.meta()).as_ref() == Some(helmop));
        Some(deployments)
    }

    /// Those of a Bundle.
    pub fn of_bundle(&self, bundle: &BundleKey) -> Vec<Deployment> {
        let index = lock(&self.index);
        let names = index.of_bundle.get(bundle).into_iter().flatten();
        names.filter_map(|name| index.all.get(name).cloned()).collect()
    }

    /// Number of those of a Bundle.
    pub fn number(&self, bundle: &BundleKey) -> usize {
        lock(&self.index).of_bundle.get(bundle).map_or(0, BTreeSet::len)
    }

    /// Those in the namespace of a cluster.
    pub fn in_namespace(&self, namespace: &str) -> Vec<Deployment> {
        let index = lock(&self.index);
        let from = NamespacedName::new(namespace, "");
        let those = index.all.range(from..);
        those
            .take_while(|(deployment, _)| deployment.namespace == namespace)
            .map(|(_, deployment)| Arc::clone(deployment))
            .collect()
    }

    /// One by its place.
    pub fn get(&self, namespace: &str, name: &str) -> Option<Deployment> {
        lock(&self.index)
            .all
            .get(&NamespacedName::new(namespace, name))
            .cloned()
    }

    /// One by its place, if no label tells which Bundle it is of.
    pub fn unlabelled(&self, namespace: &str, name: &str) -> Option<Deployment> {
        let found = self.get(namespace, name)?;
        Affected::by(found.meta()).bundle.is_none().then_some(found)
    }

    /// Waits until it is known whether there are any.
    pub async fn wait_until_known(&self) {
        let mut presence = self.presence.subscribe();
        // It fails only where nobody can tell any more.
        let _ = presence.wait_for(|presence| *presence != Presence::Unknown).await;
    }

    /// Nobody may look at them: what Bundles say has to do.
    pub fn are_out_of_sight(&self) {
        self.presence.send_replace(Presence::Absent);
    }

    /// Follows a watch, and tells what each change concerns.
    pub fn follow<S>(&self, events: S) -> impl Stream<Item = Affected> + use<S>
    where
        S: Stream<Item = watcher::Result<watcher::Event<Decoded<BundleDeployment>>>>,
    {
        let deployments = self.clone();
        events
            .map(move |event| match event {
                Ok(event) => deployments.see(event),
                Err(error) => {
                    deployments.failed(&error);
                    Vec::new()
                }
            })
            .flat_map(futures::stream::iter)
    }

    /// Takes up what was just written, so that the next look does not miss it.
    pub fn wrote(&self, deployment: BundleDeployment) {
        lock(&self.index).put(Arc::new(Decoded::Valid(Arc::new(deployment))));
    }

    /// Takes up that one is gone.
    pub fn gone(&self, namespace: &str, name: &str) {
        lock(&self.index).remove(&NamespacedName::new(namespace, name));
    }

    /// Notes an event. Gives what it concerns.
    fn see(&self, event: watcher::Event<Decoded<BundleDeployment>>) -> Vec<Affected> {
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
                let concerned = index.replace();
                drop(index);
                self.presence.send_replace(Presence::Known);
                concerned
            }
        }
    }

    fn failed(&self, error: &watcher::Error) {
        // The next list begins anew.
        lock(&self.index).listed.clear();
        let is_absent = is_absent(error);
        let is_first = self.presence.send_if_modified(|presence| {
            is_absent && std::mem::replace(presence, Presence::Absent) != Presence::Absent
        });
        if is_first {
            tracing::info!(
                "the cluster has no BundleDeployments; what became of HelmOps is told as soon as a bundle controller is \
                 installed"
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

/// Takes away what is deployed, which is the larger part, and keeps what tells of its state.
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
        // It may have passed from one to another.
        let mut concerned: Vec<_> = before.into_iter().chain([now]).collect();
        concerned.dedup();
        concerned
    }

    fn remove(&mut self, name: &NamespacedName) -> Option<Affected> {
        let concerned = Affected::by(self.all.remove(name)?.meta());
        if let Some(bundle) = &concerned.bundle
            && let Some(names) = self.of_bundle.get_mut(bundle)
        {
            names.remove(name);
            if names.is_empty() {
                self.of_bundle.remove(bundle);
            }
        }
        Some(concerned)
    }

    /// Takes what was listed in place of all that is known.
    fn replace(&mut self) -> Vec<Affected> {
        let listed = std::mem::take(&mut self.listed);
        let before = std::mem::take(&mut self.all);
        self.of_bundle.clear();
        let mut concerned = Vec::new();
        for deployment in listed {
            // A list can be behind what was just written, too.
            let known = before.get(&NamespacedName::of(deployment.meta()));
            let known = known.filter(|known| is_older(deployment.meta(), known.meta()));
            concerned.extend(self.put(known.map_or(deployment, Arc::clone)));
        }
        let gone = before
            .into_iter()
            .filter(|(name, _)| !self.all.contains_key(name));
        concerned.extend(gone.map(|(_, deployment)| Affected::by(deployment.meta())));
        concerned
    }
}

impl Affected {
    fn by(metadata: &ObjectMeta) -> Self {
        let named = |namespace, name| Some((labels::of(metadata, namespace)?, labels::of(metadata, name)?));
        // A HelmOp and its Bundle have the same name.
        let bundle = named(labels::BUNDLE_NAMESPACE, labels::BUNDLE_NAME).or_else(|| helmop_of(metadata));
        let cluster = named(labels::CLUSTER_NAMESPACE, labels::CLUSTER);
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

/// Whether something is an earlier state of the same object. A watch can be behind what was just written.
fn is_older(metadata: &ObjectMeta, than: &ObjectMeta) -> bool {
    let version = |metadata: &ObjectMeta| metadata.resource_version.as_ref()?.parse::<u64>().ok();
    metadata.uid == than.uid
        && version(metadata)
            .zip(version(than))
            .is_some_and(|(its, known)| its < known)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// One with changes at these places.
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
        for (place, value) in more {
            let (parent, key) = place.rsplit_once('|').unwrap();
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

    fn helmops(concerned: Vec<Affected>) -> Vec<String> {
        concerned
            .into_iter()
            .filter_map(|one| Some(one.helmop?.name))
            .collect()
    }

    #[test]
    fn nothing_is_known_before_the_first_list() {
        let deployments = Deployments::new();
        deployments.see(watcher::Event::Init);
        assert!(
            deployments
                .see(watcher::Event::InitApply(deployment("c1", "web")))
                .is_empty()
        );
        assert_eq!(clusters(&deployments, &web()), None);
        assert_eq!(helmops(deployments.see(watcher::Event::InitDone)), ["web"]);
        assert_eq!(clusters(&deployments, &web()), Some(vec!["c1".to_owned()]));
        let db = key("fleet-default", "db");
        assert_eq!(clusters(&deployments, &db), Some(Vec::new()));
    }

    #[test]
    fn changes_concern_whose_they_are() {
        let deployments = Deployments::new();
        deployments.see(watcher::Event::InitDone);
        let expected = Affected {
            bundle: Some(key("fleet-default", "web")),
            shard: String::new(),
            helmop: Some(web()),
            cluster: Some(key("fleet-default", "c1")),
        };
        for _ in 0..2 {
            let concerned = deployments.see(watcher::Event::Apply(deployment("c1", "web")));
            assert_eq!(concerned, std::slice::from_ref(&expected));
        }
        let more = [
            (&*format!("/metadata/labels|{}", labels::HELM_NAME), json!("")),
            (&*format!("/metadata/labels|{}", labels::SHARD), json!("b")),
        ];
        let other = object("c1", "web", &more);
        let concerned = deployments.see(watcher::Event::Apply(other));
        assert_eq!(concerned.len(), 2, "it is nobody's any more");
        assert_eq!((&concerned[1].helmop, &*concerned[1].shard), (&None, "b"));
        assert_eq!(clusters(&deployments, &web()), Some(Vec::new()));
        assert_eq!(deployments.of_bundle(&key("fleet-default", "web")).len(), 1);
        deployments.see(watcher::Event::Apply(deployment("c2", "db")));
        assert_eq!(deployments.in_namespace("c1").len(), 1);
        assert_eq!(
            helmops(deployments.see(watcher::Event::Delete(deployment("c2", "db")))),
            ["db"]
        );
        deployments.see(watcher::Event::Delete(deployment("c1", "web")));
        let index = lock(&deployments.index);
        assert!(
            index.all.is_empty() && index.of_bundle.is_empty(),
            "nothing is left behind"
        );
    }

    #[test]
    fn what_a_list_no_longer_shows_is_gone() {
        let deployments = Deployments::new();
        deployments.see(watcher::Event::InitDone);
        deployments.see(watcher::Event::Apply(deployment("c1", "web")));
        deployments.see(watcher::Event::Apply(deployment("c2", "db")));
        deployments.see(watcher::Event::Init);
        deployments.see(watcher::Event::InitApply(deployment("c2", "db")));
        assert_eq!(
            clusters(&deployments, &web()),
            Some(vec!["c1".to_owned()]),
            "until it is complete"
        );
        assert_eq!(helmops(deployments.see(watcher::Event::InitDone)), ["db", "web"]);
        assert_eq!(clusters(&deployments, &web()), Some(Vec::new()));
    }

    #[test]
    fn what_was_written_is_not_overtaken_by_older_news() {
        let deployments = Deployments::new();
        deployments.see(watcher::Event::InitDone);
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
            of[0].good().unwrap().spec.deployment_id.clone()
        };
        let Decoded::Valid(written) = version("10", ":new") else {
            panic!("it decodes");
        };
        deployments.wrote(written.as_ref().clone());
        assert!(
            deployments
                .see(watcher::Event::Apply(version("9", ":old")))
                .is_empty()
        );
        assert_eq!(id(), ":new");
        deployments.see(watcher::Event::Apply(version("11", ":newer")));
        assert_eq!(id(), ":newer");
    }

    #[test]
    fn a_slim_one_keeps_its_state_and_no_options() {
        let mut whole = deployment("c1", "web");
        slim(&mut whole);
        let spec = &whole.good().unwrap().spec;
        assert_eq!((&*spec.deployment_id, &spec.options.helm), (":a", &None));
    }

    #[tokio::test]
    async fn a_cluster_without_the_kind_is_known_too() {
        let deployments = Deployments::new();
        let missing = kube::core::Status::failure("not found", "NotFound")
            .with_code(404)
            .boxed();
        deployments.failed(&watcher::Error::InitialListFailed(kube::Error::Api(missing)));
        deployments.wait_until_known().await;
        assert_eq!(clusters(&deployments, &web()), None);
        deployments.see(watcher::Event::InitDone);
        assert_eq!(
            clusters(&deployments, &web()),
            Some(Vec::new()),
            "it was installed"
        );
    }
}
