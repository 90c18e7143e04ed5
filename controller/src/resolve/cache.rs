//! Answers that are shared: asked for once by everybody who wants the same at the same time, and kept for the next time.
//!
//! A kept answer is never given away unasked: each look-up says from when on an answer is fresh enough for it, and an
//! older one only serves to ask the server whether anything has changed. Look-ups of one key take turns; whoever comes
//! while a request is under way is served by the next one at the latest, together with everybody else who came.
//!
//! A request needs the admission of the tenant who starts it, and is charged to him. Each look-up waits for its own
//! admission until somebody else's request has begun, so nobody waits in the queue of another tenant: whoever is admitted
//! first sends the request. What others wait for then is bounded by the deadline of that request.

use std::{
    collections::HashMap,
    hash::Hash,
    pin::pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering},
    },
    time::Instant,
};

use helmops_shared::runtime::lock;
use tokio::sync::Notify;

use super::metrics::Fetches;

/// What a slot costs besides its answer: its key, the map's entry and the locks.
const SLOT_BYTES: usize = 512;

/// What part of a cache answers that one namespace had fetched may take before they are the first to be dropped: one in so
/// many. So nobody can take all of it.
const SHARE: usize = 2;

/// What answers that are in use may take beyond the capacity, in bytes: two of the largest indexes, so that those who wait
/// for one share it even where the cache is small.
const IN_USE: usize = 32 << 20;

/// A failure of a request.
pub trait Failed {
    /// Whether it is the same for everybody who asks the same. One that concerns only who asked is not shared.
    fn is_shared(&self) -> bool;
}

/// Answers by key, of limited size altogether.
#[derive(Debug)]
pub struct Cache<K, V, E> {
    slots: Mutex<HashMap<K, Arc<Slot<V, E>>>>,
    capacity: usize,
    /// What may be kept beyond that while it is in use.
    in_use: usize,
    size: fn(&V) -> usize,
    uses: AtomicU64,
    told: AtomicI64,
    fetches: Fetches,
}

#[derive(Debug)]
struct Slot<V, E> {
    kept: Mutex<Kept<V, E>>,
    /// A request has ended, one way or another.
    ended: Notify,
    bytes: AtomicUsize,
    last_used: AtomicU64,
    /// The namespace that had the answer fetched.
    owner: Mutex<Arc<str>>,
}

#[derive(Debug)]
struct Kept<V, E> {
    is_under_way: bool,
    /// When the last request began.
    asked: Option<Instant>,
    /// What it failed with.
    failure: Option<E>,
    /// The last good answer, which a failure leaves alone.
    value: Option<Arc<V>>,
}

impl<V, E> Default for Slot<V, E> {
    fn default() -> Self {
        let kept = Kept {
            is_under_way: false,
            asked: None,
            failure: None,
            value: None,
        };
        Self {
            kept: Mutex::new(kept),
            ended: Notify::new(),
            bytes: AtomicUsize::new(SLOT_BYTES),
            last_used: AtomicU64::new(0),
            owner: Mutex::new(Arc::from("")),
        }
    }
}

impl<V, E: Clone> Kept<V, E> {
    /// What came of the last request, if it began late enough and has what is wanted.
    fn since(&self, since: Instant, suits: impl Fn(&V) -> bool) -> Option<Result<Arc<V>, E>> {
        self.asked.filter(|asked| *asked >= since)?;
        match &self.failure {
            Some(failure) => Some(Err(failure.clone())),
            None => self.suiting(suits).map(Ok),
        }
    }

    fn suiting(&self, suits: impl Fn(&V) -> bool) -> Option<Arc<V>> {
        self.value.clone().filter(|value| suits(value))
    }
}

/// What a look-up does next.
enum Turn<A, V, E> {
    /// It sends a request, and has the right to it and the kept answer.
    Fetch(A, Option<Arc<V>>),
    /// Nothing: this is what came of another one's request.
    Served(Result<Arc<V>, E>),
}

