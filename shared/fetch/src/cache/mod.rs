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

mod slot;

use std::{
    cmp::Reverse,
    collections::HashMap,
    hash::Hash,
    pin::pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use helmops_fair::{ByteBudget, OverBudget};
use helmops_process::lock;
use tokio::time;

pub use self::slot::{FetchFailure, Requester};
use self::slot::{InFlight, NamespaceFailure, Slot, Wait};
use super::{bounds::MemoryBounds, metrics::FetchMetrics};

/// Memory of a slot without its key and response: the map entry and the locks.
const SLOT_BYTES: usize = 512;

/// Time between the starts of two requests of one key. No status shows the delay, and ten requests per second are no load for
/// a server.
const MIN_INTERVAL: Duration = Duration::from_millis(100);

/// Settings that caches have in common. Caches with clones of them share the memory.
#[derive(Clone, Debug)]
pub struct CacheSettings {
    /// Bytes for responses that no resolution is using.
    pub idle: usize,
    /// Memory for all responses, also for those that are being read.
    pub budget: ByteBudget,
    /// Time between the starts of two requests of one key.
    pub min_interval: Duration,
}

/// How to compute the size of keys and responses, in bytes.
#[derive(Debug)]
pub struct Sizes<K, V> {
    /// The size of a key.
    pub key: fn(&K) -> usize,
    /// The size of a response.
    pub value: fn(&V) -> usize,
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

impl CacheSettings {
    /// The settings for these memory limits.
    pub fn new(bounds: &MemoryBounds, budget: ByteBudget) -> Self {
        Self {
            idle: bounds.cache,
            budget,
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

/// The next step of a resolution.
enum NextStep<P, V, E> {
    /// Send a request, with this permit and the cached response.
    Fetch(P, Option<Arc<V>>),
    /// Return the result of another resolution's request.
    Served(Result<Arc<V>, E>),
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

    /// Whether the last request for a key whose result is shared has failed like this, less than `max_age` ago. An evicted result is
    /// not known any more.
    pub fn has_failed(&self, key: &K, max_age: Duration, is: impl FnOnce(&E) -> bool) -> bool {
        let slot = lock(&self.slots).get(key).map(Arc::clone);
        slot.is_some_and(|slot| {
            self.touch(&slot);
            let state = lock(&slot.state);
            let is_recent = state.shared_since.is_some_and(|since| since.elapsed() < max_age);
            is_recent && state.failure.as_ref().is_some_and(is)
        })
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
            if charge.key() != owner {
                *charge = self.settings.budget.reservation(Arc::clone(owner));
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
        self.touch(&slot);
        slot
    }

    fn touch(&self, slot: &Slot<V, E>) {
        let use_number = self.uses.fetch_add(1, Ordering::Relaxed);
        slot.last_used.store(use_number, Ordering::Relaxed);
    }

    fn new_slot(&self, key: &K, namespace: &Arc<str>) -> Arc<Slot<V, E>> {
        let overhead = SLOT_BYTES + (self.sizes.key)(key);
        let slot = Arc::new(Slot::new(
            overhead,
            self.settings.budget.reservation(Arc::clone(namespace)),
        ));
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

    /// Evicts idle responses until the rest of them is within the limit: of the namespace that has most, the least recently used
    /// one. Returns how many bytes were evicted.
    fn evict(&self, slots: &mut Slots<K, V, E>) -> usize {
        let mut owners = HashMap::<_, (usize, Vec<_>)>::new();
        for (key, slot) in slots.iter().filter(|(_, slot)| Arc::strong_count(slot) == 1) {
            let (owner, bytes) = slot.charged();
            let (sum, own) = owners.entry(owner).or_default();
            *sum += bytes;
            own.push((slot.last_used.load(Ordering::Relaxed), bytes, Arc::clone(key)));
        }
        for (_, own) in owners.values_mut() {
            own.sort_unstable_by_key(|(last_used, ..)| Reverse(*last_used));
        }
        // More may be idle by now than when they were counted.
        let idle: usize = owners.values().map(|(sum, _)| sum).sum();
        let mut left = idle;
        while left > self.settings.idle
            && let Some((sum, own)) = owners.values_mut().max_by_key(|(sum, _)| *sum)
            && let Some((_, bytes, key)) = own.pop()
        {
            *sum -= bytes;
            left -= bytes;
            slots.remove(&key);
            self.fetches.evictions.inc();
        }
        idle - left
    }
}

#[cfg(test)]
mod tests;
