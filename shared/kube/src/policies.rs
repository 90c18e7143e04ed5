//! A cache of the Policies of all namespaces, filled by a watch, so that reading them needs no request.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use futures::{Stream, StreamExt};
use helmops_api::{Decoded, Policy};
use helmops_core::policy::Policies;
use helmops_process::exit::with_causes;
use kube::{Api, Client, runtime::watcher};
use tokio::sync::watch;

use super::{
    policy_store::PolicyStore,
    watch::{backoff_without_init, is_absent},
};

/// Policies per page of a list, which limits the memory for a response.
const PAGE: u32 = 500;

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
    fn from_iter<I: IntoIterator<Item = Decoded<Policy>>>(policies: I) -> Self {
        let mut updater = CacheUpdater::new(Self::default());
        for policy in policies {
            updater.apply(Ok(watcher::Event::InitApply(policy)));
        }
        updater.apply(Ok(watcher::Event::InitDone));
        updater.cache
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
        self.follow(backoff_without_init(watcher(
            api,
            watcher::Config::default().page_size(PAGE),
        )))
    }

    /// As [`Self::watch`], with the events of another watch.
    pub fn follow<S>(&self, events: S) -> impl Stream<Item = PolicyChange> + Send + use<S>
    where
        S: Stream<Item = watcher::Result<watcher::Event<Decoded<Policy>>>> + Send,
    {
        let mut updater = CacheUpdater::new(self.clone());
        events.flat_map(move |event| futures::stream::iter(updater.apply(event)))
    }
}

/// Applies the events of a watch to a [`PolicyCache`].
struct CacheUpdater {
    cache: PolicyCache,
    store: PolicyStore,
    /// Whether the watch has failed since its last event.
    is_failing: bool,
}

impl CacheUpdater {
    fn new(cache: PolicyCache) -> Self {
        Self {
            cache,
            store: PolicyStore::default(),
            is_failing: false,
        }
    }

    fn apply(&mut self, event: watcher::Result<watcher::Event<Decoded<Policy>>>) -> Vec<PolicyChange> {
        let changed = match event {
            Ok(event) => {
                self.is_failing = false;
                let is_part_of_list = matches!(event, watcher::Event::InitApply(_));
                let changed = self.store.apply(event);
                if is_part_of_list {
                    return Vec::new();
                }
                changed
            }
            Err(error) => {
                let is_absent = is_absent(&error);
                self.log_failure(&error, is_absent);
                if !is_absent {
                    // The list starts again.
                    self.store.apply(watcher::Event::Init);
                    return Vec::new();
                }
                self.store.clear()
            }
        };
        self.publish(changed)
    }

    /// Updates the cache for these namespaces.
    fn publish(&self, changed: BTreeSet<String>) -> Vec<PolicyChange> {
        // Compiled here, so that readers of the cache do not wait for it.
        let compiled: Vec<_> = changed
            .iter()
            .map(|namespace| self.store.policies(namespace).map(Arc::new))
            .collect();
        let mut is_first = false;
        self.cache.namespaces.send_modify(|namespaces| {
            is_first = namespaces.is_none();
            let namespaces = namespaces.get_or_insert_default();
            for (namespace, policies) in changed.iter().zip(compiled) {
                match policies {
                    Some(policies) => namespaces.insert(namespace.clone(), policies),
                    None => namespaces.remove(namespace),
                };
            }
        });
        if is_first {
            tracing::info!(namespaces = changed.len(), "Policy cache synced");
            vec![PolicyChange::All]
        } else {
            if !changed.is_empty() {
                tracing::info!(namespaces = ?changed, "Policies changed");
            }
            changed.into_iter().map(PolicyChange::Namespace).collect()
        }
    }

