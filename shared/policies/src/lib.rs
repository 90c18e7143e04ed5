//! A cache of the Policies of all namespaces, filled by a watch, so that reading them needs no request.

#![warn(missing_docs)]

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use futures::{Stream, StreamExt, stream};
use helmops_api::{Decoded, NamespacedName, Policy};
use helmops_core::policy::Policies;
use helmops_kube::{Cache, Change, Presence, empty_if_absent, watch_results, without_errors};
use kube::{
    Api, Client, Resource,
    runtime::watcher::{self, Event},
};
use tokio::sync::watch;

/// The Policies as last observed. Clones share one cache.
///
/// It is not synced at first. After the first complete list it stays synced: while the API server is unavailable, it keeps the
/// last state. If the CRD of Policies is not installed, it is synced and empty.
#[derive(Clone, Debug)]
pub struct PolicyCache {
    /// The Policies of each namespace that has any; `None` until the cache is synced.
    namespaces: watch::Sender<Option<HashMap<String, Arc<Policies>>>>,
    empty: Arc<Policies>,
}

/// What a change of Policies affects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PolicyChange {
    /// Everything: the cache is synced.
    All,
    /// The HelmOps of this namespace.
    Namespace(String),
}

impl Default for PolicyCache {
    fn default() -> Self {
        Self {
            namespaces: watch::Sender::new(None),
            empty: Arc::default(),
        }
    }
}

impl FromIterator<Decoded<Policy>> for PolicyCache {
    /// A synced cache with these Policies.
    fn from_iter<I: IntoIterator<Item = Decoded<Policy>>>(all: I) -> Self {
        let (cache, policies) = (Self::default(), Cache::<Decoded<Policy>>::new());
        for policy in all {
            let name = NamespacedName::of(policy.meta());
            policies.apply(0, Event::InitApply((name, Some(policy))));
        }
        let changes = policies.apply(0, Event::InitDone);
        cache.publish(&policies, &changes);
        cache
    }
}

impl PolicyCache {
    /// The combined Policies of a namespace; `None` until the cache is synced.
    pub fn of(&self, namespace: &str) -> Option<Arc<Policies>> {
        let namespaces = self.namespaces.borrow();
        let policies = namespaces.as_ref()?.get(namespace);
        Some(Arc::clone(policies.unwrap_or(&self.empty)))
    }

    /// Waits until the cache is synced.
    pub async fn wait_until_synced(&self) {
        // It fails only if every sender is dropped, and `self` has one.
        let _ = self.namespaces.subscribe().wait_for(Option::is_some).await;
    }

    /// Watches Policies while the stream is polled. The stream has each change, after the cache is updated.
    pub fn watch(&self, client: &Client) -> impl Stream<Item = PolicyChange> + Send + use<> {
        let api = Api::<Decoded<Policy>>::all(client.clone());
        self.follow(vec![(None, watch_results(api, watcher::Config::default()))])
    }

    /// As [`Self::watch`], with other watches, each given with its namespace.
    pub fn follow<S>(
        &self,
        watches: Vec<(Option<String>, S)>,
    ) -> impl Stream<Item = PolicyChange> + Send + use<S>
    where
        S: Stream<Item = watcher::Result<Event<Decoded<Policy>>>> + Send + 'static,
    {
        let (cache, policies) = (self.clone(), Cache::<Decoded<Policy>>::new());
        let kind = Policy::kind(&());
        let watches = watches.into_iter().map(|(namespace, events)| {
            let events = empty_if_absent(&kind, "so nothing is restricted", events);
            (namespace, without_errors(&kind, events))
        });
        let changes = policies.follow(watches.collect(), Some);
        changes.flat_map(move |changes| stream::iter(cache.publish(&policies, &changes)))
    }

