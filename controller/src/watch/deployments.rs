//! The cache of BundleDeployments, indexed by Bundle and by the namespace of the cluster.

use std::{collections::BTreeSet, sync::Arc};

use futures::{Stream, StreamExt, stream};
use helmops_api::{BundleDeployment, Decoded, NamespacedName, labels};
use helmops_content::ContentId;
use helmops_core::{content::of_deployment, status::helmop_of, targeting::delivery::CachedDeployment};
use helmops_kube::{
    Cache, Change, Fold, Index, ObservedVersion, Presence, key, without_absent, without_errors,
};
use helmops_runtime::store_budget::shorten;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Resource, runtime::watcher};

use super::{options_pool::OptionsPool, same_name_as};
use crate::work::{BundleKey, ClusterKey, HelmOpKey};

/// All BundleDeployments, as last observed. Clones share the cache.
///
/// They are absent if no bundle controller is installed, so that their CRD does not exist, or if the scope does not include them.
#[derive(Clone, Debug)]
pub struct Deployments {
    cache: Cache<CachedDeployment, ByBundle>,
    /// Their options.
    pub options: OptionsPool,
}

/// The objects that a change of a BundleDeployment affects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Affected {
    pub bundle: Option<BundleKey>,
    /// The shard of the Bundle.
    pub shard: String,
    pub helmop: Option<HelmOpKey>,
    pub cluster: Option<ClusterKey>,
}

impl Deployments {
    pub fn new() -> Self {
        let cache = Cache::ignoring_older(|deployment: &CachedDeployment, known| {
            ObservedVersion::of(deployment.meta()).is_older(&ObservedVersion::of(known.meta()))
        });
        Self {
            cache,
            options: OptionsPool::default(),
        }
    }

    /// The BundleDeployments of a HelmOp; `None` if they are not known.
    pub fn of_helmop(&self, helmop: &HelmOpKey) -> Option<Vec<CachedDeployment>> {
        if self.cache.presence() != Presence::Synced {
            return None;
        }
        let mut deployments = self.of_bundle(&same_name_as(helmop));
        deployments.retain(|deployment| helmop_key(deployment.meta()).as_ref() == Some(helmop));
        Some(deployments)
    }

    /// The BundleDeployments of a Bundle.
    pub fn of_bundle(&self, bundle: &BundleKey) -> Vec<CachedDeployment> {
        self.cache.read(|deployments, by_bundle| {
            let names = by_bundle.0.get(bundle);
            names.filter_map(|name| deployments.get(name).cloned()).collect()
        })
    }

    /// The contents that they refer to.
    pub fn contents(&self) -> BTreeSet<ContentId> {
        self.cache.read(|deployments, _| {
            let deployments = deployments
                .iter()
                .filter_map(|(_, deployment)| deployment.valid());
            let ids = deployments.flat_map(|deployment| {
                let spec = &deployment.spec;
                of_deployment([&*spec.deployment_id, &*spec.staged_deployment_id])
            });
            ids.collect()
        })
    }

    /// The number of BundleDeployments of a Bundle.
    pub fn count(&self, bundle: &BundleKey) -> usize {
        self.cache.read(|_, by_bundle| by_bundle.0.count(bundle))
    }

    /// The BundleDeployments in the namespace of a cluster.
    pub fn in_namespace(&self, namespace: &str) -> Vec<CachedDeployment> {
        self.cache.read(|deployments, _| {
            let found = deployments.in_namespace(namespace);
            found.map(|(_, deployment)| Arc::clone(deployment)).collect()
        })
    }

    /// A BundleDeployment by its namespace and name.
    pub fn get(&self, namespace: &str, name: &str) -> Option<CachedDeployment> {
        self.cache.value(&NamespacedName::new(namespace, name))
    }

    /// A BundleDeployment by its namespace and name, if it has no labels that name its Bundle.
    pub fn unlabelled(&self, namespace: &str, name: &str) -> Option<CachedDeployment> {
        let found = self.get(namespace, name)?;
        bundle_key(found.meta()).is_none().then_some(found)
    }

    /// Waits until the first list is complete, or they are known to be absent.
    pub async fn wait_until_synced(&self) {
        self.cache.wait_until_synced().await;
    }

    /// They are outside of the scope: the status of Bundles is used instead.
    pub fn mark_absent(&self) {
        self.cache.mark_absent();
    }

    /// Follows a watch, and returns what each change affects.
    pub fn follow<S>(&self, events: S) -> impl Stream<Item = Affected> + Send + use<S>
    where
        S: Stream<Item = watcher::Result<watcher::Event<Decoded<BundleDeployment>>>> + Send + 'static,
    {
        let kind = BundleDeployment::kind(&());
        let consequence =
            "the status of HelmOps on clusters is reported as soon as a bundle controller is installed";
        let events = without_absent(&kind, consequence, &self.cache, events);
        let events = without_errors(&kind, events);
        self.cache
            .follow(vec![(None, events)], |deployment| Some(Arc::new(deployment)))
            .flat_map(|changes| stream::iter(changes.into_iter().flat_map(affected)))
    }

