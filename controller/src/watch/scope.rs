//! Which objects the controller looks at.

use std::fmt;

use futures::{Stream, StreamExt, TryStreamExt, stream::BoxStream};
use helmops_shared::{
    api::{Decoded, NamespacedName, labels},
    runtime::{exit::with_causes, kube_client::backoff_without_init},
};
use kube::{
    Api, Client, Resource,
    api::ListParams,
    core::NamespaceResourceScope,
    runtime::{WatchStreamExt, watcher},
};
use serde::de::DeserializeOwned;

use super::{
    budget::{StoreBudget, charged},
    merged::merged,
    weight::Weight,
};
use crate::client::bounded;

/// Objects per page of a list. An object can be 1.5 MB, and a page is in memory three times while it is decoded: this many
/// fit into the memory that the manifests give to the controller.
const PAGE: u32 = 32;

/// Which HelmOps the controller works on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    /// Those in these namespaces; empty for all namespaces.
    pub namespaces: Vec<String>,
    /// Those whose label names this shard; empty for those without the label.
    pub shard: String,
}

impl Scope {
    /// Whether it is the whole cluster.
    pub fn is_cluster(&self) -> bool {
        self.namespaces.is_empty()
    }

    /// Whether it includes a namespace.
    pub fn has(&self, namespace: &str) -> bool {
        self.is_cluster() || self.namespaces.iter().any(|one| one == namespace)
    }

    /// What to watch of HelmOps.
    pub fn of_shard(&self) -> watcher::Config {
        let selector = if self.shard.is_empty() {
            format!("!{}", labels::SHARD)
        } else {
            format!("{}={}", labels::SHARD, self.shard)
        };
        watcher::Config::default().labels(&selector)
    }

    /// An API for each namespace, or one for all of them.
    pub fn apis<K>(&self, client: &Client) -> Vec<(String, Api<K>)>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        if self.is_cluster() {
            return vec![(String::new(), Api::all(client.clone()))];
        }
        self.namespaces
            .iter()
            .map(|namespace| (namespace.clone(), Api::namespaced(client.clone(), namespace)))
            .collect()
    }

    /// Watches objects of a kind in all namespaces of the scope, as if they were one: `watch` watches what an API serves.
    pub fn watch<K, S>(
        &self,
        client: &Client,
        watch: impl Fn(Api<Decoded<K>>) -> S,
    ) -> BoxStream<'static, watcher::Result<watcher::Event<Decoded<K>>>>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Send + Sync + 'static,
        S: Stream<Item = watcher::Result<watcher::Event<Decoded<K>>>> + Send + 'static,
    {
        let mut apis = self.apis::<Decoded<K>>(client);
        match apis.pop() {
            Some((_, only)) if apis.is_empty() => watch(only).default_backoff().boxed(),
            last => {
                let watches = apis.into_iter().chain(last);
                merged(
                    watches
                        .map(|(namespace, api)| (namespace, backoff_without_init(watch(api))))
                        .collect(),
                )
                .boxed()
            }
        }
    }
}

/// A watch that shows objects as far as the budget allows. `slim` takes away what is not stored of them.
pub fn budgeted<K>(
    client: &Client,
    api: Api<Decoded<K>>,
    config: &watcher::Config,
    budget: &StoreBudget,
    slim: fn(&mut Decoded<K>),
) -> impl Stream<Item = watcher::Result<watcher::Event<Decoded<K>>>> + Send + use<K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Weight
        + Clone
        + fmt::Debug
        + DeserializeOwned
        + Send
        + Sync
        + 'static,
{
    let events = watcher(api, paged(config.clone())).map_ok(move |event| event.modify(slim));
    let (client, selector) = (client.clone(), config.label_selector.clone());
    charged(events, budget.clone(), move |name| {
        let read = read(client.clone(), selector.clone(), name);
        async move {
            let mut object = read.await?;
            slim(&mut object);
            Some(object)
        }
    })
}

/// Reads an object that a watch has shown, if it would still show it.
async fn read<K>(client: Client, selector: Option<String>, name: NamespacedName) -> Option<Decoded<K>>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + fmt::Debug + DeserializeOwned,
{
    let api = Api::<Decoded<K>>::namespaced(client, &name.namespace);
    // A list, since who may watch a kind may list it, and need not be allowed to get one.
    let mut one = ListParams::default().fields(&format!("metadata.name={}", name.name));
    one.label_selector = selector;
    match bounded(api.list(&one)).await {
        Ok(list) => list.items.into_iter().next(),
        Err(error) => {
            let error = with_causes(&error);
            tracing::warn!(kind = %K::kind(&()), namespace = name.namespace, name = name.name, error, "failed to read an object again");
            None
        }
    }
}

/// Lists page by page.
pub fn paged(config: watcher::Config) -> watcher::Config {
    config.page_size(PAGE)
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.is_cluster(), &*self.shard) {
            (true, "") => f.write_str("all namespaces"),
            (true, shard) => write!(f, "shard {shard} in all namespaces"),
            (false, "") => write!(f, "namespaces {}", self.namespaces.join(", ")),
            (false, shard) => write!(f, "shard {shard} in namespaces {}", self.namespaces.join(", ")),
        }
    }
}

/// What a watch of a kind tells, without its failures: they are told in the log.
pub fn log_errors<K: Resource<DynamicType = ()>, T>(
    changes: impl Stream<Item = watcher::Result<T>>,
) -> impl Stream<Item = T> {
    changes.filter_map(|change| async {
        match change {
            Ok(told) => Some(told),
            Err(error) => {
                tracing::warn!(kind = %K::kind(&()), error = with_causes(&error), "watch failed; restarting");
                None
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope(namespaces: &[&str], shard: &str) -> Scope {
        Scope {
            namespaces: namespaces.iter().map(|&namespace| namespace.to_owned()).collect(),
            shard: shard.to_owned(),
        }
    }

    #[test]
    fn a_shard_is_named_by_a_label() {
        let selector = |shard| scope(&[], shard).of_shard().label_selector;
        assert_eq!(selector("").as_deref(), Some("!fleet.cattle.io/shard-ref"));
        assert_eq!(selector("b").as_deref(), Some("fleet.cattle.io/shard-ref=b"));
    }

    #[test]
    fn no_namespace_is_all_of_them() {
        assert!(scope(&[], "").has("a"));
        assert!(scope(&["a"], "").has("a"));
        assert!(!scope(&["a"], "").has("b"));
    }
}
