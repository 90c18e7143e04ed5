//! The caches of ClusterRegistrations and ClusterRegistrationTokens.

use std::{future::ready, sync::Arc};

use futures::{
    Stream, StreamExt,
    stream::{self, BoxStream},
};
use helmops_api::{Cluster, ClusterRegistration, ClusterRegistrationToken, Decoded, NamespacedName, labels};
use helmops_core::{agents::Registration, registration::registration_of};
use helmops_kube::{Change, Fold, Index, ObjectCache, empty_if_absent, key, without_errors};
use helmops_runtime::store_budget::{StoreBudget, budgeted, shorten};
use kube::{Api, Client, Resource, runtime::watcher};

use super::change_filter::is_relevant;
use crate::{registration::RegistrationOptions, work::Work};

/// The tokens and requests of all workspaces, as last observed. Clones share them.
#[derive(Clone)]
pub struct Registrations {
    pub requests: ObjectCache<Decoded<ClusterRegistration>, ByCluster>,
    pub tokens: ObjectCache<Decoded<ClusterRegistrationToken>>,
    pub options: RegistrationOptions,
}

impl Registrations {
    pub fn new(options: RegistrationOptions) -> Self {
        Self {
            requests: ObjectCache::new(),
            tokens: ObjectCache::new(),
            options,
        }
    }

    pub async fn wait_until_synced(&self) {
        self.requests.wait_until_synced().await;
        self.tokens.wait_until_synced().await;
    }

    /// The registrations of a Cluster whose agents have accounts that this controller keeps. Only controllers write the status, and only this
    /// one makes accounts for what has its mark.
    pub fn of_cluster(&self, cluster: &Cluster) -> Vec<Registration> {
        let name = NamespacedName::of(&cluster.metadata);
        let uid = cluster.metadata.uid.as_deref().unwrap_or_default();
        let is_of = |request: &ClusterRegistration| {
            let mut owners = request.metadata.owner_references.iter().flatten();
            request.metadata.deletion_timestamp.is_none()
                && labels::annotation(&request.metadata, labels::REGISTERED) == Some("true")
                && owners.any(|owner| owner.uid == uid)
        };
        let names: Vec<_> = self
            .requests
            .read(|_, by_cluster| by_cluster.0.get(&name).cloned().collect());
        let found = names.iter().filter_map(|name| self.requests.value(name));
        found
            .filter_map(|request| {
                request
                    .valid()
                    .filter(|request| is_of(request))
                    .map(registration_of)
            })
            .collect()
    }

    /// Starts the watches, and returns what each change affects.
    pub fn watch(&self, client: &Client, budget: &StoreBudget) -> BoxStream<'static, Work> {
        let requests = events::<ClusterRegistration>(client, budget, slim);
        let requests = self
            .requests
            .follow(vec![(None, requests)], |request| Some(Arc::new(request)))
            .flat_map(|changes| {
                stream::iter(
                    changes
                        .into_iter()
                        .filter(is_relevant)
                        .flat_map(|change| affected(&change)),
                )
            });
        let tokens = events::<ClusterRegistrationToken>(client, budget, shorten);
        let tokens = self
            .tokens
            .follow(vec![(None, tokens)], |token| Some(Arc::new(token)))
            .flat_map(stream::iter)
            .filter(|change| ready(is_relevant(change)))
            .map(|change| Work::Token(key(&change.name.namespace, &change.name.name)));
        stream::select_all([requests.boxed(), tokens.boxed()]).boxed()
    }
}

fn events<K>(
    client: &Client,
    budget: &StoreBudget,
    slim: fn(&mut Decoded<K>),
) -> impl Stream<Item = watcher::Event<Decoded<K>>> + Send + use<K>
where
    K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
        + helmops_api::weight::Weight
        + Clone
        + std::fmt::Debug
        + serde::de::DeserializeOwned
        + Send
        + Sync
        + 'static,
{
    let kind = K::kind(&());
    let events = budgeted(Api::all(client.clone()), watcher::Config::default(), budget, slim);
    without_errors(
        &kind,
        empty_if_absent(&kind, "no cluster can register itself", events),
    )
}

