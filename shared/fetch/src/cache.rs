//! Shared responses: one request serves all concurrent resolutions of the same key, and the response is cached for the next
//! conditional request.
//!
//! A cached response is never returned without a request: each resolution requires a response whose request started at a
//! certain time or later, and an older response only makes the request conditional. Requests of one key do not overlap. A
//! resolution that arrives while a request is in flight is served by the next request at the latest, together with all others
//! that arrived meanwhile.
//!
//! Requests of one key start some time apart, so that a burst of resolutions costs one request: a resolution that arrives
//! shortly after the start of a request waits, and shares the next one with all that arrived meanwhile.
//!
//! A request needs a permit of the tenant that starts it, and is charged to that tenant. Each resolution waits for its own
//! permit until the request of another one has started, so no resolution waits in the queue of another tenant: the first one
//! with a permit sends the request. The deadline of that request limits how long the others wait.
//!
//! A cached response is charged to the namespace that fetched it. Responses that no resolution is using are evicted to make
//! room. Responses in use stay, and a response for which there is no room is not shared.

use std::{
    collections::HashMap,
    fmt::Display,
    hash::Hash,
    pin::pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use helm_index::OverBudget;
use helmops_process::lock;
use helmops_runtime::error_class::{ClassifiedError, Scope};
use tokio::{sync::Notify, time};

use super::{
    bounds::MemoryBounds,
    budget::{Budget, Reservation},
    metrics::FetchMetrics,
};

/// Memory of a slot without its key and response: the map entry and the locks.
const SLOT_BYTES: usize = 512;

/// One namespace may use at most this fraction (1/n) of the memory for responses, so that no tenant can use all of it.
const SHARE: usize = 2;

/// Time between the starts of two requests of one key. No status shows the delay, and ten requests per second are no load for
/// a server.
const MIN_INTERVAL: Duration = Duration::from_millis(100);

/// The error of a fetch.
pub trait FetchFailure: Display {
    /// Whether it applies to all resolutions of the key. If not, it is shared within the namespace only.
    fn is_shared(&self) -> bool;
}

impl<E: ClassifiedError> FetchFailure for E {
    fn is_shared(&self) -> bool {
        self.class().scope() != Scope::Namespace
    }
}

/// Settings that caches have in common. Caches with clones of them share the memory.
#[derive(Clone, Debug)]
pub struct CacheSettings {
    /// Bytes for responses that no resolution is using.
    pub idle: usize,
    /// Memory for all responses, with a share for each namespace.
    pub budget: Budget,
    /// Time between the starts of two requests of one key.
    pub min_interval: Duration,
}

/// How to compute the size of keys and responses, in bytes.
#[derive(Debug)]
pub struct Sizes<K, V> {
    /// Of a key.
    pub key: fn(&K) -> usize,
    /// Of a response.
    pub value: fn(&V) -> usize,
}

/// The resolution that needs a response.
#[derive(Clone, Copy, Debug)]
pub struct Requester<'a> {
    /// Namespace of the HelmOp.
    pub namespace: &'a Arc<str>,
    /// The earliest start of a request whose response is fresh enough.
    pub since: Instant,
}

type Slots<K, V, E> = HashMap<Arc<K>, Arc<Slot<V, E>>>;

/// Responses by key, of limited total size.
#[derive(Debug)]
pub struct Cache<K, V, E> {
    slots: Mutex<Slots<K, V, E>>,
    settings: CacheSettings,
    sizes: Sizes<K, V>,
    uses: AtomicU64,
    reported_bytes: AtomicI64,
    fetches: FetchMetrics,
}

#[derive(Debug)]
struct Slot<V, E> {
    state: Mutex<SlotState<V, E>>,
    /// Notified when a request has ended, with any result.
    ended: Notify,
    last_used: AtomicU64,
    /// Its size without a response.
    overhead: usize,
    /// The namespace that it is charged to, and the size.
    charge: Mutex<Reservation>,
}