    /// Records a BundleDeployment that was just written, so that the next reconciliation does not miss it.
    pub fn wrote(&self, mut deployment: BundleDeployment) {
        self.options.share(&mut deployment);
        let name = NamespacedName::of(&deployment.metadata);
        self.cache
            .wrote(name, Arc::new(Decoded::Valid(Arc::new(deployment))));
    }

    /// Records that a BundleDeployment was deleted.
    pub fn deleted(&self, namespace: &str, name: &str) {
        self.cache.deleted(NamespacedName::new(namespace, name));
    }
}

/// The BundleDeployments of each Bundle.
#[derive(Debug, Default)]
struct ByBundle(Index<BundleKey>);

impl Fold<CachedDeployment> for ByBundle {
    fn apply(&mut self, change: &Change<CachedDeployment>) {
        let bundle = |deployment: &Option<CachedDeployment>| bundle_key(deployment.as_ref()?.meta());
        self.0
            .change(&change.name, bundle(&change.before), bundle(&change.after));
    }
}

/// Removes the options of a BundleDeployment, which are its largest part, and keeps what is needed to compute its state.
pub fn slim(deployment: &mut Decoded<BundleDeployment>) {
    shorten(deployment);
    if let Decoded::Valid(deployment) = deployment {
        let deployment = Arc::make_mut(deployment);
        let spec = std::mem::take(&mut deployment.spec);
        deployment.spec.deployment_id = spec.deployment_id;
        deployment.spec.staged_deployment_id = spec.staged_deployment_id;
        deployment.spec.off_schedule = spec.off_schedule;
    }
}

/// What a change affects: if the labels have changed, both the previous and the new objects.
fn affected(change: Change<CachedDeployment>) -> Vec<Affected> {
    let both = [change.before, change.after].into_iter().flatten();
    let mut affected: Vec<_> = both.map(|deployment| Affected::by(deployment.meta())).collect();
    affected.dedup();
    affected
}

impl Affected {
    /// What the labels of a BundleDeployment name.
    fn by(metadata: &ObjectMeta) -> Self {
        let cluster = labelled(metadata, labels::CLUSTER_NAMESPACE, labels::CLUSTER);
        Self {
            bundle: bundle_key(metadata),
            shard: labels::of(metadata, labels::SHARD).unwrap_or_default().to_owned(),
            helmop: helmop_key(metadata),
            cluster: cluster.map(|(namespace, name)| key(namespace, name)),
        }
    }
}

/// A namespace and a name, each from a label.
fn labelled<'m>(metadata: &'m ObjectMeta, namespace: &str, name: &str) -> Option<(&'m str, &'m str)> {
    Some((labels::of(metadata, namespace)?, labels::of(metadata, name)?))
}

fn bundle_key(metadata: &ObjectMeta) -> Option<BundleKey> {
    // A HelmOp and its Bundle have the same name.
    let bundle =
        labelled(metadata, labels::BUNDLE_NAMESPACE, labels::BUNDLE_NAME).or_else(|| helmop_of(metadata));
    bundle.map(|(namespace, name)| key(namespace, name))
}

fn helmop_key(metadata: &ObjectMeta) -> Option<HelmOpKey> {
    helmop_of(metadata).map(|(namespace, name)| key(namespace, name))
}

#[cfg(test)]
mod tests {
    use futures::{FutureExt, channel::mpsc, stream::BoxStream};
    use serde_json::{Value, json};
    use watcher::Event;

    use super::*;

    #[tokio::test]
    async fn a_deployment_without_content_still_belongs_to_its_bundle() {
        let whole = object("c1", "web", &[]);
        let why = helmops_api::Unusable::NotStored(String::new());
        let refused = Decoded::without_content(whole.meta(), why);
        let deployments = Deployments::new();
        let events = stream::iter([Ok(Event::InitApply(refused)), Ok(Event::InitDone)]);
        let affected: Vec<_> = deployments.follow(events).collect().await;
        assert_eq!(deployments.of_bundle(&key("fleet-default", "web")).len(), 1);
        assert_eq!(affected[0].cluster, Some(key("fleet-default", "c1")));
    }

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

    /// A cache, and the events of its watch.
    struct Followed {
        deployments: Deployments,
        events: mpsc::UnboundedSender<watcher::Result<Event<Decoded<BundleDeployment>>>>,
        affected: BoxStream<'static, Affected>,
    }

    impl Followed {
        fn new() -> Self {
            let deployments = Deployments::new();
            let (events, receiver) = mpsc::unbounded();
            let affected = deployments.follow(receiver).boxed();
            Self {
                deployments,
                events,
                affected,
            }
        }

        /// After a complete list without objects.
        fn synced() -> Self {
            let mut followed = Self::new();
            followed.observe(Event::InitDone);
            followed
        }

        fn observe(&mut self, event: Event<Decoded<BundleDeployment>>) -> Vec<Affected> {
            self.receive(Ok(event))
        }

