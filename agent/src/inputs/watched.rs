//! Objects of this cluster whose changes concern BundleDeployments.
//!
//! ```text
//! objects of BundleDeployments ─► one watch of metadata per kind and namespace ─┬─► versions of objects
//!                                                                               └─► names of BundleDeployments
//! ```
//!
//! Records of Helm are left out: they are the most Secrets of a namespace, and nothing that a BundleDeployment names.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex},
};

use futures::{Stream, StreamExt};
use helmops_api::{MetadataOnly, NamespacedName};
use helmops_kube::{Cache, NOT_RELEASES, Presence, StreamSet, watch_results, without_errors};
use helmops_process::lock;
use kube::{
    Api, Client, Resource,
    core::{ApiResource, DynamicObject},
    runtime::watcher,
};
use tokio::sync::{Notify, mpsc};

/// Kinds and namespaces that are watched.
const MAX_SCOPES: usize = 1_000;

/// The objects of a kind in a namespace.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Scope {
    pub resource: ApiResource,
    /// Empty for a kind without namespaces.
    pub namespace: String,
}

/// An object that is watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchedObject {
    pub scope: Scope,
    pub name: String,
}

/// The UID and the resource version of an object.
pub type Version = (Option<String>, Option<String>);

/// Objects by the BundleDeployments that their changes concern. Clones share them.
#[derive(Clone)]
pub struct WatchedObjects {
    client: Client,
    /// The namespaces that the agent may read; empty for all.
    namespaces: Arc<[String]>,
    state: Arc<Mutex<State>>,
    has_changed: Arc<Notify>,
}

#[derive(Default)]
struct State {
    deployments: HashMap<String, Vec<WatchedObject>>,
    watched: HashMap<Scope, Watched>,
    /// How many watches there were.
    watches: u64,
}

struct Watched {
    number: u64,
    versions: Cache<Version>,
}

/// What setting the objects of a BundleDeployment has led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watching {
    /// They were watched already.
    Before,
    /// They are watched from now on.
    Now,
    /// They cannot be watched: the agent may not read their namespace, or there are too many others.
    Not,
}

impl WatchedObjects {
    /// None. `namespaces` are those that the agent may read; empty for all.
    pub fn new(client: Client, namespaces: Vec<String>) -> Self {
        Self {
            client,
            namespaces: namespaces.into(),
            state: Arc::default(),
            has_changed: Arc::default(),
        }
    }

    /// Sets the objects whose changes concern a BundleDeployment.
    pub fn set(&self, deployment: &str, objects: Vec<WatchedObject>) -> Watching {
        let mut state = lock(&self.state);
        let before = state.deployments.get(deployment).map_or(&[][..], |before| before);
        if before == objects {
            return Watching::Before;
        }
        state.deployments.remove(deployment);
        let can_watch = self.watch_all(&mut state, &objects);
        if can_watch && !objects.is_empty() {
            state.deployments.insert(deployment.to_owned(), objects);
        }
        let State {
            deployments, watched, ..
        } = &mut *state;
        let used: HashSet<&Scope> = deployments
            .values()
            .flatten()
            .map(|object| &object.scope)
            .collect();
        watched.retain(|scope, _| used.contains(scope));
        drop(state);
        self.has_changed.notify_one();
        if can_watch { Watching::Now } else { Watching::Not }
    }

    /// Watches objects, if that is possible for all of them.
    fn watch_all(&self, state: &mut State, objects: &[WatchedObject]) -> bool {
        let scopes: HashSet<&Scope> = objects.iter().map(|object| &object.scope).collect();
        let may_read =
            |scope: &&Scope| self.namespaces.is_empty() || self.namespaces.contains(&scope.namespace);
        let new = scopes
            .iter()
            .filter(|scope| !state.watched.contains_key(**scope))
            .count();
        if !scopes.iter().all(may_read) || state.watched.len() + new > MAX_SCOPES {
            return false;
        }
        for scope in scopes {
            let watches = &mut state.watches;
            state.watched.entry(scope.clone()).or_insert_with(|| {
                *watches += 1;
                Watched {
                    number: *watches,
                    versions: Cache::new(),
                }
            });
        }
        true
    }