#[derive(Debug)]
struct SlotState<V, E> {
    is_in_flight: bool,
    /// When the last request started, whatever its result.
    last_start: Option<time::Instant>,
    /// When the last request started whose result is shared.
    shared_since: Option<Instant>,
    /// The error of that request.
    failure: Option<E>,
    /// The last error that is shared within a namespace only.
    namespace_failure: Option<NamespaceFailure<E>>,
    /// The last valid response. An error keeps it.
    value: Option<Arc<V>>,
}

/// An error that concerns one namespace.
#[derive(Debug)]
struct NamespaceFailure<E> {
    namespace: Arc<str>,
    since: Instant,
    failure: E,
}

impl CacheSettings {
    /// The settings for these memory limits.
    pub fn new(bounds: &MemoryBounds) -> Self {
        Self {
            idle: bounds.cache,
            budget: Budget::new(bounds.cache + bounds.in_use, SHARE),
            min_interval: MIN_INTERVAL,
        }
    }

    /// The settings for one of several caches.
    #[must_use]
    pub fn part(&self, parts: usize) -> Self {
        Self {
            idle: self.idle / parts,
            ..self.clone()
        }
    }
}

impl<V, E> Slot<V, E> {
    fn new(overhead: usize, charge: Reservation) -> Self {
        let state = SlotState {
            is_in_flight: false,
            last_start: None,
            shared_since: None,
            failure: None,
            namespace_failure: None,
            value: None,
        };
        Self {
            state: Mutex::new(state),
            ended: Notify::new(),
            last_used: AtomicU64::new(0),
            overhead,
            charge: Mutex::new(charge),
        }
    }

    /// The namespace that it is charged to, and the size.
    fn charged(&self) -> (Arc<str>, usize) {
        let charge = lock(&self.charge);
        (Arc::clone(charge.namespace()), charge.bytes())
    }
}

impl<V, E: Clone> SlotState<V, E> {
    /// The result of the last request, if it is fresh enough and contains what the requester needs.
    fn result_for(
        &self,
        requester: Requester<'_>,
        accepts: impl Fn(&V) -> bool,
    ) -> Option<Result<Arc<V>, E>> {
        let Requester { namespace, since } = requester;
        let shared = match &self.failure {
            _ if self.shared_since.is_none_or(|start| start < since) => None,
            Some(failure) => Some(Err(failure.clone())),
            None => self.accepted_value(accepts).map(Ok),
        };
        let own = self.namespace_failure.as_ref();
        let own = own.filter(|own| own.since >= since && own.namespace == *namespace);
        shared.or_else(|| own.map(|own| Err(own.failure.clone())))
    }

    fn accepted_value(&self, accepts: impl Fn(&V) -> bool) -> Option<Arc<V>> {
        self.value.clone().filter(|value| accepts(value))
    }

    /// What a resolution waits for that this state does not serve.
    fn wait(&self, min_interval: Duration) -> Wait {
        match self.last_start {
            _ if self.is_in_flight => Wait::Request,
            Some(start) if start.elapsed() < min_interval => Wait::Interval(start + min_interval),
            _ => Wait::Permit,
        }
    }
}

/// What a resolution waits for.
enum Wait {
    /// The end of the request in flight.
    Request,
    /// The time at which the next request may start.
    Interval(time::Instant),
    /// The permit for a request.
    Permit,
}

/// The next step of a resolution.
enum NextStep<P, V, E> {
    /// Send a request, with this permit and the cached response.
    Fetch(P, Option<Arc<V>>),
    /// Return the result of another resolution's request.
    Served(Result<Arc<V>, E>),
}

/// A request in flight, until dropped.
struct InFlight<'a, V, E>(&'a Slot<V, E>);

impl<V, E> Drop for InFlight<'_, V, E> {
    fn drop(&mut self) {
        lock(&self.0.state).is_in_flight = false;
        self.0.ended.notify_waiters();
    }
}

impl<K: Clone + Eq + Hash, V, E: Clone + FetchFailure> Cache<K, V, E> {
    /// Creates an empty cache.
    pub fn new(settings: CacheSettings, sizes: Sizes<K, V>, fetches: FetchMetrics) -> Self {
        Self {
            slots: Mutex::default(),
            settings,
            sizes,
            uses: AtomicU64::default(),
            reported_bytes: AtomicI64::default(),
            fetches,
        }
    }

