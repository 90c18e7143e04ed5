//! BundleDeployments, by the HelmOp that they are of.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex},
};

use futures::{Stream, StreamExt};
use helmops_shared::{
    api::{BundleDeployment, Guarded, HelmOp},
    runtime::{cluster::is_absent, lock},
    status::helmop_of,
};
use kube::{
    Resource,
    runtime::{reflector::Store, watcher},
};
use tokio::sync::watch;

use super::{Key, key};

/// Namespace and name of a BundleDeployment.
type Name = (String, String);
type Deployment = Arc<Guarded<BundleDeployment>>;

/// What became of HelmOps on each cluster, as last seen. Clones share it.
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
    of_helmop: HashMap<Key, BTreeMap<Name, Deployment>>,
    helmop_of: HashMap<Name, Key>,
    /// What a list has shown so far that is under way.
    listed: Vec<Deployment>,
}

impl Default for Deployments {
    fn default() -> Self {
        Self {
            index: Arc::default(),
            presence: watch::Sender::new(Presence::Unknown),
        }
    }
}

impl Deployments {
    /// Those of a HelmOp; `None` where the cluster knows of none at all.
    pub fn of(&self, helmop: &Key) -> Option<Vec<Deployment>> {
        if *self.presence.borrow() != Presence::Known {
            return None;
        }
        let index = lock(&self.index);
        let deployments = index.of_helmop.get(helmop);
        Some(deployments.map_or_else(Vec::new, |deployments| deployments.values().cloned().collect()))
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

    /// Follows a watch, and tells which HelmOps each change concerns.
    pub fn follow<S>(&self, events: S, helmops: Store<Guarded<HelmOp>>) -> impl Stream<Item = Key> + use<S>
    where
        S: Stream<Item = watcher::Result<watcher::Event<Guarded<BundleDeployment>>>>,
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
            .filter(move |helmop| {
                let is_known = helmops.get(helmop).is_some();
                async move { is_known }
            })
    }

    /// Notes an event. Gives the HelmOps that it concerns.
    fn see(&self, event: watcher::Event<Guarded<BundleDeployment>>) -> Vec<Key> {
        let mut index = lock(&self.index);
        match event {
            watcher::Event::Apply(deployment) => index.put(Arc::new(deployment)),
            watcher::Event::Delete(deployment) => index.remove(&name(&deployment)).into_iter().collect(),
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
            tracing::warn!(kind = "BundleDeployment", %error, "watch failed and is begun anew");
        }
    }
}

impl Index {
    fn put(&mut self, deployment: Deployment) -> Vec<Key> {
        let name = name(&deployment);
        let (before, now) = (self.remove(&name), of(&deployment));
        if let Some(helmop) = &now {
            self.helmop_of.insert(name.clone(), helmop.clone());
            self.of_helmop
                .entry(helmop.clone())
                .or_default()
                .insert(name, deployment);
        }
        // It may have passed from one to another.
        let mut concerned: Vec<_> = before.into_iter().chain(now).collect();
        concerned.dedup();
        concerned
    }

    fn remove(&mut self, name: &Name) -> Option<Key> {
        let helmop = self.helmop_of.remove(name)?;
        if let Some(deployments) = self.of_helmop.get_mut(&helmop) {
            deployments.remove(name);
            if deployments.is_empty() {
                self.of_helmop.remove(&helmop);
            }
        }
        Some(helmop)
    }

    /// Takes over what was listed. Everybody is concerned who has, or had, a deployment.
    fn replace(&mut self) -> Vec<Key> {
        let mut concerned: Vec<_> = self.of_helmop.drain().map(|(helmop, _)| helmop).collect();
        self.helmop_of.clear();
        for deployment in std::mem::take(&mut self.listed) {
            concerned.extend(self.put(deployment));
        }
        concerned.sort_unstable_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        concerned.dedup();
        concerned
    }
}

fn of(deployment: &Guarded<BundleDeployment>) -> Option<Key> {
    helmop_of(deployment.meta()).map(|(namespace, name)| key(namespace, name))
}

fn name(deployment: &Guarded<BundleDeployment>) -> Name {
    let metadata = deployment.meta();
    (
        metadata.namespace.clone().unwrap_or_default(),
        metadata.name.clone().unwrap_or_default(),
    )
}

#[cfg(test)]
mod tests {
    use helmops_shared::api::labels;
    use serde_json::json;

    use super::*;

    fn deployment(cluster: &str, helmop: &str) -> Guarded<BundleDeployment> {
        let object = json!({ "metadata": {
            "namespace": cluster, "name": "web",
            "labels": { labels::BUNDLE_NAMESPACE: "fleet-default", labels::HELM_NAME: helmop }
        } });
        serde_json::from_str(&object.to_string()).unwrap()
    }

    fn web() -> Key {
        key("fleet-default", "web")
    }

    fn clusters(deployments: &Deployments, helmop: &Key) -> Option<Vec<String>> {
        let of = deployments.of(helmop)?;
        Some(of.iter().map(|one| name(one).0).collect())
    }

    #[test]
    fn nothing_is_known_before_the_first_list() {
        let deployments = Deployments::default();
        deployments.see(watcher::Event::Init);
        assert!(
            deployments
                .see(watcher::Event::InitApply(deployment("c1", "web")))
                .is_empty()
        );
        assert_eq!(clusters(&deployments, &web()), None);
        assert_eq!(deployments.see(watcher::Event::InitDone), [web()]);
        assert_eq!(clusters(&deployments, &web()), Some(vec!["c1".to_owned()]));
        assert_eq!(
            clusters(&deployments, &key("fleet-default", "db")),
            Some(Vec::new())
        );
    }

    #[test]
    fn changes_concern_whose_they_are() {
        let deployments = Deployments::default();
        deployments.see(watcher::Event::InitDone);
        assert_eq!(
            deployments.see(watcher::Event::Apply(deployment("c1", "web"))),
            [web()]
        );
        assert_eq!(
            deployments.see(watcher::Event::Apply(deployment("c1", "web"))),
            [web()]
        );
        let db = key("fleet-default", "db");
        assert_eq!(
            deployments.see(watcher::Event::Apply(deployment("c1", "db"))),
            [web(), db.clone()],
            "it has passed from one to the other"
        );
        assert_eq!(clusters(&deployments, &web()), Some(Vec::new()));
        assert_eq!(
            deployments.see(watcher::Event::Delete(deployment("c1", "db"))),
            [db]
        );
        let index = lock(&deployments.index);
        assert!(
            index.of_helmop.is_empty() && index.helmop_of.is_empty(),
            "nothing is left behind"
        );
    }

    #[test]
    fn what_a_list_no_longer_shows_is_gone() {
        let deployments = Deployments::default();
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
        assert_eq!(
            deployments.see(watcher::Event::InitDone),
            [key("fleet-default", "db"), web()]
        );
        assert_eq!(clusters(&deployments, &web()), Some(Vec::new()));
    }

    #[tokio::test]
    async fn a_cluster_without_the_kind_is_known_too() {
        let deployments = Deployments::default();
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
