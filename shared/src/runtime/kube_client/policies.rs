//! The Policies of all namespaces, kept by a watch, so that asking for them costs no request.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use futures::{Stream, StreamExt};
use kube::{Api, Client, runtime::watcher};
use tokio::sync::watch;

use super::{
    seen::PolicyStore,
    watch::{backoff_without_init, is_absent},
};
use crate::{
    api::{Decoded, Policy},
    policy::Policies,
    runtime::exit::with_causes,
};

/// Policies per page of a list: bounds the memory of an answer.
const PAGE: u32 = 500;

/// The Policies as last seen; copies share them.
///
/// They are unknown at first. From the first complete list on they stay known, also while the API server is away, and then
/// are what they were last. On a cluster without a definition of Policies it is known that there are none.
#[derive(Clone, Debug)]
pub struct PolicyCache {
    /// Those of each namespace that has any; `None` while unknown.
    namespaces: watch::Sender<Option<HashMap<String, Arc<Policies>>>>,
    none: Arc<Policies>,
}

/// What a change of Policies concerns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Everything: Policies have become known.
    All,
    /// The HelmOps of this namespace.
    Namespace(String),
}

impl Default for PolicyCache {
    fn default() -> Self {
        Self {
            namespaces: watch::Sender::new(None),
            none: Arc::default(),
        }
    }
}

impl FromIterator<Decoded<Policy>> for PolicyCache {
    /// These, known from the start.
    fn from_iter<I: IntoIterator<Item = Decoded<Policy>>>(policies: I) -> Self {
        let mut keeper = Keeper::new(Self::default());
        for policy in policies {
            keeper.take(Ok(watcher::Event::InitApply(policy)));
        }
        keeper.take(Ok(watcher::Event::InitDone));
        keeper.known
    }
}

impl PolicyCache {
    /// The Policies of a namespace put together; `None` while it is unknown which there are.
    pub fn of(&self, namespace: &str) -> Option<Arc<Policies>> {
        let namespaces = self.namespaces.borrow();
        let policies = namespaces.as_ref()?.get(namespace);
        Some(Arc::clone(policies.unwrap_or(&self.none)))
    }

    /// Waits until Policy cache synced.
    pub async fn wait_until_known(&self) {
        // It fails only where the sender is gone, and this is one.
        let _ = self.namespaces.subscribe().wait_for(Option::is_some).await;
    }

    /// Keeps these Policies while the stream is polled, and tells of each change after it has taken effect.
    pub fn watch(&self, client: &Client) -> impl Stream<Item = Change> + Send + use<> {
        let api = Api::<Decoded<Policy>>::all(client.clone());
        self.follow(backoff_without_init(watcher(
            api,
            watcher::Config::default().page_size(PAGE),
        )))
    }

    /// Keeps what these events of a watch tell of, and tells of each change after it has taken effect.
    pub fn follow<S>(&self, events: S) -> impl Stream<Item = Change> + Send + use<S>
    where
        S: Stream<Item = watcher::Result<watcher::Event<Decoded<Policy>>>> + Send,
    {
        let mut keeper = Keeper::new(self.clone());
        events.flat_map(move |event| futures::stream::iter(keeper.take(event)))
    }
}

/// Brings what a watch tells into [`PolicyCache`].
struct Keeper {
    known: PolicyCache,
    seen: PolicyStore,
    /// Whether the watch has failed since it last told anything.
    fails: bool,
}

impl Keeper {
    fn new(known: PolicyCache) -> Self {
        Self {
            known,
            seen: PolicyStore::default(),
            fails: false,
        }
    }

    fn take(&mut self, event: watcher::Result<watcher::Event<Decoded<Policy>>>) -> Vec<Change> {
        let changed = match event {
            Ok(event) => {
                self.fails = false;
                let is_part_of_list = matches!(event, watcher::Event::InitApply(_));
                let changed = self.seen.take(event);
                if is_part_of_list {
                    return Vec::new();
                }
                changed
            }
            Err(error) => {
                let is_absent = is_absent(&error);
                self.tell(&error, is_absent);
                if !is_absent {
                    // A list begins anew.
                    self.seen.take(watcher::Event::Init);
                    return Vec::new();
                }
                self.seen.clear()
            }
        };
        self.publish(changed)
    }