/// A request that is under way, until this is dropped.
struct UnderWay<'a, V, E>(&'a Slot<V, E>);

impl<V, E> Drop for UnderWay<'_, V, E> {
    fn drop(&mut self) {
        lock(&self.0.kept).is_under_way = false;
        self.0.ended.notify_waiters();
    }
}

impl<K: Clone + Eq + Hash, V, E: Clone + Failed> Cache<K, V, E> {
    /// An empty cache for `capacity` bytes; `size` gives those of an answer.
    pub fn new(capacity: usize, size: fn(&V) -> usize, fetches: Fetches) -> Self {
        Self {
            slots: Mutex::default(),
            capacity,
            in_use: IN_USE,
            size,
            uses: AtomicU64::default(),
            told: AtomicI64::default(),
            fetches,
        }
    }

    /// The answer for a key, by a request that began at `since` or later, for somebody in a namespace. `suits` says whether
    /// an answer holds what is wanted; `admit` waits for the right to a request; `fetch` asks with that right, and gets the
    /// kept answer, if that suits, to give it back if nothing has changed.
    ///
    /// # Errors
    /// That of the request, which everybody gets who waited for it, unless it is not shared.
    pub async fn answer<A, F: Future<Output = A>>(
        &self,
        key: &K,
        (namespace, since): (&str, Instant),
        suits: impl Fn(&V) -> bool,
        admit: impl Fn() -> F,
        fetch: impl AsyncFnOnce(A, Option<Arc<V>>) -> Result<Arc<V>, E>,
    ) -> Result<Arc<V>, E> {
        let slot = self.slot(key);
        let (admission, suiting) = match Self::turn(&slot, since, &suits, admit).await {
            Turn::Fetch(admission, suiting) => (admission, suiting),
            Turn::Served(outcome) => {
                self.fetches.shared.inc();
                return outcome;
            }
        };
        let under_way = UnderWay(&slot);
        let asked = Instant::now();
        let outcome = fetch(admission, suiting).await;
        self.keep(&slot, namespace, asked, &outcome);
        drop(under_way);
        drop(slot);
        self.shrink();
        outcome
    }

    /// Keeps what came of a request that began at `asked`, as far as others have a use and the cache has room for it.
    fn keep(&self, slot: &Slot<V, E>, namespace: &str, asked: Instant, outcome: &Result<Arc<V>, E>) {
        let mut kept = lock(&slot.kept);
        if outcome.as_ref().err().is_none_or(Failed::is_shared) {
            kept.asked = Some(asked);
            kept.failure = outcome.as_ref().err().cloned();
        }
        if let Ok(value) = outcome {
            let bytes = SLOT_BYTES + (self.size)(value);
            slot.bytes.store(bytes, Ordering::Relaxed);
            *lock(&slot.owner) = namespace.into();
            // Where too much is in use, so that it cannot be dropped, this one is not kept.
            let has_room = self.shrink() <= self.capacity + self.in_use;
            kept.value = has_room.then(|| Arc::clone(value));
            if !has_room {
                slot.bytes.store(SLOT_BYTES, Ordering::Relaxed);
            }
        }
    }

    /// Waits until another request has served this look-up, or until it is this one's turn to send a request. In the
    /// second case the request counts as being under way.
    async fn turn<A, F: Future<Output = A>>(
        slot: &Slot<V, E>,
        since: Instant,
        suits: impl Fn(&V) -> bool,
        admit: impl Fn() -> F,
    ) -> Turn<A, V, E> {
        let mut admission = None;
        loop {
            // Before the look, so that no end is missed after it.
            let mut ended = pin!(slot.ended.notified());
            ended.as_mut().enable();
            let is_under_way = {
                let mut kept = lock(&slot.kept);
                if let Some(outcome) = kept.since(since, &suits) {
                    return Turn::Served(outcome);
                }
                if !kept.is_under_way
                    && let Some(admission) = admission.take()
                {
                    kept.is_under_way = true;
                    return Turn::Fetch(admission, kept.suiting(&suits));
                }
                kept.is_under_way
            };
            if is_under_way {
                // Others have a use for it meanwhile.
                admission = None;
                ended.await;
            } else {
                admission = tokio::select! {
                    biased;
                    () = ended => None,
                    admitted = admit() => Some(admitted),
                };
            }
        }
    }