    /// Updates the combined Policies of the namespaces that changes affect, from all Policies.
    fn publish(
        &self,
        policies: &Cache<Decoded<Policy>>,
        changes: &[Change<Decoded<Policy>>],
    ) -> Vec<PolicyChange> {
        if policies.presence() == Presence::Unknown {
            return Vec::new();
        }
        let is_first = self.namespaces.borrow().is_none();
        let affected = changes.iter().filter(|change| is_changed(change));
        let affected: BTreeSet<_> = affected.map(|change| change.name.namespace.clone()).collect();
        if affected.is_empty() && !is_first {
            return Vec::new();
        }
        // Combined here, so that readers of the cache do not wait for it.
        let combined: Vec<_> = affected
            .iter()
            .map(|namespace| combined(policies, namespace))
            .collect();
        self.namespaces.send_modify(|namespaces| {
            let namespaces = namespaces.get_or_insert_default();
            for (namespace, policies) in affected.iter().zip(combined) {
                match policies {
                    Some(policies) => namespaces.insert(namespace.clone(), policies),
                    None => namespaces.remove(namespace),
                };
            }
        });
        if is_first {
            tracing::info!(namespaces = affected.len(), "Policy cache synced");
            vec![PolicyChange::All]
        } else {
            tracing::info!(namespaces = ?affected, "Policies affected");
            affected.into_iter().map(PolicyChange::Namespace).collect()
        }
    }
}

/// Whether a Policy has changed: each write gets a new resource version.
fn is_changed(change: &Change<Decoded<Policy>>) -> bool {
    let version = |policy: &Option<Decoded<Policy>>| {
        let metadata = policy.as_ref()?.meta();
        Some((metadata.uid.clone(), metadata.resource_version.clone()))
    };
    version(&change.before) != version(&change.after)
}

