//! Notices changes of the ConfigMaps and Secrets that values come from.
//!
//! ```text
//! BundleDeployment ─► sources ─► one watch of metadata per kind and namespace ─► versions of its objects ─┐
//!                                              │                                                          ▼
//!                                              └─► its reconciliation ─► digest: read again if a version has changed
//! ```
//!
//! Records of Helm are left out: they are the most Secrets of a namespace, and no values.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, Mutex},
};

use futures::{Stream, StreamExt, stream::BoxStream};
use helmops_api::{BundleDeployment, Decoded, MetadataOnly, NamespacedName};
use helmops_core::targeting::copies::CopyKind;
use helmops_helm::values_from::{ValuesSource, digest, read, sources};
use helmops_kube::{Cache, Change, NOT_RELEASES, Presence, StreamSet, watch};
use helmops_process::lock;
use helmops_release::names::{ReleaseKey, name_of};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{Api, Client, Resource, runtime::watcher};
use serde::de::DeserializeOwned;
use tokio::sync::{Notify, mpsc};

use crate::context::Context;

/// The value of `lifecycle.valuesFromPolicy` with which a change of values deploys nothing.
const NEXT_RELEASE: &str = "NextRelease";
/// Kinds and namespaces that are watched. Values of others count with the next release.
const MAX_SCOPES: usize = 1_000;

/// The objects of a kind in a namespace.
type Scope = (CopyKind, String);
/// The UID and the resource version of an object.
type Version = (Option<String>, Option<String>);
type Versions = Cache<Version>;

/// The ConfigMaps and Secrets that values of BundleDeployments come from. Clones share them.
#[derive(Clone)]
pub struct ValuesSources {
    client: Client,
    /// The namespaces that the agent may read; empty for all.
    namespaces: Arc<[String]>,
    state: Arc<Mutex<State>>,
    has_changed: Arc<Notify>,
}

#[derive(Default)]
struct State {
    deployments: HashMap<String, Followed>,
    watched: BTreeMap<Scope, Watched>,
    /// How many watches there were.
    watches: u64,
}

struct Watched {
    number: u64,
    versions: Versions,
}

/// A BundleDeployment whose values are followed.
struct Followed {
    sources: Vec<ValuesSource>,
    /// The digest, and the versions that it is of.
    last: Option<(Vec<Option<Version>>, String)>,
    /// The first digest.
    first: Option<String>,
}

/// The values that references of a BundleDeployment name.
#[derive(Clone, Debug, Default)]
pub struct ObservedValues {
    /// Their digest; empty if there are none, if they are not followed, or if they cannot be read: then what is deployed stays, and an attempt to
    /// deploy reports why.
    pub digest: String,
    /// Whether they have changed since this process saw them first.
    pub have_changed: bool,
}

impl ValuesSources {
    /// None. `namespaces` are those that the agent may read; empty for all.
    pub fn new(client: Client, namespaces: Vec<String>) -> Self {
        Self {
            client,
            namespaces: namespaces.into(),
            state: Arc::default(),
            has_changed: Arc::default(),
        }
    }

    /// Follows a change of a BundleDeployment.
    pub fn changed(&self, name: &str, deployment: Option<&Decoded<BundleDeployment>>) {
        let deployment = deployment.and_then(Decoded::valid);
        let sources = deployment.map(followed).unwrap_or_default();
        let mut state = lock(&self.state);
        let before = state.deployments.get(name).map(|followed| &followed.sources);
        if before.map_or(sources.is_empty(), |before| *before == sources) {
            return;
        }
        state.deployments.remove(name);
        if !sources.is_empty() && self.watch_all(&mut state, &sources) {
            let followed = Followed {
                sources,
                last: None,
                first: None,
            };
            state.deployments.insert(name.to_owned(), followed);
        }
        let State {
            deployments, watched, ..
        } = &mut *state;
        let used: BTreeSet<Scope> = deployments
            .values()
            .flat_map(|followed| followed.sources.iter().map(scope_of))
            .collect();
        watched.retain(|scope, _| used.contains(scope));
        drop(state);
        self.has_changed.notify_one();
    }

    /// Watches the objects of sources, if that is possible for all of them.
    fn watch_all(&self, state: &mut State, sources: &[ValuesSource]) -> bool {
        let scopes: BTreeSet<Scope> = sources.iter().map(scope_of).collect();
        let may_read =
            |(_, namespace): &Scope| self.namespaces.is_empty() || self.namespaces.contains(namespace);
        let new = scopes
            .iter()
            .filter(|scope| !state.watched.contains_key(*scope))
            .count();
        if !scopes.iter().all(may_read) || state.watched.len() + new > MAX_SCOPES {
            return false;
        }
        for scope in scopes {
            let watches = &mut state.watches;
            state.watched.entry(scope).or_insert_with(|| {
                *watches += 1;
                Watched {
                    number: *watches,
                    versions: Cache::new(),
                }
            });
        }
        true
    }