    fn slot(&self, key: &K) -> Arc<Slot<V, E>> {
        let mut slots = lock(&self.slots);
        let slot = match slots.get(key) {
            Some(slot) => Arc::clone(slot),
            None => Arc::clone(slots.entry(key.clone()).or_default()),
        };
        slot.last_used
            .store(self.uses.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        slot
    }

    /// Drops answers until the rest is small enough: those that have not been used for the longest time, but first those of
    /// a namespace that has more than its share. An answer that somebody is about to use stays. Returns the size of the
    /// rest.
    fn shrink(&self) -> usize {
        let mut slots = lock(&self.slots);
        let mut total: usize = slots.values().map(|slot| slot.size()).sum();
        if total > self.capacity {
            let mut shares: HashMap<Arc<str>, usize> = HashMap::new();
            for slot in slots.values() {
                *shares.entry(slot.owner()).or_default() += slot.size();
            }
            let mut idle: Vec<_> = slots
                .iter()
                .filter(|(_, slot)| Arc::strong_count(slot) == 1)
                .map(|(key, slot)| {
                    (
                        slot.last_used.load(Ordering::Relaxed),
                        slot.owner(),
                        slot.size(),
                        key.clone(),
                    )
                })
                .collect();
            idle.sort_unstable_by_key(|(last_used, ..)| *last_used);
            let share = self.capacity / SHARE;
            for greedy_alone in [true, false] {
                idle.retain(|(_, owner, bytes, key)| {
                    let own = shares.get_mut(owner);
                    let is_greedy = own.as_ref().is_some_and(|own| **own > share);
                    if total <= self.capacity || greedy_alone && !is_greedy {
                        return true;
                    }
                    slots.remove(key);
                    total -= bytes;
                    if let Some(own) = own {
                        *own -= bytes;
                    }
                    self.fetches.evictions.inc();
                    false
                });
            }
        }
        let kept = i64::try_from(total).unwrap_or(i64::MAX);
        // The gauge is that of all caches together.
        let told = self.told.swap(kept, Ordering::Relaxed);
        self.fetches.cache_bytes.add(kept - told);
        total
    }
}

impl<V, E> Slot<V, E> {
    fn size(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    fn owner(&self) -> Arc<str> {
        Arc::clone(&lock(&self.owner))
    }
}

#[cfg(test)]
mod tests {
    use std::{future::ready, time::Duration};

    use prometheus::Registry;

    use super::*;

    impl Failed for &'static str {
        fn is_shared(&self) -> bool {
            *self != "own"
        }
    }

    type Numbers = Cache<&'static str, u32, &'static str>;

    impl Numbers {
        /// An answer whose request needs no admission.
        async fn unlimited(
            &self,
            key: &&'static str,
            around: (&str, Instant),
            suits: impl Fn(&u32) -> bool,
            fetch: impl AsyncFnOnce(Option<Arc<u32>>) -> Result<Arc<u32>, &'static str>,
        ) -> Result<Arc<u32>, &'static str> {
            let fetch = async |(), kept| fetch(kept).await;
            self.answer(key, around, suits, || ready(()), fetch).await
        }
    }

    #[tokio::test]
    async fn nobody_waits_for_the_admission_of_another() {
        let cache = cache(1 << 20);
        let since = Instant::now();
        let never = std::future::pending::<()>;
        let fetch = |number| async move |(), _| Ok(Arc::new(number));
        let mut first = pin!(cache.answer(&"a", ("", since), |_| true, never, fetch(1)));
        assert!(futures::poll!(&mut first).is_pending());
        let second = cache
            .answer(&"a", ("", since), |_| true, || ready(()), fetch(2))
            .await;
        assert_eq!(second, Ok(Arc::new(2)));
        assert_eq!(
            first.await,
            Ok(Arc::new(2)),
            "it is served by the request of the other"
        );
    }