    /// The response for a key, of a request that is fresh enough for the requester. `accepts` checks whether a response
    /// contains what is needed; `acquire` waits for the permit for a request; `fetch` sends the request with that permit, and
    /// gets the accepted cached response, which it returns if nothing has changed.
    ///
    /// # Errors
    /// That of the request, for all that waited for it, unless it is not shared.
    pub async fn get<P, F: Future<Output = P>>(
        &self,
        key: &K,
        requester: Requester<'_>,
        accepts: impl Fn(&V) -> bool,
        acquire: impl Fn() -> F,
        fetch: impl AsyncFnOnce(P, Option<Arc<V>>) -> Result<Arc<V>, E>,
    ) -> Result<Arc<V>, E> {
        let namespace = requester.namespace;
        let slot = self.slot(key, namespace);
        let (permit, cached) = match self.next_step(&slot, requester, &accepts, acquire).await {
            NextStep::Fetch(permit, cached) => (permit, cached),
            NextStep::Served(result) => {
                self.fetches.coalesced.inc();
                return result;
            }
        };
        let in_flight = InFlight(&slot);
        let start = Instant::now();
        let result = fetch(permit, cached).await;
        match &result {
            Ok(value) => self.store(key, &slot, namespace, start, value),
            Err(failure) => self.store_failure(&slot, namespace, start, failure),
        }
        drop(in_flight);
        drop(slot);
        self.shrink();
        result
    }

    /// Stores the response to a request that started at `start`, if there is room for it.
    fn store(&self, key: &K, slot: &Arc<Slot<V, E>>, namespace: &Arc<str>, start: Instant, value: &Arc<V>) {
        let mut state = lock(&slot.state);
        state.shared_since = Some(start);
        state.failure = None;
        state.namespace_failure = None;
        let is_same = state.value.as_ref().is_some_and(|old| Arc::ptr_eq(old, value));
        let owner = if is_same {
            slot.charged().0
        } else {
            Arc::clone(namespace)
        };
        state.value = None;
        let bytes = slot.overhead + (self.sizes.value)(value);
        if self.charge(slot, &owner, bytes).is_ok() {
            state.value = Some(Arc::clone(value));
        } else {
            // The slot is charged to no namespace any more. Resolutions that wait for it still share it.
            self.remove(key, slot);
        }
    }

    /// Stores the error of a request that started at `start`, for the resolutions that wait.
    fn store_failure(&self, slot: &Slot<V, E>, namespace: &Arc<str>, start: Instant, failure: &E) {
        let mut state = lock(&slot.state);
        if !failure.is_shared() {
            state.namespace_failure = Some(NamespaceFailure {
                namespace: Arc::clone(namespace),
                since: start,
                failure: failure.clone(),
            });
            return;
        }
        let value = state.value.as_deref().map_or(0, self.sizes.value);
        // An error contains texts, which a server may influence.
        let bytes = slot.overhead + value + failure.to_string().len();
        let owner = slot.charged().0;
        if self.charge(slot, &owner, bytes).is_ok() {
            state.shared_since = Some(start);
            state.failure = Some(failure.clone());
        }
    }

    /// Charges a slot to a namespace. If there is no room, idle responses of that namespace are evicted first.
    fn charge(&self, slot: &Slot<V, E>, owner: &Arc<str>, bytes: usize) -> Result<(), OverBudget> {
        let attempt = || {
            let mut charge = lock(&slot.charge);
            if charge.namespace() != owner {
                *charge = self.settings.budget.reservation(owner);
            }
            charge.resize(bytes)
        };
        attempt().or_else(|OverBudget| {
            self.evict_idle(owner);
            attempt()
        })
    }

