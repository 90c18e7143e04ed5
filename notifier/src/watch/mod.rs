//! The caches of the notifier, and the objects that each change enqueues.
//!
//! | watched | stored | enqueues |
//! |---|---|---|
//! | Alerts, AlertProviders, Receivers | all but metadata that nothing uses | the object, unless only its status has changed; an AlertProvider also the Alerts that name it |
//! | HelmOps, Bundles, Clusters | their state and labels | the Alerts that select the object |
//! | Secrets | nothing: only metadata is watched | the AlertProviders and Receivers that name them |

mod kept;
pub mod objects;
mod secrets;

use std::{future::ready, sync::Arc};

use futures::{
    Stream, StreamExt,
    stream::{self, BoxStream},
};
use helmops_api::{Alert, AlertProvider, Decoded, Receiver, weight::Weight};
use helmops_kube::{Change, ObjectCache, ObservedVersion, identity, key, without_errors};
use helmops_notify::source::Privileged;
use helmops_runtime::store_budget::{StoreBudget, budgeted};
use k8s_openapi::{NamespaceResourceScope, api::core::v1::Secret};
use kube::{
    Api, Client, Resource,
    runtime::{reflector::ObjectRef, watcher},
};
use serde::de::DeserializeOwned;
use tokio::sync::oneshot;

use self::kept::{Kept, PAGE, stored};
pub use self::objects::Objects;
use crate::work::{AlertKey, Work};

/// The caches: the last observed state of each object.
#[derive(Clone, Debug)]
pub struct Stores {
    pub alerts: ObjectCache<Decoded<Alert>>,
    pub providers: ObjectCache<Decoded<AlertProvider>>,
    pub receivers: ObjectCache<Decoded<Receiver>>,
    pub objects: Objects,
    /// The memory budget of all of them.
    pub budget: StoreBudget,
}

/// The events of all watches.
pub struct Watches {
    /// Alerts, AlertProviders and Receivers that have changed.
    pub changes: BoxStream<'static, Work>,
    /// Alerts that select an object that has changed.
    pub states: BoxStream<'static, Work>,
    /// Objects that a changed Secret affects: the change may fix their last error.
    pub secret_changes: BoxStream<'static, Work>,
    /// Resolves when the watch of Secrets is synced.
    pub secrets_synced: oneshot::Receiver<()>,
}

impl Stores {
    /// Empty caches, which the watches fill as far as the budget allows.
    pub fn new(budget: StoreBudget) -> Self {
        Self {
            budget,
            alerts: ObjectCache::ignoring_older(|alert, known| {
                ObservedVersion::of(alert.meta()).is_older(&ObservedVersion::of(known.meta()))
            }),
            providers: ObjectCache::new(),
            receivers: ObjectCache::new(),
            objects: Objects::default(),
        }
    }

    /// Waits until all watches have completed their first list, or their resources are known not to exist.
    pub async fn wait_until_filled(&self) {
        self.alerts.wait_until_synced().await;
        self.providers.wait_until_synced().await;
        self.receivers.wait_until_synced().await;
        self.objects.wait_until_synced().await;
    }

    /// The Alerts that name an AlertProvider.
    pub fn alerts_of(&self, namespace: &str, provider: &str) -> Vec<AlertKey> {
        self.alerts.read(|alerts, ()| {
            let alerts = alerts.in_namespace(namespace);
            let names = |alert: &Decoded<Alert>| {
                alert
                    .valid()
                    .is_some_and(|alert| alert.spec.provider_ref.name == provider)
            };
            alerts
                .filter(|(_, alert)| names(alert))
                .map(|(name, _)| key(&name.namespace, &name.name))
                .collect()
        })
    }
}

/// Starts the watches of all resources.
pub fn watch(client: &Client, stores: &Stores, privileged: &Privileged) -> Watches {
    let (synced, secrets_synced) = oneshot::channel();
    let secrets = Api::all(client.clone());
    Watches {
        changes: stream::select_all([
            follow(client, stores, &stores.alerts).map(Work::Alert).boxed(),
            providers(client, stores).boxed(),
            follow_if(client, stores, &stores.receivers, has_new_push)
                .map(Work::Receiver)
                .boxed(),
        ])
        .boxed(),
        states: objects::watch(client, stores, privileged),
        secret_changes: secrets::of_secrets(secrets, synced, stores.clone()).boxed(),
        secrets_synced,
    }
}