    /// The versions of objects, in their order; `None` if they are not known yet.
    pub fn versions(&self, objects: &[WatchedObject]) -> Option<Vec<Option<Version>>> {
        let state = lock(&self.state);
        let version = |object: &WatchedObject| {
            let Watched { versions, .. } = state.watched.get(&object.scope)?;
            let name = NamespacedName {
                namespace: object.scope.namespace.clone(),
                name: object.name.clone(),
            };
            (versions.presence() == Presence::Synced).then(|| versions.value(&name))
        };
        objects.iter().map(version).collect()
    }

    /// Follows the watches. Sends the name of each BundleDeployment whose objects may have changed.
    pub async fn run(&self, affected: mpsc::Sender<String>) {
        let mut watches = StreamSet::new();
        loop {
            self.start_and_stop(&mut watches);
            tokio::select! {
                () = self.has_changed.notified() => {}
                Some((scope, changed)) = watches.next() => {
                    for name in self.deployments_of(&scope, &changed) {
                        if affected.send(name).await.is_err() {
                            return;
                        }
                    }
                }
            }
        }
    }

    fn start_and_stop(&self, watches: &mut StreamSet<Scope, (Scope, HashSet<String>)>) {
        let state = lock(&self.state);
        watches.retain(|scope, number| {
            state
                .watched
                .get(scope)
                .is_some_and(|watched| watched.number == number)
        });
        for (scope, Watched { number, versions }) in &state.watched {
            watches.start(scope.clone(), *number, || self.follow(scope.clone(), versions));
        }
    }

    /// The names of the objects that have changed.
    fn follow(
        &self,
        scope: Scope,
        versions: &Cache<Version>,
    ) -> impl Stream<Item = (Scope, HashSet<String>)> + Send + use<> {
        let Scope { resource, namespace } = &scope;
        let client = self.client.clone();
        let api = if namespace.is_empty() {
            Api::all_with(client, resource)
        } else {
            Api::namespaced_with(client, namespace, resource)
        };
        let is_secret = resource.group.is_empty() && resource.kind == "Secret";
        let fields = if is_secret { NOT_RELEASES } else { "" };
        let results = watch_results(api, watcher::Config::default().fields(fields));
        let events = without_errors(&resource.kind, results);
        let version = |object: MetadataOnly<DynamicObject>| {
            let metadata = object.meta();
            Some((metadata.uid.clone(), metadata.resource_version.clone()))
        };
        let changes = versions.follow(vec![(Some(namespace.clone()), events)], version);
        changes.map(move |changes| {
            let names = changes.into_iter().map(|change| change.name.name);
            (scope.clone(), names.collect())
        })
    }