/// Keeps of a request what the accounts of agents follow from. What is granted is decided on what was just read.
fn slim(request: &mut Decoded<ClusterRegistration>) {
    shorten(request);
    if let Decoded::Valid(request) = request {
        Arc::make_mut(request).spec = helmops_api::cluster_registration::ClusterRegistrationSpec::default();
    }
}

/// The workspace of a request, and the Cluster whose agent it is for.
fn affected(change: &Change<Arc<Decoded<ClusterRegistration>>>) -> Vec<Work> {
    let workspace = change.name.namespace.clone();
    let mut affected: Vec<_> = [&change.before, &change.after]
        .into_iter()
        .flatten()
        .filter_map(|request| cluster(request))
        .map(|cluster| Work::Cluster(key(&cluster.namespace, &cluster.name)))
        .collect();
    affected.dedup();
    affected.push(Work::Registrations(workspace));
    affected
}

/// The Cluster that the status of a request names.
fn cluster(request: &Decoded<ClusterRegistration>) -> Option<NamespacedName> {
    let request = request.valid()?;
    let (namespace, name) = (
        request.metadata.namespace.clone()?,
        request.status.cluster_name.clone(),
    );
    (!name.is_empty()).then_some(NamespacedName { namespace, name })
}

/// The requests by the Cluster that their status names.
#[derive(Debug, Default)]
pub struct ByCluster(Index<NamespacedName>);

impl Fold<Arc<Decoded<ClusterRegistration>>> for ByCluster {
    fn apply(&mut self, change: &Change<Arc<Decoded<ClusterRegistration>>>) {
        let of = |request: &Option<Arc<Decoded<ClusterRegistration>>>| {
            request.as_ref().and_then(|request| cluster(request))
        };
        self.0.change(&change.name, of(&change.before), of(&change.after));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn request(name: &str, over: &Value) -> Value {
        let owner = json!({ "apiVersion": "v1", "kind": "Cluster", "name": "c", "uid": "u-c" });
        let mut object = json!({
            "metadata": {
                "namespace": "w", "name": name, "uid": format!("u-{name}"), "ownerReferences": [owner],
                "annotations": { labels::REGISTERED: "true" },
            },
            "status": { "clusterName": "c" },
        });
        json_patch::merge(&mut object, over);
        object
    }

    fn found(requests: &[Value]) -> Vec<String> {
        let mut registrations = Registrations::new(RegistrationOptions::default());
        let requests = requests.iter();
        registrations.requests = requests
            .map(|object| serde_json::from_str::<Decoded<ClusterRegistration>>(&object.to_string()).unwrap())
            .collect();
        let cluster = json!({ "metadata": { "namespace": "w", "name": "c", "uid": "u-c" } });
        let cluster: Cluster = serde_json::from_value(cluster).unwrap();
        let found = registrations.of_cluster(&cluster).into_iter();
        found.map(|registration| registration.name.name).collect()
    }

    /// An author chooses everything but the status.
    #[test]
    fn a_cluster_has_the_registrations_that_this_controller_has_accepted_for_it() {
        assert_eq!(
            found(&[request("a", &json!({})), request("b", &json!({}))]),
            ["a", "b"]
        );
        for other in [
            json!({ "status": { "clusterName": null } }),
            json!({ "status": { "clusterName": "d" } }),
            json!({ "metadata": { "annotations": null } }),
            json!({ "metadata": { "ownerReferences": null } }),
            json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } }),
            json!({ "metadata": { "namespace": "v" } }),
        ] {
            assert_eq!(found(&[request("a", &other)]), [""; 0], "{other}");
        }
    }

    #[test]
    fn a_change_affects_the_workspace_and_the_clusters_before_and_after() {
        let decoded = |over: &Value| {
            let object = request("a", over).to_string();
            Some(Arc::new(
                serde_json::from_str::<Decoded<ClusterRegistration>>(&object).unwrap(),
            ))
        };
        let change = Change {
            name: NamespacedName::new("w", "a"),
            before: decoded(&json!({})),
            after: decoded(&json!({ "status": { "clusterName": "d" } })),
        };
        let expected = [
            Work::Cluster(key("w", "c")),
            Work::Cluster(key("w", "d")),
            Work::Registrations("w".to_owned()),
        ];
        assert_eq!(affected(&change), expected);
    }
}