    /// The values that references of a BundleDeployment name. A failure with other values delays nothing.
    pub async fn observe(&self, context: &Context, deployment: &BundleDeployment) -> ObservedValues {
        let name = name_of(deployment);
        let known = lock(&self.state)
            .deployments
            .get(name)
            .map(|followed| followed.sources.clone());
        let Some(sources) = known.filter(|known| *known == followed(deployment)) else {
            return ObservedValues::default();
        };
        // Before the values: what changes afterwards is noticed again.
        let versions = self.versions(&sources);
        if let Some(values) = self.unchanged(name, versions.as_ref()) {
            return values;
        }
        let read = async {
            let account = &deployment.spec.options.service_account;
            let (_, deployer) = context.accounts.deployer(account).await.ok()?;
            read(&deployer, &sources).await.ok()
        };
        let Some(values) = read.await else {
            return ObservedValues::default();
        };
        let digest = digest(&values);
        let mut state = lock(&self.state);
        let Some(followed) = state.deployments.get_mut(name) else {
            return ObservedValues::default();
        };
        if followed.last.as_ref().is_some_and(|(_, last)| *last != digest) {
            context.retries.forget(&context.key(name));
        }
        followed.last = Some((versions.unwrap_or_default(), digest.clone()));
        let first = followed.first.get_or_insert_with(|| digest.clone());
        ObservedValues {
            have_changed: *first != digest,
            digest,
        }
    }

    /// The values, if the versions of their objects are those of the last time.
    fn unchanged(&self, name: &str, versions: Option<&Vec<Option<Version>>>) -> Option<ObservedValues> {
        let state = lock(&self.state);
        let followed = state.deployments.get(name)?;
        let (last, digest) = followed.last.as_ref()?;
        (Some(last) == versions).then(|| ObservedValues {
            digest: digest.clone(),
            have_changed: followed.first.as_ref().is_some_and(|first| first != digest),
        })
    }

    /// The versions of the objects; `None` if they are not known yet.
    fn versions(&self, sources: &[ValuesSource]) -> Option<Vec<Option<Version>>> {
        let state = lock(&self.state);
        let version = |source: &ValuesSource| {
            let Watched { versions, .. } = state.watched.get(&scope_of(source))?;
            let name = NamespacedName {
                namespace: source.namespace.clone(),
                name: source.name.clone(),
            };
            (versions.presence() == Presence::Synced).then(|| versions.value(&name))
        };
        sources.iter().map(version).collect()
    }

    /// Follows the watches. Sends the name of each BundleDeployment whose values may have changed.
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

    fn start_and_stop(&self, watches: &mut StreamSet<Scope, (Scope, Vec<String>)>) {
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
        versions: &Versions,
    ) -> impl Stream<Item = (Scope, Vec<String>)> + Send + use<> {
        let (kind, namespace) = &scope;
        let changes = match kind {
            CopyKind::ConfigMap => changes::<ConfigMap>(&self.client, namespace, "", versions),
            CopyKind::Secret => changes::<Secret>(&self.client, namespace, NOT_RELEASES, versions),
        };
        changes.map(move |changes| {
            let names = changes.into_iter().map(|change| change.name.name);
            (scope.clone(), names.collect())
        })
    }

    fn deployments_of(&self, scope: &Scope, changed: &[String]) -> Vec<String> {
        let changed: BTreeSet<_> = changed.iter().collect();
        let state = lock(&self.state);
        let is_affected = |followed: &Followed| {
            let mut sources = followed.sources.iter();
            sources.any(|source| scope_of(source) == *scope && changed.contains(&source.name))
        };
        let deployments = state.deployments.iter();
        deployments
            .filter(|(_, followed)| is_affected(followed))
            .map(|(name, _)| name.clone())
            .collect()
    }
}

fn changes<K>(
    client: &Client,
    namespace: &str,
    fields: &str,
    versions: &Versions,
) -> BoxStream<'static, Vec<Change<Version>>>
where
    K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + DeserializeOwned
        + Send
        + 'static,
{
    let api = Api::<MetadataOnly<K>>::namespaced(client.clone(), namespace);
    let config = watcher::Config::default().fields(fields);
    let events = watch(api, config);
    let version = |object: MetadataOnly<K>| {
        let metadata = object.meta();
        Some((metadata.uid.clone(), metadata.resource_version.clone()))
    };
    let watches = vec![(Some(namespace.to_owned()), events)];
    versions.follow(watches, version).boxed()
}

/// The sources of a BundleDeployment of which a change is deployed.
fn followed(deployment: &BundleDeployment) -> Vec<ValuesSource> {
    let spec = &deployment.spec;
    let policy = spec
        .lifecycle
        .as_ref()
        .map_or("", |lifecycle| &lifecycle.values_from_policy);
    if policy == NEXT_RELEASE {
        return Vec::new();
    }
    let release = ReleaseKey::of(name_of(deployment), &spec.options);
    sources(&spec.options, spec.lifecycle.as_deref(), &release.namespace)
}

/// The objects of these sources, for a message.
pub fn sources_of(deployment: &BundleDeployment) -> String {
    let objects: BTreeSet<_> = followed(deployment).iter().map(ValuesSource::object).collect();
    Vec::from_iter(objects).join(", ")
}

fn scope_of(source: &ValuesSource) -> Scope {
    (source.kind, source.namespace.clone())
}