    fn deployments_of(&self, scope: &Scope, changed: &HashSet<String>) -> Vec<String> {
        let state = lock(&self.state);
        let is_affected = |objects: &[WatchedObject]| {
            let mut objects = objects.iter();
            objects.any(|object| object.scope == *scope && changed.contains(&object.name))
        };
        let deployments = state.deployments.iter();
        deployments
            .filter(|(_, objects)| is_affected(objects))
            .map(|(name, _)| name.clone())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use http::Method;
    use k8s_openapi::api::core::v1::{ConfigMap, Secret};
    use serde_json::json;

    use super::*;
    use crate::testing::server;

    fn object(namespace: &str, name: &str) -> WatchedObject {
        let scope = Scope {
            resource: ApiResource::erase::<ConfigMap>(&()),
            namespace: namespace.to_owned(),
        };
        WatchedObject {
            scope,
            name: name.to_owned(),
        }
    }

    fn watched(objects: &WatchedObjects) -> Vec<(String, u64)> {
        let state = lock(&objects.state);
        let scopes = state.watched.iter();
        let mut scopes: Vec<_> = scopes
            .map(|(scope, watched)| (scope.namespace.clone(), watched.number))
            .collect();
        scopes.sort();
        scopes
    }

    fn objects(namespaces: &[&str]) -> WatchedObjects {
        let (client, _) = server(|_: &Method, _: &str| (404, json!({})));
        WatchedObjects::new(client, namespaces.iter().map(ToString::to_string).collect())
    }

    #[tokio::test]
    async fn a_watch_lasts_as_long_as_a_deployment_needs_it() {
        let objects = objects(&[]);
        let set = |name: &str, wanted: &[WatchedObject]| objects.set(name, wanted.to_vec());
        assert_eq!(set("web", &[object("shop", "a")]), Watching::Now);
        assert_eq!(set("web", &[object("shop", "a")]), Watching::Before);
        assert_eq!(
            set("db", &[object("shop", "b"), object("data", "b")]),
            Watching::Now
        );
        let scopes = [("data".to_owned(), 2), ("shop".to_owned(), 1)];
        assert_eq!(watched(&objects), scopes);
        let changed = |names: &[&str]| {
            let names = names.iter().map(ToString::to_string).collect();
            let mut found = objects.deployments_of(&object("shop", "").scope, &names);
            found.sort();
            found
        };
        assert_eq!(
            (changed(&["a"]), changed(&["c"])),
            (vec!["web".to_owned()], vec![])
        );
        assert_eq!(changed(&["a", "b"]), ["db", "web"]);
        set("db", &[]);
        assert_eq!(watched(&objects), [("shop".to_owned(), 1)]);
        set("web", &[]);
        assert!(watched(&objects).is_empty() && changed(&["a", "b"]).is_empty());
        // Another watch, whose first list has what was missed.
        set("web", &[object("shop", "a")]);
        assert_eq!(watched(&objects), [("shop".to_owned(), 3)]);
    }

    #[tokio::test]
    async fn what_the_agent_may_not_read_is_not_watched() {
        let objects = objects(&["shop"]);
        let other = vec![object("shop", "a"), object("data", "a")];
        assert_eq!(objects.set("web", other), Watching::Not);
        // A kind without namespaces.
        assert_eq!(objects.set("web", vec![object("", "a")]), Watching::Not);
        assert!(watched(&objects).is_empty());
        assert_eq!(objects.set("web", vec![object("shop", "a")]), Watching::Now);
    }

    #[tokio::test]
    async fn a_change_is_that_of_the_object_and_not_of_records() {
        let (client, requests) = server(|_: &Method, _: &str| {
            let items = json!([{ "metadata": { "name": "tls", "namespace": "shop", "uid": "1", "resourceVersion": "2" } }]);
            (
                200,
                json!({ "metadata": { "resourceVersion": "2" }, "items": items }),
            )
        });
        let objects = WatchedObjects::new(client, Vec::new());
        let mut tls = object("shop", "tls");
        tls.scope.resource = ApiResource::erase::<Secret>(&());
        objects.set("web", vec![tls.clone()]);
        assert_eq!(
            objects.versions(std::slice::from_ref(&tls)),
            None,
            "not listed yet"
        );
        let (sender, mut receiver) = mpsc::channel(1);
        tokio::select! {
            () = objects.run(sender) => panic!("it never ends"),
            name = receiver.recv() => assert_eq!(name.as_deref(), Some("web")),
        }
        let version = (Some("1".to_owned()), Some("2".to_owned()));
        assert_eq!(objects.versions(&[tls]), Some(vec![Some(version)]));
        let first = lock(&requests).first().cloned().unwrap();
        assert!(
            first.contains("/namespaces/shop/secrets?") && first.contains("fieldSelector"),
            "{first}"
        );
    }
}