    #[tokio::test]
    async fn a_request_that_is_given_up_is_taken_over_by_another() {
        let cache = cache(1 << 20);
        let since = Instant::now();
        let stuck = async |_| std::future::pending().await;
        let good = async |_| Ok(Arc::new(1));
        let mut second = pin!(cache.unlimited(&"a", ("", since), |_| true, good));
        {
            let mut first = pin!(cache.unlimited(&"a", ("", since), |_| true, stuck));
            assert!(futures::poll!(&mut first).is_pending());
            assert!(futures::poll!(&mut second).is_pending(), "one request at a time");
        }
        assert_eq!(second.await, Ok(Arc::new(1)));
    }

    fn cache(capacity: usize) -> Numbers {
        let fetches = Fetches::register(&Registry::new()).unwrap();
        Cache::new(capacity, |value| *value as usize, fetches)
    }

    #[tokio::test]
    async fn everybody_who_waits_is_served_by_two_requests_at_the_most() {
        let cache = cache(1 << 20);
        let requests = AtomicUsize::new(0);
        let look_ups = (0..100).map(async |_| {
            let fetch = async |_| {
                requests.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_millis(20)).await;
                Ok(Arc::new(7))
            };
            cache.unlimited(&"a", ("", Instant::now()), |_| true, fetch).await
        });
        let answers = futures::future::join_all(look_ups).await;
        assert!(
            answers
                .iter()
                .all(|answer| *answer.as_ref().unwrap().as_ref() == 7)
        );
        let requests = requests.load(Ordering::Relaxed);
        assert!((1..=2).contains(&requests), "{requests}");
        assert_eq!(cache.fetches.shared.get(), 100 - requests as u64);
    }

    #[tokio::test]
    async fn nothing_older_than_asked_for_is_given() {
        let cache = cache(1 << 20);
        let before = Instant::now();
        let given = async |since, number: u32| {
            let kept = std::cell::Cell::new(None);
            let fetch = async |value: Option<Arc<u32>>| {
                kept.set(value);
                Ok(Arc::new(number))
            };
            let answer = cache.unlimited(&"a", ("", since), |_| true, fetch).await.unwrap();
            (*answer, kept.take().map(|kept| *kept))
        };
        assert_eq!(given(before, 1).await, (1, None));
        assert_eq!(given(before, 2).await, (1, None), "fresh enough");
        assert_eq!(
            given(Instant::now(), 3).await,
            (3, Some(1)),
            "the kept one only serves to compare"
        );
    }

    #[tokio::test]
    async fn a_failure_is_shared_and_leaves_the_last_good_answer_alone() {
        let cache = cache(1 << 20);
        let good = async |_| Ok(Arc::new(1));
        cache
            .unlimited(&"a", ("", Instant::now()), |_| true, good)
            .await
            .unwrap();
        let since = Instant::now();
        let bad = async |_| Err("down");
        assert_eq!(
            cache.unlimited(&"a", ("", since), |_| true, bad).await,
            Err("down")
        );
        assert_eq!(
            cache.unlimited(&"a", ("", since), |_| true, good).await,
            Err("down"),
            "shared"
        );
        let unchanged = async |kept: Option<Arc<u32>>| kept.ok_or("lost");
        let answer = cache
            .unlimited(&"a", ("", Instant::now()), |_| true, unchanged)
            .await;
        assert_eq!(answer, Ok(Arc::new(1)));
    }

    #[tokio::test]
    async fn an_answer_that_lacks_what_is_wanted_is_asked_for_anew() {
        let cache = cache(1 << 20);
        let since = Instant::now();
        let fetch = |number| {
            async move |kept: Option<Arc<u32>>| {
                assert_eq!(kept, None, "there is nothing to compare with");
                Ok(Arc::new(number))
            }
        };
        cache
            .unlimited(&"a", ("", since), |_| true, fetch(1))
            .await
            .unwrap();
        let answer = cache
            .unlimited(&"a", ("", since), |value| *value == 2, fetch(2))
            .await;
        assert_eq!(answer, Ok(Arc::new(2)));
    }

    #[tokio::test]
    async fn what_was_not_used_for_the_longest_time_makes_room() {
        let cache = cache(3000);
        let put = async |key| {
            let fetch = async |kept: Option<Arc<u32>>| Ok(kept.unwrap_or_else(|| Arc::new(500)));
            cache
                .unlimited(&key, ("", Instant::now()), |_| true, fetch)
                .await
                .unwrap();
        };
        put("a").await;
        put("b").await;
        put("a").await;
        put("c").await;
        let kept = |key| lock(&cache.slots).contains_key(key);
        assert!(kept("a") && !kept("b") && kept("c"));
        assert_eq!(cache.fetches.cache_bytes.get(), 2 * (500 + 512));
        assert_eq!(cache.fetches.evictions.get(), 1);
    }

    #[tokio::test]
    async fn a_failure_of_ones_own_is_not_shared() {
        let cache = cache(1 << 20);
        let since = Instant::now();
        let own = async |_| Err("own");
        assert_eq!(
            cache.unlimited(&"a", ("", since), |_| true, own).await,
            Err("own")
        );
        let good = async |_| Ok(Arc::new(1));
        assert_eq!(
            cache.unlimited(&"a", ("", since), |_| true, good).await,
            Ok(Arc::new(1))
        );
    }

    #[tokio::test]
    async fn a_namespace_that_has_more_than_its_share_makes_room_first() {
        let cache = cache(4000);
        let put = async |key, namespace| {
            let fetch = async |kept: Option<Arc<u32>>| Ok(kept.unwrap_or_else(|| Arc::new(500)));
            let since = Instant::now();
            cache
                .unlimited(&key, (namespace, since), |_| true, fetch)
                .await
                .unwrap();
        };
        put("a", "modest").await;
        for key in ["b", "c", "d", "e", "f"] {
            put(key, "greedy").await;
        }
        let kept = |key| lock(&cache.slots).contains_key(key);
        assert!(kept("a") && kept("e") && kept("f") && !kept("b"));
    }

    #[tokio::test]
    async fn what_is_in_use_and_what_comes_are_bounded_together() {
        let mut cache = cache(3000);
        cache.in_use = 0;
        let (held, holds) = tokio::sync::oneshot::channel::<()>();
        let put = async |key, number: u32| {
            let fetch = async |_| Ok(Arc::new(number));
            cache
                .unlimited(&key, ("", Instant::now()), |_| true, fetch)
                .await
                .unwrap();
        };
        put("a", 1500).await;
        let busy = async {
            let fetch = async |kept: Option<Arc<u32>>| {
                let _ = holds.await;
                kept.ok_or("lost")
            };
            cache.unlimited(&"a", ("", Instant::now()), |_| true, fetch).await
        };
        let other = async {
            let kept = async |_| Ok(Arc::new(1500));
            // Somebody waits for it, so that it would stay.
            let (first, second) = tokio::join!(
                cache.unlimited(&"b", ("", Instant::now()), |_| true, kept),
                cache.unlimited(&"b", ("", Instant::now()), |_| true, kept),
            );
            assert!(first.is_ok() && second.is_ok());
            assert!(
                cache.fetches.cache_bytes.get() <= 3000,
                "{}",
                cache.fetches.cache_bytes.get()
            );
            held.send(()).unwrap();
        };
        let (busy, ()) = tokio::join!(busy, other);
        assert_eq!(busy, Ok(Arc::new(1500)));
    }
}