    /// Waits until another request has served this resolution, or until this one may send a request, which then counts as in
    /// flight.
    async fn next_step<P, F: Future<Output = P>>(
        &self,
        slot: &Slot<V, E>,
        requester: Requester<'_>,
        accepts: impl Fn(&V) -> bool,
        acquire: impl Fn() -> F,
    ) -> NextStep<P, V, E> {
        let mut permit = None;
        loop {
            // Registered before the state is read, so that no later end is missed.
            let mut ended = pin!(slot.ended.notified());
            ended.as_mut().enable();
            let wait = {
                let mut state = lock(&slot.state);
                if let Some(result) = state.result_for(requester, &accepts) {
                    return NextStep::Served(result);
                }
                let wait = state.wait(self.settings.min_interval);
                if matches!(wait, Wait::Permit)
                    && let Some(permit) = permit.take()
                {
                    state.is_in_flight = true;
                    state.last_start = Some(time::Instant::now());
                    return NextStep::Fetch(permit, state.accepted_value(&accepts));
                }
                wait
            };
            // Released while this waits for anything else, because others can use the permit.
            permit = None;
            match wait {
                Wait::Request => ended.await,
                Wait::Interval(end) => {
                    // Another resolution may get its permit first, at that time.
                    let _ = time::timeout_at(end, ended).await;
                }
                Wait::Permit => {
                    permit = tokio::select! {
                        biased;
                        () = ended => None,
                        acquired = acquire() => Some(acquired),
                    }
                }
            }
        }
    }

    /// The slot of a key. A slot for which there is no room serves a single resolution.
    fn slot(&self, key: &K, namespace: &Arc<str>) -> Arc<Slot<V, E>> {
        let existing = lock(&self.slots).get(key).map(Arc::clone);
        let slot = existing.unwrap_or_else(|| self.new_slot(key, namespace));
        slot.last_used
            .store(self.uses.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        slot
    }

    fn new_slot(&self, key: &K, namespace: &Arc<str>) -> Arc<Slot<V, E>> {
        let overhead = SLOT_BYTES + (self.sizes.key)(key);
        let slot = Arc::new(Slot::new(overhead, self.settings.budget.reservation(namespace)));
        if self.charge(&slot, namespace, overhead).is_err() {
            return slot;
        }
        // Another resolution may have inserted one meanwhile.
        Arc::clone(lock(&self.slots).entry(Arc::new(key.clone())).or_insert(slot))
    }

    fn remove(&self, key: &K, slot: &Arc<Slot<V, E>>) {
        let mut slots = lock(&self.slots);
        if slots.get(key).is_some_and(|known| Arc::ptr_eq(known, slot)) {
            slots.remove(key);
        }
    }

    /// Evicts the idle responses that are charged to a namespace.
    fn evict_idle(&self, owner: &str) {
        lock(&self.slots).retain(|_, slot| {
            let stays = Arc::strong_count(slot) > 1 || *slot.charged().0 != *owner;
            self.fetches.evictions.inc_by(u64::from(!stays));
            stays
        });
    }

    /// Evicts idle responses until the rest of them is within the limit.
    fn shrink(&self) {
        let mut slots = lock(&self.slots);
        let (mut total, mut idle) = (0, 0);
        for slot in slots.values() {
            let (_, bytes) = slot.charged();
            total += bytes;
            if Arc::strong_count(slot) == 1 {
                idle += bytes;
            }
        }
        if idle > self.settings.idle {
            total -= self.evict(&mut slots);
        }
        let bytes = i64::try_from(total).unwrap_or(i64::MAX);
        // The gauge is the sum of all caches.
        let reported = self.reported_bytes.swap(bytes, Ordering::Relaxed);
        self.fetches.cache_bytes.add(bytes - reported);
    }

    /// Evicts the least recently used responses, first those of namespaces above their share. Returns how many bytes were
    /// evicted.
    fn evict(&self, slots: &mut Slots<K, V, E>) -> usize {
        let mut shares = HashMap::<_, usize>::new();
        let mut candidates = Vec::new();
        for (key, slot) in slots.iter().filter(|(_, slot)| Arc::strong_count(slot) == 1) {
            let (owner, bytes) = slot.charged();
            *shares.entry(Arc::clone(&owner)).or_default() += bytes;
            let last_used = slot.last_used.load(Ordering::Relaxed);
            candidates.push((last_used, owner, bytes, Arc::clone(key)));
        }
        candidates.sort_unstable_by_key(|(last_used, ..)| *last_used);
        // More may be idle by now than when they were counted.
        let idle: usize = shares.values().sum();
        let mut left = idle;
        for only_above_share in [true, false] {
            candidates.retain(|(_, owner, bytes, key)| {
                let own = shares.get(owner).copied().unwrap_or_default();
                let is_above_share = own > self.settings.idle / SHARE;
                if left <= self.settings.idle || only_above_share && !is_above_share {
                    return true;
                }
                shares.insert(Arc::clone(owner), own - bytes);
                left -= bytes;
                slots.remove(key);
                self.fetches.evictions.inc();
                false
            });
        }
        idle - left
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::RefCell, future::ready, pin::Pin, sync::atomic::AtomicUsize};

    use futures::future::join_all;
    use prometheus::Registry;
    use tokio::time::sleep;

    use super::*;

    /// An error that is shared unless it is `own`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    struct Failure(&'static str);

    impl Display for Failure {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str(self.0)
        }
    }