    /// Logs the first of consecutive failures as a warning, and the next ones only for debugging.
    fn log_failure(&mut self, error: &watcher::Error, is_absent: bool) {
        if std::mem::replace(&mut self.is_failing, true) {
            tracing::debug!(error = with_causes(error), "watch of Policies still fails");
        } else if is_absent {
            tracing::info!("the CRD of Policies is not installed: nothing is restricted");
        } else {
            let is_synced = self.cache.namespaces.borrow().is_some();
            tracing::warn!(
                error = with_causes(error),
                is_synced,
                "watch of Policies failed; restarting"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use http::{Request, Response};
    use kube::{client::Body, core::Status};
    use serde_json::{Value, json};
    use watcher::{Error, Event};

    use super::*;
    use helmops_api::HelmOp;

    fn updater() -> (CacheUpdater, PolicyCache) {
        let cache = PolicyCache::default();
        (CacheUpdater::new(cache.clone()), cache)
    }

    #[expect(clippy::needless_pass_by_value, reason = "it is always called with json!")]
    fn policy(namespace: &str, fields: Value) -> Decoded<Policy> {
        let mut policy =
            json!({ "metadata": { "namespace": namespace, "name": "p", "resourceVersion": "1" } });
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
        let (mut updater, cache) = updater();
        let strict = policy("a", json!({ "requireServiceAccount": true }));
        assert_eq!(errors_in(&cache, "a"), None);
        assert_eq!(updater.apply(Ok(Event::InitApply(strict.clone()))), []);
        assert_eq!(errors_in(&cache, "a"), None, "the list is not complete");
        assert_eq!(updater.apply(Ok(Event::InitDone)), [PolicyChange::All]);
        assert!(
            errors_in(&cache, "a")
                .unwrap()
                .contains("serviceAccount is required")
        );
        assert_eq!(errors_in(&cache, "b").unwrap(), "");

        assert_eq!(updater.apply(Ok(Event::Delete(strict.clone()))), change_in("a"));
        assert_eq!(errors_in(&cache, "a").unwrap(), "");
        let other = policy("b", json!({ "requireServiceAccount": true }));
        assert_eq!(updater.apply(Ok(Event::Apply(other))), change_in("b"));
        assert!(
            errors_in(&cache, "b")
                .unwrap()
                .contains("serviceAccount is required")
        );
    }

    #[test]
    fn nothing_is_restricted_until_the_crd_is_installed() {
        let (mut updater, cache) = updater();
        assert_eq!(updater.apply(Err(error_with(404))), [PolicyChange::All]);
        assert_eq!(errors_in(&cache, "a").unwrap(), "");
        assert_eq!(updater.apply(Err(error_with(404))), []);
        let strict = policy("a", json!({ "requireServiceAccount": true }));
        assert_eq!(updater.apply(Ok(Event::InitApply(strict))), []);
        assert_eq!(updater.apply(Ok(Event::InitDone)), change_in("a"));
        assert!(
            errors_in(&cache, "a")
                .unwrap()
                .contains("serviceAccount is required")
        );
        assert_eq!(
            updater.apply(Err(error_with(404))),
            change_in("a"),
            "the CRD is deleted"
        );
        assert_eq!(errors_in(&cache, "a").unwrap(), "");
    }

    #[test]
    fn an_unavailable_api_server_changes_nothing() {
        let (mut updater, cache) = updater();
        for status in [401, 403, 500, 503] {
            assert_eq!(updater.apply(Err(error_with(status))), []);
            assert_eq!(errors_in(&cache, "a"), None, "{status}");
        }
        let strict = policy("a", json!({ "requireServiceAccount": true }));
        updater.apply(Ok(Event::InitApply(strict.clone())));
        updater.apply(Ok(Event::InitDone));
        updater.apply(Err(error_with(503)));
        assert!(
            errors_in(&cache, "a")
                .unwrap()
                .contains("serviceAccount is required")
        );
        // The list starts again, without the events before the failure.
        updater.apply(Ok(Event::InitApply(policy("b", json!({})))));
        updater.apply(Err(error_with(503)));
        updater.apply(Ok(Event::InitApply(strict)));
        assert_eq!(updater.apply(Ok(Event::InitDone)), []);
    }

    #[test]
    fn an_invalid_policy_blocks_only_its_own_namespace() {
        let (mut updater, cache) = updater();
        let invalid = policy("a", json!({ "requireServiceAccount": "perhaps" }));
        updater.apply(Ok(Event::InitApply(invalid)));
        updater.apply(Ok(Event::InitDone));
        let errors = errors_in(&cache, "a").unwrap();
        assert!(
            errors.starts_with(
                "metadata.namespace: Forbidden: \"a\": Policy \"p\" of this namespace does not decode: "
            ) && errors.contains("requireServiceAccount")
                && errors.contains("\"perhaps\""),
            "{errors}"
        );
        assert_eq!(errors_in(&cache, "b").unwrap(), "");
        updater.apply(Ok(Event::Apply(policy("a", json!({})))));
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
        let changes = cache.watch(&Client::new(absent, "default"));
        let ten_minutes = tokio::time::sleep(std::time::Duration::from_mins(10));
        let changes: Vec<_> = changes.take_until(ten_minutes).collect().await;
        assert_eq!(changes, [PolicyChange::All]);
        assert_eq!(errors_in(&cache, "a").unwrap(), "");
        let requests = requests.load(Ordering::Relaxed);
        assert!((8..=30).contains(&requests), "{requests} requests");
    }

    #[tokio::test]
    async fn waiting_ends_when_the_cache_is_synced() {
        let (mut updater, cache) = updater();
        let mut wait = std::pin::pin!(cache.wait_until_synced());
        assert!(futures::poll!(&mut wait).is_pending());
        updater.apply(Ok(Event::InitDone));
        wait.await;
    }
}