        fn receive(&mut self, event: watcher::Result<Event<Decoded<BundleDeployment>>>) -> Vec<Affected> {
            self.events.unbounded_send(event).unwrap();
            std::iter::from_fn(|| self.affected.next().now_or_never().flatten()).collect()
        }
    }

    #[test]
    fn nothing_is_reported_before_the_first_list_is_complete() {
        let mut followed = Followed::new();
        followed.observe(Event::Init);
        assert!(
            followed
                .observe(Event::InitApply(deployment("c1", "web")))
                .is_empty()
        );
        assert_eq!(clusters(&followed.deployments, &web()), None);
        assert_eq!(helmops(followed.observe(Event::InitDone)), ["web"]);
        assert_eq!(
            clusters(&followed.deployments, &web()),
            Some(vec!["c1".to_owned()])
        );
        let db = key("fleet-default", "db");
        assert_eq!(clusters(&followed.deployments, &db), Some(Vec::new()));
    }

    #[test]
    fn a_change_affects_its_bundle_helmop_and_cluster() {
        let mut followed = Followed::synced();
        let expected = Affected {
            bundle: Some(key("fleet-default", "web")),
            shard: String::new(),
            helmop: Some(web()),
            cluster: Some(key("fleet-default", "c1")),
        };
        for _ in 0..2 {
            let affected = followed.observe(Event::Apply(deployment("c1", "web")));
            assert_eq!(affected, std::slice::from_ref(&expected));
        }
        let more = [
            (&*format!("/metadata/labels|{}", labels::HELM_NAME), json!("")),
            (&*format!("/metadata/labels|{}", labels::SHARD), json!("b")),
        ];
        let affected = followed.observe(Event::Apply(object("c1", "web", &more)));
        assert_eq!(affected.len(), 2, "it has no HelmOp any more");
        assert_eq!((&affected[1].helmop, &*affected[1].shard), (&None, "b"));
        let deployments = followed.deployments.clone();
        assert_eq!(clusters(&deployments, &web()), Some(Vec::new()));
        assert_eq!(deployments.of_bundle(&key("fleet-default", "web")).len(), 1);
        followed.observe(Event::Apply(deployment("c2", "db")));
        assert_eq!(deployments.in_namespace("c1").len(), 1);
        assert_eq!(
            helmops(followed.observe(Event::Delete(deployment("c2", "db")))),
            ["db"]
        );
        followed.observe(Event::Delete(deployment("c1", "web")));
        let is_empty = deployments
            .cache
            .read(|all, by_bundle| all.is_empty() && by_bundle.0.is_empty());
        assert!(is_empty, "no index entry remains");
    }

    #[test]
    fn objects_missing_in_a_list_are_removed() {
        let mut followed = Followed::synced();
        followed.observe(Event::Apply(deployment("c1", "web")));
        followed.observe(Event::Apply(deployment("c2", "db")));
        followed.observe(Event::Init);
        followed.observe(Event::InitApply(deployment("c2", "db")));
        assert_eq!(
            clusters(&followed.deployments, &web()),
            Some(vec!["c1".to_owned()]),
            "until the list is complete"
        );
        assert_eq!(helmops(followed.observe(Event::InitDone)), ["db", "web"]);
        assert_eq!(clusters(&followed.deployments, &web()), Some(Vec::new()));
    }

    #[test]
    fn an_older_version_does_not_replace_a_written_one() {
        let mut followed = Followed::synced();
        let version = |version: &str, id: &str| {
            let more = [
                ("/metadata|uid", json!("u")),
                ("/metadata|resourceVersion", json!(version)),
                ("/spec|deploymentID", json!(id)),
            ];
            object("c1", "web", &more)
        };
        let deployments = followed.deployments.clone();
        let id = || {
            let of = deployments.of_bundle(&key("fleet-default", "web"));
            of[0].valid().unwrap().spec.deployment_id.clone()
        };
        let Decoded::Valid(written) = version("10", ":new") else {
            panic!("it decodes");
        };
        deployments.wrote(written.as_ref().clone());
        assert!(followed.observe(Event::Apply(version("9", ":old"))).is_empty());
        assert_eq!(id(), ":new");
        followed.observe(Event::Apply(version("11", ":newer")));
        assert_eq!(id(), ":newer");
        deployments.deleted("c1", "web");
        assert_eq!(deployments.count(&key("fleet-default", "web")), 0);
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
        let mut followed = Followed::new();
        let missing = kube::core::Status::failure("not found", "NotFound")
            .with_code(404)
            .boxed();
        let missing = watcher::Error::InitialListFailed(kube::Error::Api(missing));
        followed.receive(Err(missing));
        followed.deployments.wait_until_synced().await;
        assert_eq!(clusters(&followed.deployments, &web()), None);
        followed.observe(Event::InitDone);
        assert_eq!(
            clusters(&followed.deployments, &web()),
            Some(Vec::new()),
            "the CRD was installed"
        );
    }
}