    impl FetchFailure for Failure {
        fn is_shared(&self) -> bool {
            self.0 != "own"
        }
    }

    type Numbers = Cache<&'static str, u32, Failure>;

    impl Numbers {
        /// Gets a response whose request needs no permit.
        async fn get_unlimited(
            &self,
            key: &&'static str,
            (namespace, since): (&str, Instant),
            accepts: impl Fn(&u32) -> bool,
            fetch: impl AsyncFnOnce(Option<Arc<u32>>) -> Result<Arc<u32>, Failure>,
        ) -> Result<Arc<u32>, Failure> {
            let fetch = async |(), cached| fetch(cached).await;
            let namespace = &Arc::from(namespace);
            self.get(key, Requester { namespace, since }, accepts, || ready(()), fetch)
                .await
        }
    }

    #[tokio::test]
    async fn no_resolution_waits_for_the_permit_of_another() {
        let cache = cache(1 << 20);
        let since = Instant::now();
        let never = std::future::pending::<()>;
        let fetch = |number| async move |(), _| Ok(Arc::new(number));
        let namespace = &Arc::from("");
        let requester = Requester { namespace, since };
        let mut first = pin!(cache.get(&"a", requester, |_| true, never, fetch(1)));
        assert!(futures::poll!(&mut first).is_pending());
        let second = cache.get(&"a", requester, |_| true, || ready(()), fetch(2)).await;
        assert_eq!(second, Ok(Arc::new(2)));
        assert_eq!(
            first.await,
            Ok(Arc::new(2)),
            "it is served by the request of the other resolution"
        );
    }

    #[tokio::test]
    async fn a_cancelled_request_is_taken_over_by_another_resolution() {
        let cache = cache(1 << 20);
        let since = Instant::now();
        let stuck = async |_| std::future::pending().await;
        let good = async |_| Ok(Arc::new(1));
        let mut second = pin!(cache.get_unlimited(&"a", ("", since), |_| true, good));
        {
            let mut first = pin!(cache.get_unlimited(&"a", ("", since), |_| true, stuck));
            assert!(futures::poll!(&mut first).is_pending());
            assert!(futures::poll!(&mut second).is_pending(), "one request at a time");
        }
        assert_eq!(second.await, Ok(Arc::new(1)));
    }

    fn cache(idle: usize) -> Numbers {
        with(CacheSettings {
            idle,
            budget: Budget::new(4 * idle, SHARE),
            min_interval: Duration::ZERO,
        })
    }

    /// A response is a number, and is as many bytes large. A key has 100 bytes.
    fn with(settings: CacheSettings) -> Numbers {
        let sizes = Sizes {
            key: |_: &&str| 100,
            value: |value: &u32| *value as usize,
        };
        Cache::new(settings, sizes, FetchMetrics::register(&Registry::new()).unwrap())
    }

    fn cached_bytes(cache: &Numbers) -> usize {
        usize::try_from(cache.fetches.cache_bytes.get()).unwrap()
    }

    /// Size of a number in a cache.
    const fn cost(number: usize) -> usize {
        SLOT_BYTES + 100 + number
    }