/// A changed AlertProvider enqueues itself and the Alerts that name it.
fn providers(client: &Client, stores: &Stores) -> impl Stream<Item = Work> + Send + use<> {
    let alerts = stores.clone();
    follow(client, stores, &stores.providers).flat_map(move |provider| {
        let namespace = provider.namespace.as_deref().unwrap_or_default();
        let alerts = alerts.alerts_of(namespace, &provider.name);
        let alerts = alerts.into_iter().map(Work::Alert);
        stream::iter(
            std::iter::once(Work::Provider(provider))
                .chain(alerts)
                .collect::<Vec<_>>(),
        )
    })
}

/// Whether the other process has recorded a push.
fn has_new_push(before: &Receiver, after: &Receiver) -> bool {
    let last = |receiver: &Receiver| {
        let pushes = receiver.status.iter().flat_map(|status| &status.pushes);
        pushes.map(|push| push.number).max()
    };
    last(after) > last(before)
}

/// Fills a cache from a watch of all namespaces, and returns the objects whose spec has changed.
fn follow<K>(
    client: &Client,
    stores: &Stores,
    cache: &ObjectCache<Decoded<K>>,
) -> impl Stream<Item = ObjectRef<Decoded<K>>> + Send + use<K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Weight
        + Clone
        + DeserializeOwned
        + std::fmt::Debug
        + Send
        + Sync
        + 'static,
{
    follow_if(client, stores, cache, |_, _| false)
}

/// The same, also for objects that have changed in another way.
fn follow_if<K>(
    client: &Client,
    stores: &Stores,
    cache: &ObjectCache<Decoded<K>>,
    has_changed: fn(&K, &K) -> bool,
) -> impl Stream<Item = ObjectRef<Decoded<K>>> + Send + use<K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Weight
        + Clone
        + DeserializeOwned
        + std::fmt::Debug
        + Send
        + Sync
        + 'static,
{
    let api = Api::<Kept<K, _>>::all(client.clone());
    let config = watcher::Config::default().page_size(PAGE);
    let events = without_errors(&K::kind(&()), budgeted(api, config, &stores.budget, |_| ()));
    cache
        .follow(vec![(None, events)], |object| Some(stored(object)))
        .flat_map(stream::iter)
        .filter(move |change| ready(is_relevant(change, has_changed)))
        .map(|change| key(&change.name.namespace, &change.name.name))
}

/// Whether a change concerns more than the status, which the notifier itself writes: also whether the object is stored.
fn is_relevant<K: Resource<DynamicType = ()> + Clone>(
    change: &Change<Arc<Decoded<K>>>,
    has_changed: fn(&K, &K) -> bool,
) -> bool {
    let valid = |object: &'_ Option<Arc<Decoded<K>>>| object.as_ref()?.valid().cloned();
    let has_changed = match (valid(&change.before), valid(&change.after)) {
        (Some(before), Some(after)) => has_changed(&before, &after),
        _ => false,
    };
    has_changed || change.differs(|object| (identity(object.meta()), object.valid().is_some()))
}

/// The kind of Secrets whose metadata is watched.
type SecretMetadata = helmops_api::MetadataOnly<Secret>;

#[cfg(test)]
mod tests {
    use helmops_api::{NamespacedName, Unusable};
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_is_reconciled_when_it_is_stored_again() {
        let object = json!({ "metadata": { "name": "x", "generation": 1 }, "spec": {} }).to_string();
        let stored: Decoded<Alert> = serde_json::from_str(&object).unwrap();
        let refused = Decoded::without_content(stored.meta(), Unusable::NotStored(String::new()));
        let [stored, refused] = [stored, refused].map(|object| Some(Arc::new(object)));
        let change = |before: &Option<_>, after: &Option<_>| {
            let change = Change {
                name: NamespacedName::new("", "x"),
                before: before.clone(),
                after: after.clone(),
            };
            is_relevant(&change, |_, _| false)
        };
        assert!(change(&refused, &stored) && change(&stored, &refused));
        assert!(!change(&stored, &stored) && !change(&refused, &refused));
    }
}
