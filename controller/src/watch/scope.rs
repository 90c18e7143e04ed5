//! The scope of the controller: which namespaces and which shard it watches.

use std::fmt;

use futures::{Stream, StreamExt, stream::BoxStream};
use helmops_api::{Decoded, labels};
use helmops_kube::WatchResult;
use kube::{Api, Client, Resource, core::NamespaceResourceScope, runtime::watcher};

/// The watches of a kind, each with its namespace; `None` for one of all namespaces.
pub type WatchesOf<K> = Vec<(Option<String>, BoxStream<'static, WatchResult<K>>)>;

/// Which HelmOps the controller reconciles.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    /// Only those in these namespaces; empty for all namespaces.
    pub namespaces: Vec<String>,
    /// Only those whose label names this shard; empty for those without the label.
    pub shard: String,
}

impl Scope {
    /// Whether it includes all namespaces.
    pub fn is_cluster_wide(&self) -> bool {
        self.namespaces.is_empty()
    }

    pub fn includes(&self, namespace: &str) -> bool {
        self.is_cluster_wide() || self.namespaces.iter().any(|one| one == namespace)
    }

    /// The watch configuration that selects the objects of the shard.
    pub fn watch_config(&self) -> watcher::Config {
        let selector = if self.shard.is_empty() {
            format!("!{}", labels::SHARD)
        } else {
            format!("{}={}", labels::SHARD, self.shard)
        };
        watcher::Config::default().labels(&selector)
    }

    /// An API for each namespace, or one for all of them.
    pub fn apis<K>(&self, client: &Client) -> Vec<(Option<String>, Api<K>)>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        if self.is_cluster_wide() {
            return vec![(None, Api::all(client.clone()))];
        }
        self.namespaces
            .iter()
            .map(|namespace| {
                (
                    Some(namespace.clone()),
                    Api::namespaced(client.clone(), namespace),
                )
            })
            .collect()
    }

    /// Watches objects of a kind in all namespaces of the scope, with `watch` for each API.
    pub fn watches<K, S>(
        &self,
        client: &Client,
        watch: impl Fn(Api<Decoded<K>>) -> S,
    ) -> WatchesOf<Decoded<K>>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Send + Sync + 'static,
        S: Stream<Item = WatchResult<Decoded<K>>> + Send + 'static,
    {
        let apis = self.apis::<Decoded<K>>(client).into_iter();
        let watches = apis.map(|(namespace, api)| (namespace, watch(api).boxed()));
        watches.collect()
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.is_cluster_wide(), &*self.shard) {
            (true, "") => f.write_str("all namespaces"),
            (true, shard) => write!(f, "shard {shard} in all namespaces"),
            (false, "") => write!(f, "namespaces {}", self.namespaces.join(", ")),
            (false, shard) => write!(f, "shard {shard} in namespaces {}", self.namespaces.join(", ")),
        }
    }
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
    fn a_shard_selects_by_label() {
        let selector = |shard| scope(&[], shard).watch_config().label_selector;
        assert_eq!(selector("").as_deref(), Some("!fleet.cattle.io/shard-ref"));
        assert_eq!(selector("b").as_deref(), Some("fleet.cattle.io/shard-ref=b"));
    }

    #[test]
    fn an_empty_list_includes_all_namespaces() {
        assert!(scope(&[], "").includes("a"));
        assert!(scope(&["a"], "").includes("a"));
        assert!(!scope(&["a"], "").includes("b"));
    }
}