    #[tokio::test]
    async fn at_most_two_requests_serve_all_concurrent_resolutions() {
        let cache = cache(1 << 20);
        let requests = AtomicUsize::new(0);
        let resolutions = (0..100).map(async |_| {
            let fetch = async |_| {
                requests.fetch_add(1, Ordering::Relaxed);
                sleep(Duration::from_millis(20)).await;
                Ok(Arc::new(7))
            };
            cache
                .get_unlimited(&"a", ("", Instant::now()), |_| true, fetch)
                .await
        });
        let responses = join_all(resolutions).await;
        assert!(
            responses
                .iter()
                .all(|response| *response.as_ref().unwrap().as_ref() == 7)
        );
        let requests = requests.load(Ordering::Relaxed);
        assert!((1..=2).contains(&requests), "{requests}");
        assert_eq!(cache.fetches.coalesced.get(), 100 - requests as u64);
    }

    #[tokio::test]
    async fn no_response_older_than_required_is_returned() {
        let cache = cache(1 << 20);
        let before = Instant::now();
        let get = async |since, number: u32| {
            let cached = std::cell::Cell::new(None);
            let fetch = async |value: Option<Arc<u32>>| {
                cached.set(value);
                Ok(Arc::new(number))
            };
            let response = cache
                .get_unlimited(&"a", ("", since), |_| true, fetch)
                .await
                .unwrap();
            (*response, cached.take().map(|cached| *cached))
        };
        assert_eq!(get(before, 1).await, (1, None));
        assert_eq!(get(before, 2).await, (1, None), "fresh enough");
        assert_eq!(
            get(Instant::now(), 3).await,
            (3, Some(1)),
            "the cached response only makes the request conditional"
        );
    }

    #[tokio::test]
    async fn a_failure_is_shared_and_keeps_the_last_valid_response() {
        let cache = cache(1 << 20);
        let good = async |_| Ok(Arc::new(1));
        cache
            .get_unlimited(&"a", ("", Instant::now()), |_| true, good)
            .await
            .unwrap();
        let since = Instant::now();
        let bad = async |_| Err(Failure("down"));
        assert_eq!(
            cache.get_unlimited(&"a", ("", since), |_| true, bad).await,
            Err(Failure("down"))
        );
        assert_eq!(
            cache.get_unlimited(&"a", ("", since), |_| true, good).await,
            Err(Failure("down")),
            "shared"
        );
        let unchanged = async |cached: Option<Arc<u32>>| cached.ok_or(Failure("lost"));
        let response = cache
            .get_unlimited(&"a", ("", Instant::now()), |_| true, unchanged)
            .await;
        assert_eq!(response, Ok(Arc::new(1)));
    }

    #[tokio::test]
    async fn a_response_without_the_required_content_is_fetched_again() {
        let cache = cache(1 << 20);
        let since = Instant::now();
        let fetch = |number| {
            async move |cached: Option<Arc<u32>>| {
                assert_eq!(cached, None, "a response that is not accepted is not passed on");
                Ok(Arc::new(number))
            }
        };
        cache
            .get_unlimited(&"a", ("", since), |_| true, fetch(1))
            .await
            .unwrap();
        let response = cache
            .get_unlimited(&"a", ("", since), |value| *value == 2, fetch(2))
            .await;
        assert_eq!(response, Ok(Arc::new(2)));
    }

    #[tokio::test]
    async fn the_least_recently_used_response_is_evicted() {
        let cache = cache(3000);
        let put = async |key| {
            let fetch = async |cached: Option<Arc<u32>>| Ok(cached.unwrap_or_else(|| Arc::new(500)));
            cache
                .get_unlimited(&key, ("", Instant::now()), |_| true, fetch)
                .await
                .unwrap();
        };
        put("a").await;
        put("b").await;
        put("a").await;
        put("c").await;
        let cached = |key: &'static str| lock(&cache.slots).contains_key(&key);
        assert!(cached("a") && !cached("b") && cached("c"));
        assert_eq!(cached_bytes(&cache), 2 * cost(500));
        assert_eq!(cache.fetches.evictions.get(), 1);
    }