/// The combined Policies of a namespace; `None` if it has none.
fn combined(policies: &Cache<Decoded<Policy>>, namespace: &str) -> Option<Arc<Policies>> {
    let policies: Vec<_> = policies.read(|policies, ()| {
        let found = policies.in_namespace(namespace);
        found.map(|(_, policy)| policy.clone()).collect()
    });
    (!policies.is_empty()).then(|| Arc::new(Policies::of_watched(policies.iter())))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures::{FutureExt, channel::mpsc, stream::BoxStream};
    use http::{Request, Response};
    use kube::{client::Body, core::Status};
    use serde_json::{Value, json};
    use watcher::Error;

    use super::*;
    use helmops_api::HelmOp;

    /// The events of a watch, and the changes that the cache makes of them.
    struct Followed {
        events: mpsc::UnboundedSender<watcher::Result<Event<Decoded<Policy>>>>,
        changes: BoxStream<'static, PolicyChange>,
    }

    impl Followed {
        fn apply(&mut self, event: watcher::Result<Event<Decoded<Policy>>>) -> Vec<PolicyChange> {
            self.events.unbounded_send(event).unwrap();
            std::iter::from_fn(|| self.changes.next().now_or_never().flatten()).collect()
        }
    }

    fn followed() -> (Followed, PolicyCache) {
        let cache = PolicyCache::default();
        let (events, receiver) = mpsc::unbounded();
        let changes = cache.follow(vec![(None, receiver)]).boxed();
        (Followed { events, changes }, cache)
    }

    fn policy(namespace: &str, fields: Value) -> Decoded<Policy> {
        policy_named(namespace, "p", fields)
    }

    #[expect(clippy::needless_pass_by_value, reason = "it is always called with json!")]
    fn policy_named(namespace: &str, name: &str, fields: Value) -> Decoded<Policy> {
        static VERSION: AtomicUsize = AtomicUsize::new(1);
        let version = VERSION.fetch_add(1, Ordering::Relaxed).to_string();
        let mut policy =
            json!({ "metadata": { "namespace": namespace, "name": name, "resourceVersion": version } });
        json_patch::merge(&mut policy, &fields);
        serde_json::from_str(&policy.to_string()).unwrap()
    }

    fn error_with(status: u16) -> Error {
        let status = Status::failure("why", "reason").with_code(status).boxed();
        Error::InitialListFailed(kube::Error::Api(status))
    }

    /// The errors for a HelmOp without a ServiceAccount in a namespace; `None` while the cache is not synced.
    fn errors_in(cache: &PolicyCache, namespace: &str) -> Option<String> {
        let helm = json!({ "repo": "https://charts.example.com", "chart": "web", "version": "1.2.3" });
        let helmop =
            json!({ "metadata": { "name": "web", "namespace": namespace }, "spec": { "helm": helm } });
        let helmop: HelmOp = serde_json::from_str(&helmop.to_string()).unwrap();
        Some(cache.of(namespace)?.validate(&helmop).to_string())
    }

    fn change_in(namespace: &str) -> Vec<PolicyChange> {
        vec![PolicyChange::Namespace(namespace.to_owned())]
    }

    #[test]
    fn the_cache_is_synced_after_the_first_complete_list() {
        let (mut watch, cache) = followed();
        let strict = policy("a", json!({ "requireServiceAccount": true }));
        assert_eq!(errors_in(&cache, "a"), None);
        assert_eq!(watch.apply(Ok(Event::InitApply(strict.clone()))), []);
        assert_eq!(errors_in(&cache, "a"), None, "the list is not complete");
        assert_eq!(watch.apply(Ok(Event::InitDone)), [PolicyChange::All]);
        assert!(
            errors_in(&cache, "a")
                .unwrap()
                .contains("serviceAccount is required")
        );
        assert_eq!(errors_in(&cache, "b").unwrap(), "");

        assert_eq!(watch.apply(Ok(Event::Delete(strict.clone()))), change_in("a"));
        assert_eq!(errors_in(&cache, "a").unwrap(), "");
        let other = policy("b", json!({ "requireServiceAccount": true }));
        assert_eq!(watch.apply(Ok(Event::Apply(other))), change_in("b"));
        assert!(
            errors_in(&cache, "b")
                .unwrap()
                .contains("serviceAccount is required")
        );
    }

    #[test]
    fn nothing_is_restricted_until_the_crd_is_installed() {
        let (mut watch, cache) = followed();
        assert_eq!(watch.apply(Err(error_with(404))), [PolicyChange::All]);
        assert_eq!(errors_in(&cache, "a").unwrap(), "");
        assert_eq!(watch.apply(Err(error_with(404))), []);
        let strict = policy("a", json!({ "requireServiceAccount": true }));
        assert_eq!(watch.apply(Ok(Event::InitApply(strict))), []);
        assert_eq!(watch.apply(Ok(Event::InitDone)), change_in("a"));
        assert!(
            errors_in(&cache, "a")
                .unwrap()
                .contains("serviceAccount is required")
        );
        assert_eq!(
            watch.apply(Err(error_with(404))),
            change_in("a"),
            "the CRD is deleted"
        );
        assert_eq!(errors_in(&cache, "a").unwrap(), "");
    }

    #[test]
    fn a_list_changes_only_namespaces_with_new_changed_or_deleted_policies() {
        let (mut watch, cache) = followed();
        let mut list = |policies: Vec<Decoded<Policy>>| {
            for policy in policies {
                assert_eq!(watch.apply(Ok(Event::InitApply(policy))), []);
            }
            watch.apply(Ok(Event::InitDone))
        };
        let [a, b, c] = ["a", "b", "c"].map(|namespace| policy(namespace, json!({})));
        assert_eq!(list(vec![a.clone(), b.clone(), c.clone()]), [PolicyChange::All]);
        assert_eq!(list(vec![c, a.clone(), b]), []);
        let changed = list(vec![a, policy("b", json!({})), policy("d", json!({}))]);
        let expected = ["b", "c", "d"].map(|namespace| PolicyChange::Namespace(namespace.to_owned()));
        assert_eq!(changed, expected);
        assert!(cache.of("c").is_some(), "no Policies restrict it");
    }

    #[test]
    fn all_policies_of_a_namespace_apply() {
        let (mut watch, cache) = followed();
        let strict = policy_named("a", "strict", json!({ "requireServiceAccount": true }));
        watch.apply(Ok(Event::InitApply(strict.clone())));
        watch.apply(Ok(Event::InitDone));
        let is_restricted = || !errors_in(&cache, "a").unwrap().is_empty();
        let other = policy_named("a", "other", json!({}));
        assert_eq!(watch.apply(Ok(Event::Apply(other.clone()))), change_in("a"));
        assert!(is_restricted());
        assert_eq!(watch.apply(Ok(Event::Delete(strict))), change_in("a"));
        assert!(!is_restricted());
        assert_eq!(watch.apply(Ok(Event::Delete(other))), change_in("a"));
    }

    #[test]
    fn the_cache_is_synced_when_every_namespace_is_listed() {
        let cache = PolicyCache::default();
        let (events, receivers): (Vec<_>, Vec<_>) = ["a", "b"]
            .map(|namespace| {
                let (events, receiver) = mpsc::unbounded();
                (events, (Some(namespace.to_owned()), receiver))
            })
            .into_iter()
            .unzip();
        let mut changes = cache.follow(receivers).boxed();
        let mut apply = |watch: usize, event| {
            events[watch].unbounded_send(event).unwrap();
            std::iter::from_fn(|| changes.next().now_or_never().flatten()).collect::<Vec<_>>()
        };
        let strict = policy("a", json!({ "requireServiceAccount": true }));
        assert_eq!(apply(0, Ok(Event::InitApply(strict))), []);
        assert_eq!(apply(0, Ok(Event::InitDone)), []);
        assert_eq!(errors_in(&cache, "a"), None);
        assert_eq!(apply(1, Ok(Event::InitDone)), [PolicyChange::All]);
        assert!(!errors_in(&cache, "a").unwrap().is_empty());
        // A failure of one watch does not affect the other.
        let other = policy("a", json!({}));
        assert_eq!(apply(0, Ok(Event::InitApply(other))), []);
        assert_eq!(apply(1, Err(error_with(503))), []);
        assert_eq!(apply(0, Ok(Event::InitDone)), change_in("a"));
    }

    #[test]
    fn an_unavailable_api_server_changes_nothing() {
        let (mut watch, cache) = followed();
        for status in [401, 403, 500, 503] {
            assert_eq!(watch.apply(Err(error_with(status))), []);
            assert_eq!(errors_in(&cache, "a"), None, "{status}");
        }
        let strict = policy("a", json!({ "requireServiceAccount": true }));
        watch.apply(Ok(Event::InitApply(strict.clone())));
        watch.apply(Ok(Event::InitDone));
        watch.apply(Err(error_with(503)));
        assert!(
            errors_in(&cache, "a")
                .unwrap()
                .contains("serviceAccount is required")
        );
        // The list starts again, without the events before the failure.
        watch.apply(Ok(Event::InitApply(policy("b", json!({})))));
        watch.apply(Err(error_with(503)));
        watch.apply(Ok(Event::InitApply(strict)));
        assert_eq!(watch.apply(Ok(Event::InitDone)), []);
    }

    #[test]
    fn an_invalid_policy_blocks_only_its_own_namespace() {
        let (mut watch, cache) = followed();
        let invalid = policy("a", json!({ "requireServiceAccount": "perhaps" }));
        watch.apply(Ok(Event::InitApply(invalid)));
        watch.apply(Ok(Event::InitDone));
        let errors = errors_in(&cache, "a").unwrap();
        assert!(
            errors.starts_with(
                "metadata.namespace: Forbidden: \"a\": Policy \"p\" of this namespace does not decode: "
            ) && errors.contains("requireServiceAccount")
                && errors.contains("\"perhaps\""),
            "{errors}"
        );
        assert_eq!(errors_in(&cache, "b").unwrap(), "");
        watch.apply(Ok(Event::Apply(policy("a", json!({})))));
        assert_eq!(errors_in(&cache, "a").unwrap(), "", "the Policy is fixed");
    }

    /// Each list that fails starts with an event that is not a failure. It must not reset the backoff.
    #[tokio::test(start_paused = true)]
    async fn requests_back_off_while_the_crd_is_not_installed() {
        let requests = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&requests);
        let absent = tower::service_fn(move |_: Request<Body>| {
            count.fetch_add(1, Ordering::Relaxed);
            let status = json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404,
                "message": "the server could not find the requested resource", "reason": "NotFound" });
            let response = Response::builder()
                .status(404)
                .body(Body::from(status.to_string().into_bytes()));
            std::future::ready(Ok::<_, std::convert::Infallible>(response.unwrap()))
        });
        let cache = PolicyCache::default();
        let changes = cache.watch(&helmops_kube::client_of(absent, "default"));
        let ten_minutes = tokio::time::sleep(std::time::Duration::from_mins(10));
        let changes: Vec<_> = changes.take_until(ten_minutes).collect().await;
        assert_eq!(changes, [PolicyChange::All]);
        assert_eq!(errors_in(&cache, "a").unwrap(), "");
        let requests = requests.load(Ordering::Relaxed);
        assert!((8..=30).contains(&requests), "{requests} requests");
    }

    #[tokio::test]
    async fn waiting_ends_when_the_cache_is_synced() {
        let (mut watch, cache) = followed();
        let mut wait = std::pin::pin!(cache.wait_until_synced());
        assert!(futures::poll!(&mut wait).is_pending());
        watch.apply(Ok(Event::InitDone));
        wait.await;
    }
}