    /// Makes known what has changed in these namespaces.
    fn publish(&self, changed: BTreeSet<String>) -> Vec<Change> {
        // Compiled before anybody has to wait for it.
        let compiled: Vec<_> = changed
            .iter()
            .map(|namespace| self.seen.policies(namespace).map(Arc::new))
            .collect();
        let mut is_first = false;
        self.known.namespaces.send_modify(|namespaces| {
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
            vec![Change::All]
        } else {
            if !changed.is_empty() {
                tracing::info!(namespaces = ?changed, "Policies changed");
            }
            changed.into_iter().map(Change::Namespace).collect()
        }
    }

    /// Logs the first failure of a row: the next ones say the same.
    fn tell(&mut self, error: &watcher::Error, is_absent: bool) {
        if std::mem::replace(&mut self.fails, true) {
            tracing::debug!(error = with_causes(error), "watch of Policies still fails");
        } else if is_absent {
            tracing::info!("the CRD of Policies is not installed: nothing is restricted");
        } else {
            let is_known = self.known.namespaces.borrow().is_some();
            tracing::warn!(
                error = with_causes(error),
                is_known,
                "watch of Policies failed; restarting"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use axum::http::{Request, Response};
    use kube::{client::Body, core::Status};
    use serde_json::{Value, json};
    use watcher::{Error, Event};

    use super::*;
    use crate::api::HelmOp;

    fn keeper() -> (Keeper, PolicyCache) {
        let known = PolicyCache::default();
        (Keeper::new(known.clone()), known)
    }

    #[expect(clippy::needless_pass_by_value, reason = "it is always called with json!")]
    fn policy(namespace: &str, fields: Value) -> Decoded<Policy> {
        let mut policy =
            json!({ "metadata": { "namespace": namespace, "name": "p", "resourceVersion": "1" } });
        json_patch::merge(&mut policy, &fields);
        serde_json::from_str(&policy.to_string()).unwrap()
    }

    fn refused(status: u16) -> Error {
        let status = Status::failure("why", "reason").with_code(status).boxed();
        Error::InitialListFailed(kube::Error::Api(status))
    }

    /// What is said of a HelmOp in a namespace that names no ServiceAccount.
    fn told(known: &PolicyCache, namespace: &str) -> Option<String> {
        let helm = json!({ "repo": "https://charts.example.com", "chart": "web", "version": "1.2.3" });
        let helmop =
            json!({ "metadata": { "name": "web", "namespace": namespace }, "spec": { "helm": helm } });
        let helmop: HelmOp = serde_json::from_str(&helmop.to_string()).unwrap();
        Some(known.of(namespace)?.errors(&helmop).to_string())
    }

    fn of(namespace: &str) -> Vec<Change> {
        vec![Change::Namespace(namespace.to_owned())]
    }

    #[test]
    fn policies_are_known_from_the_end_of_the_first_list_on() {
        let (mut keeper, known) = keeper();
        let strict = policy("a", json!({ "requireServiceAccount": true }));
        assert_eq!(told(&known, "a"), None);
        assert_eq!(keeper.take(Ok(Event::InitApply(strict.clone()))), []);
        assert_eq!(told(&known, "a"), None, "a part of a list is no knowledge");
        assert_eq!(keeper.take(Ok(Event::InitDone)), [Change::All]);
        assert!(told(&known, "a").unwrap().contains("serviceAccount is required"));
        assert_eq!(told(&known, "b").unwrap(), "");

        assert_eq!(keeper.take(Ok(Event::Delete(strict.clone()))), of("a"));
        assert_eq!(told(&known, "a").unwrap(), "");
        let other = policy("b", json!({ "requireServiceAccount": true }));
        assert_eq!(keeper.take(Ok(Event::Apply(other))), of("b"));
        assert!(told(&known, "b").unwrap().contains("serviceAccount is required"));
    }

    #[test]
    fn a_cluster_without_the_kind_restricts_nothing_until_it_has_it() {
        let (mut keeper, known) = keeper();
        assert_eq!(keeper.take(Err(refused(404))), [Change::All]);
        assert_eq!(told(&known, "a").unwrap(), "");
        assert_eq!(keeper.take(Err(refused(404))), []);
        let strict = policy("a", json!({ "requireServiceAccount": true }));
        assert_eq!(keeper.take(Ok(Event::InitApply(strict))), []);
        assert_eq!(keeper.take(Ok(Event::InitDone)), of("a"));
        assert!(told(&known, "a").unwrap().contains("serviceAccount is required"));
        assert_eq!(keeper.take(Err(refused(404))), of("a"), "the definition is gone");
        assert_eq!(told(&known, "a").unwrap(), "");
    }

    #[test]
    fn an_api_server_that_is_away_changes_nothing() {
        let (mut keeper, known) = keeper();
        for status in [401, 403, 500, 503] {
            assert_eq!(keeper.take(Err(refused(status))), []);
            assert_eq!(told(&known, "a"), None, "{status}");
        }
        let strict = policy("a", json!({ "requireServiceAccount": true }));
        keeper.take(Ok(Event::InitApply(strict.clone())));
        keeper.take(Ok(Event::InitDone));
        keeper.take(Err(refused(503)));
        assert!(told(&known, "a").unwrap().contains("serviceAccount is required"));
        // The list begins anew, without what came before the failure.
        keeper.take(Ok(Event::InitApply(policy("b", json!({})))));
        keeper.take(Err(refused(503)));
        keeper.take(Ok(Event::InitApply(strict)));
        assert_eq!(keeper.take(Ok(Event::InitDone)), []);
    }

    #[test]
    fn one_odd_policy_stops_its_namespace_alone() {
        let (mut keeper, known) = keeper();
        let odd = policy("a", json!({ "requireServiceAccount": "perhaps" }));
        keeper.take(Ok(Event::InitApply(odd)));
        keeper.take(Ok(Event::InitDone));
        let errors = told(&known, "a").unwrap();
        assert!(
            errors.starts_with(
                "metadata.namespace: Forbidden: \"a\": Policy \"p\" of this namespace does not decode: "
            ) && errors.contains("requireServiceAccount")
                && errors.contains("\"perhaps\""),
            "{errors}"
        );
        assert_eq!(told(&known, "b").unwrap(), "");
        keeper.take(Ok(Event::Apply(policy("a", json!({})))));
        assert_eq!(told(&known, "a").unwrap(), "", "it is mended");
    }

    /// A list that fails begins each time with an event that is no failure, which must not count.
    #[tokio::test(start_paused = true)]
    async fn a_cluster_without_the_kind_is_asked_ever_more_rarely() {
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        let absent = tower::service_fn(move |_: Request<Body>| {
            count.fetch_add(1, Ordering::Relaxed);
            let status = json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404,
                "message": "the server could not find the requested resource", "reason": "NotFound" });
            let response = Response::builder()
                .status(404)
                .body(Body::from(status.to_string().into_bytes()));
            std::future::ready(Ok::<_, std::convert::Infallible>(response.unwrap()))
        });
        let known = PolicyCache::default();
        let changes = known.watch(&Client::new(absent, "default"));
        let ten_minutes = tokio::time::sleep(std::time::Duration::from_mins(10));
        let seen: Vec<_> = changes.take_until(ten_minutes).collect().await;
        assert_eq!(seen, [Change::All]);
        assert_eq!(told(&known, "a").unwrap(), "");
        let asked = asked.load(Ordering::Relaxed);
        assert!((8..=30).contains(&asked), "asked {asked} times");
    }

    #[tokio::test]
    async fn waiting_ends_when_they_are_known() {
        let (mut keeper, known) = keeper();
        let mut wait = std::pin::pin!(known.wait_until_known());
        assert!(futures::poll!(&mut wait).is_pending());
        keeper.take(Ok(Event::InitDone));
        wait.await;
    }
}