    #[tokio::test]
    async fn a_failure_that_is_not_shared_applies_to_its_namespace_only() {
        let cache = cache(1 << 20);
        let since = Instant::now();
        let own = async |_| Err(Failure("own"));
        assert_eq!(
            cache.get_unlimited(&"a", ("one", since), |_| true, own).await,
            Err(Failure("own"))
        );
        let good = async |_| Ok(Arc::new(1));
        assert_eq!(
            cache.get_unlimited(&"a", ("one", since), |_| true, good).await,
            Err(Failure("own")),
            "shared"
        );
        assert_eq!(
            cache.get_unlimited(&"a", ("other", since), |_| true, good).await,
            Ok(Arc::new(1))
        );
        assert_eq!(
            cache.get_unlimited(&"a", ("one", since), |_| true, own).await,
            Ok(Arc::new(1)),
            "the response for the other namespace serves this one too"
        );
    }

    /// Resolutions every ten milliseconds for a second.
    #[tokio::test(start_paused = true)]
    async fn requests_of_one_key_are_spaced_and_serve_all_waiting_resolutions() {
        let cache = with(CacheSettings {
            min_interval: MIN_INTERVAL,
            ..cache(1 << 20).settings
        });
        let starts = RefCell::new(Vec::new());
        let start = time::Instant::now();
        let resolutions = (0..100_u64).map(async |number| {
            sleep(Duration::from_millis(10 * number)).await;
            let since = Instant::now();
            let fetch = async |_| {
                let mut starts = starts.borrow_mut();
                starts.push((time::Instant::now(), Instant::now()));
                Ok(Arc::new(u32::try_from(starts.len()).unwrap() - 1))
            };
            let response = cache.get_unlimited(&"a", ("", since), |_| true, fetch).await;
            (since, response.unwrap())
        });
        let responses = join_all(resolutions).await;
        let starts = starts.into_inner();
        assert!((10..=11).contains(&starts.len()), "{}", starts.len());
        assert_eq!(starts[0].0, start, "the first request does not wait");
        assert!(starts.windows(2).all(|two| two[1].0 - two[0].0 >= MIN_INTERVAL));
        for (since, number) in responses {
            assert!(
                starts[*number as usize].1 >= since,
                "no response is older than required"
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_resolution_that_waits_for_the_interval_acquires_no_permit() {
        let cache = with(CacheSettings {
            min_interval: MIN_INTERVAL,
            ..cache(1 << 20).settings
        });
        let good = async |_| Ok(Arc::new(1));
        for _ in 0..2 {
            let requester = ("", Instant::now());
            cache
                .get_unlimited(&"a", requester, |_| true, good)
                .await
                .unwrap();
        }
        let acquire = || panic!("it is too soon");
        let requester = Requester {
            namespace: &Arc::from(""),
            since: Instant::now(),
        };
        let fetch = async |(), _| Ok(Arc::new(2));
        let soon = pin!(cache.get(&"a", requester, |_| true, || async { acquire() }, fetch));
        let soon = time::timeout(MIN_INTERVAL / 2, soon).await;
        assert!(soon.is_err());
    }

    #[tokio::test]
    async fn a_namespace_above_its_share_is_evicted_first() {
        let cache = cache(4000);
        let put = async |key, namespace| {
            let fetch = async |cached: Option<Arc<u32>>| Ok(cached.unwrap_or_else(|| Arc::new(500)));
            let since = Instant::now();
            cache
                .get_unlimited(&key, (namespace, since), |_| true, fetch)
                .await
                .unwrap();
        };
        put("a", "modest").await;
        for key in ["b", "c", "d", "e", "f"] {
            put(key, "greedy").await;
        }
        let cached = |key: &'static str| lock(&cache.slots).contains_key(&key);
        assert!(cached("a") && cached("e") && cached("f") && !cached("b"));
    }

    /// Keeps responses in use until dropped, like a tenant whose server is slow for the second request.
    async fn in_use<'c>(
        cache: &'c Numbers,
        namespace: &'c str,
        responses: &[(&'static str, u32)],
    ) -> Vec<Pin<Box<dyn Future<Output = ()> + 'c>>> {
        let mut held = Vec::new();
        for (key, number) in responses.iter().copied() {
            let good = async move |_| Ok(Arc::new(number));
            let requester = (namespace, Instant::now());
            cache
                .get_unlimited(&key, requester, |_| true, good)
                .await
                .unwrap();
            let mut slow: Pin<Box<dyn Future<Output = ()>>> = Box::pin(async move {
                let never = async |_| std::future::pending().await;
                let requester = (namespace, Instant::now());
                drop(cache.get_unlimited(&key, requester, |_| true, never).await);
            });
            assert!(futures::poll!(&mut slow).is_pending());
            held.push(slow);
        }
        held
    }

    /// How many requests two concurrent resolutions need.
    async fn requests(cache: &Numbers, key: &'static str, namespace: &str, number: u32) -> usize {
        let requests = AtomicUsize::new(0);
        let fetch = async |_| {
            requests.fetch_add(1, Ordering::Relaxed);
            tokio::task::yield_now().await;
            Ok(Arc::new(number))
        };
        let since = Instant::now();
        let resolve = || cache.get_unlimited(&key, (namespace, since), |_| true, fetch);
        let (first, second) = tokio::join!(resolve(), resolve());
        assert_eq!((first.as_deref(), second.as_deref()), (Ok(&number), Ok(&number)));
        requests.into_inner()
    }

    #[tokio::test]
    async fn responses_in_use_by_one_namespace_do_not_prevent_others_from_sharing() {
        let cache = with(CacheSettings {
            idle: 2 * cost(1000),
            budget: Budget::new(6 * cost(1000), SHARE),
            min_interval: Duration::ZERO,
        });
        assert_eq!(requests(&cache, "before", "modest", 1000).await, 1);
        let keys = ["a", "b", "c", "d", "e", "f", "g"].map(|key| (key, 1000));
        let held = in_use(&cache, "greedy", &keys).await;
        assert_eq!(
            cached_bytes(&cache),
            4 * cost(1000),
            "one namespace gets at most half"
        );
        assert_eq!(requests(&cache, "after", "modest", 1000).await, 1);
        let cached = |key: &'static str| lock(&cache.slots).contains_key(&key);
        assert!(
            cached("before") && cached("after"),
            "cached responses of others stay"
        );
        assert_eq!(
            requests(&cache, "more", "greedy", 1000).await,
            2,
            "not shared above the share of the namespace"
        );
        drop(held);
        assert_eq!(requests(&cache, "more", "greedy", 1000).await, 1);
    }

    #[tokio::test]
    async fn caches_share_the_memory_for_responses_in_use() {
        let settings = CacheSettings {
            idle: cost(1000),
            budget: Budget::new(4 * cost(1000), SHARE),
            min_interval: Duration::ZERO,
        };
        let (one, other) = (with(settings.clone()), with(settings));
        let _held = [
            in_use(&one, "a", &[("a", 1000), ("b", 1000)]).await,
            in_use(&other, "b", &[("a", 1000), ("b", 1000)]).await,
        ];
        assert_eq!(requests(&one, "c", "c", 1000).await, 2, "all memory is in use");
    }

    #[tokio::test]
    async fn an_unchanged_response_stays_charged_to_the_namespace_that_fetched_it() {
        let cache = with(CacheSettings {
            idle: 2 * cost(1000),
            budget: Budget::new(6 * cost(1000), SHARE),
            min_interval: Duration::ZERO,
        });
        assert_eq!(requests(&cache, "shared", "modest", 1000).await, 1);
        let _held = in_use(&cache, "greedy", &["a", "b", "c"].map(|key| (key, 1000))).await;
        let unchanged = async |cached: Option<Arc<u32>>| cached.ok_or(Failure("lost"));
        for namespace in ["greedy", "modest"] {
            let requester = (namespace, Instant::now());
            let response = cache
                .get_unlimited(&"shared", requester, |_| true, unchanged)
                .await;
            assert_eq!(response, Ok(Arc::new(1000)), "{namespace}");
        }
    }

    #[tokio::test]
    async fn failures_are_charged_too() {
        let cache = cache(1 << 20);
        let bad = async |_| Err(Failure("0123456789"));
        let requester = ("", Instant::now());
        cache
            .get_unlimited(&"a", requester, |_| true, bad)
            .await
            .unwrap_err();
        assert_eq!(cached_bytes(&cache), cost(10));
    }
}
