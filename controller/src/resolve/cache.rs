//! Answers that are shared: asked for once by everybody who wants the same at the same time, and kept for the next time.
//!
//! A kept answer is never given away unasked: each look-up says from when on an answer is fresh enough for it, and an
//! older one only serves to ask the server whether anything has changed. Look-ups of one key take turns; whoever comes
//! while a request is under way is served by the next one at the latest, together with everybody else who came.
//!
//! Requests of one key begin some time apart, so that a burst of look-ups costs one request: whoever comes soon after a
//! request began waits for a moment, and shares the next one with everybody who came meanwhile.
//!
//! A request needs the admission of the tenant who starts it, and is charged to him. Each look-up waits for its own
//! admission until somebody else's request has begun, so nobody waits in the queue of another tenant: whoever is admitted
//! first sends the request. What others wait for then is bounded by the deadline of that request.
//!
//! What is kept is charged to the namespace that had it fetched. Answers that nobody is about to use make room for others;
//! what is in use stays, and an answer for which there is no room then is not shared.

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

use helmops_shared::{chart::meter::OverBudget, runtime::lock};
use tokio::{sync::Notify, time};

use super::{
    bounds::Bounds,
    budget::{Budget, Reservation},
    metrics::Fetches,
};

/// What a slot costs besides its key and its answer: the map's entry and the locks.
const SLOT_BYTES: usize = 512;

/// How much of the memory for answers one namespace has at most: one in so many parts. So no tenant can take all of it.
const SHARE: usize = 2;

/// Time between the beginnings of two requests of one key. Nobody sees it in a status, and ten requests a second are
/// nothing to a server.
const APART: Duration = Duration::from_millis(100);

/// A failure of a request.
pub trait Failed: Display {
    /// Whether it is the same for everybody who asks the same. One that is not is shared within the namespace alone.
    fn is_shared(&self) -> bool;
}

/// What caches have in common. Those that are made of clones share the memory.
#[derive(Clone, Debug)]
pub struct Terms {
    /// Bytes for answers that nobody is about to use.
    pub idle: usize,
    /// Memory for all answers, with a share for each namespace.
    pub budget: Budget,
    /// Time between the beginnings of two requests of one key.
    pub apart: Duration,
}

/// How much memory keys and answers take, in bytes.
#[derive(Debug)]
pub struct Sizes<K, V> {
    /// Of a key.
    pub key: fn(&K) -> usize,
    /// Of an answer.
    pub value: fn(&V) -> usize,
}

type Slots<K, V, E> = HashMap<Arc<K>, Arc<Slot<V, E>>>;

/// Answers by key, of limited size altogether.
#[derive(Debug)]
pub struct Cache<K, V, E> {
    slots: Mutex<Slots<K, V, E>>,
    terms: Terms,
    sizes: Sizes<K, V>,
    uses: AtomicU64,
    told: AtomicI64,
    fetches: Fetches,
}

#[derive(Debug)]
struct Slot<V, E> {
    kept: Mutex<Kept<V, E>>,
    /// A request has ended, one way or another.
    ended: Notify,
    last_used: AtomicU64,
    /// What it costs without an answer.
    overhead: usize,
    /// The namespace that pays for it, and how much.
    charge: Mutex<Reservation>,
}

#[derive(Debug)]
struct Kept<V, E> {
    is_under_way: bool,
    /// When the last request began, whatever came of it.
    begun: Option<time::Instant>,
    /// When the last request began whose outcome everybody shares.
    asked: Option<Instant>,
    /// What that failed with.
    failure: Option<E>,
    /// The last failure that only a namespace shares.
    own: Option<Own<E>>,
    /// The last good answer, which a failure leaves alone.
    value: Option<Arc<V>>,
}

/// A failure that concerns one namespace.
#[derive(Debug)]
struct Own<E> {
    namespace: Arc<str>,
    asked: Instant,
    failure: E,
}

impl Terms {
    /// Parts of the memory that look-ups may take.
    pub fn new(bounds: &Bounds) -> Self {
        Self {
            idle: bounds.cache,
            budget: Budget::new(bounds.cache + bounds.in_use, SHARE),
            apart: APART,
        }
    }

    /// For one of so many caches.
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
        let kept = Kept {
            is_under_way: false,
            begun: None,
            asked: None,
            failure: None,
            own: None,
            value: None,
        };
        Self {
            kept: Mutex::new(kept),
            ended: Notify::new(),
            last_used: AtomicU64::new(0),
            overhead,
            charge: Mutex::new(charge),
        }
    }

    /// Who pays, and how much.
    fn charged(&self) -> (Arc<str>, usize) {
        let charge = lock(&self.charge);
        (Arc::clone(charge.namespace()), charge.bytes())
    }
}

impl<V, E: Clone> Kept<V, E> {
    /// What came of the last request, if it began late enough and has what is wanted.
    fn since(
        &self,
        (namespace, since): (&str, Instant),
        suits: impl Fn(&V) -> bool,
    ) -> Option<Result<Arc<V>, E>> {
        let shared = match &self.failure {
            _ if self.asked.is_none_or(|asked| asked < since) => None,
            Some(failure) => Some(Err(failure.clone())),
            None => self.suiting(suits).map(Ok),
        };
        let own = self.own.as_ref();
        let own = own.filter(|own| own.asked >= since && *own.namespace == *namespace);
        shared.or_else(|| own.map(|own| Err(own.failure.clone())))
    }

    fn suiting(&self, suits: impl Fn(&V) -> bool) -> Option<Arc<V>> {
        self.value.clone().filter(|value| suits(value))
    }

    /// What a look-up waits for that this does not serve.
    fn wait(&self, apart: Duration) -> Wait {
        match self.begun {
            _ if self.is_under_way => Wait::Request,
            Some(begun) if begun.elapsed() < apart => Wait::Pause(begun + apart),
            _ => Wait::Admission,
        }
    }
}

/// What a look-up waits for.
enum Wait {
    /// The end of the request that is under way.
    Request,
    /// The time at which the next one may begin.
    Pause(time::Instant),
    /// The right to begin it.
    Admission,
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
    /// An empty cache.
    pub fn new(terms: Terms, sizes: Sizes<K, V>, fetches: Fetches) -> Self {
        Self {
            slots: Mutex::default(),
            terms,
            sizes,
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
        (namespace, since): (&Arc<str>, Instant),
        suits: impl Fn(&V) -> bool,
        admit: impl Fn() -> F,
        fetch: impl AsyncFnOnce(A, Option<Arc<V>>) -> Result<Arc<V>, E>,
    ) -> Result<Arc<V>, E> {
        let slot = self.slot(key, namespace);
        let (admission, suiting) = match self.turn(&slot, (&**namespace, since), &suits, admit).await {
            Turn::Fetch(admission, suiting) => (admission, suiting),
            Turn::Served(outcome) => {
                self.fetches.coalesced.inc();
                return outcome;
            }
        };
        let under_way = UnderWay(&slot);
        let asked = Instant::now();
        let outcome = fetch(admission, suiting).await;
        match &outcome {
            Ok(value) => self.keep(key, &slot, (namespace, asked), value),
            Err(failure) => self.note(&slot, (namespace, asked), failure),
        }
        drop(under_way);
        drop(slot);
        self.shrink();
        outcome
    }

    /// Keeps the answer to a request that began at `asked`, if there is room for it.
    fn keep(
        &self,
        key: &K,
        slot: &Arc<Slot<V, E>>,
        (namespace, asked): (&Arc<str>, Instant),
        value: &Arc<V>,
    ) {
        let mut kept = lock(&slot.kept);
        kept.asked = Some(asked);
        kept.failure = None;
        kept.own = None;
        let is_same = kept.value.as_ref().is_some_and(|old| Arc::ptr_eq(old, value));
        let owner = if is_same {
            slot.charged().0
        } else {
            Arc::clone(namespace)
        };
        kept.value = None;
        let bytes = slot.overhead + (self.sizes.value)(value);
        if self.charge(slot, &owner, bytes).is_ok() {
            kept.value = Some(Arc::clone(value));
        } else {
            // Nobody pays for the slot any more. Who waits for it still shares it.
            self.forget(key, slot);
        }
    }

    /// Remembers the failure of a request that began at `asked`, for those who wait.
    fn note(&self, slot: &Slot<V, E>, (namespace, asked): (&Arc<str>, Instant), failure: &E) {
        let mut kept = lock(&slot.kept);
        if !failure.is_shared() {
            kept.own = Some(Own {
                namespace: Arc::clone(namespace),
                asked,
                failure: failure.clone(),
            });
            return;
        }
        let value = kept.value.as_deref().map_or(0, self.sizes.value);
        // A failure holds its texts, which a server may have a say in.
        let bytes = slot.overhead + value + failure.to_string().len();
        let owner = slot.charged().0;
        if self.charge(slot, &owner, bytes).is_ok() {
            kept.asked = Some(asked);
            kept.failure = Some(failure.clone());
        }
    }

    /// Charges a slot to a namespace. Where there is no room, answers of that namespace that nobody is about to use go first.
    fn charge(&self, slot: &Slot<V, E>, owner: &Arc<str>, bytes: usize) -> Result<(), OverBudget> {
        let attempt = || {
            let mut charge = lock(&slot.charge);
            if charge.namespace() != owner {
                *charge = self.terms.budget.start(owner);
            }
            charge.resize(bytes)
        };
        attempt().or_else(|OverBudget| {
            self.drop_idle(owner);
            attempt()
        })
    }

    /// Waits until another request has served this look-up, or until it is this one's turn to send a request. In the
    /// second case the request counts as being under way.
    async fn turn<A, F: Future<Output = A>>(
        &self,
        slot: &Slot<V, E>,
        since: (&str, Instant),
        suits: impl Fn(&V) -> bool,
        admit: impl Fn() -> F,
    ) -> Turn<A, V, E> {
        let mut admission = None;
        loop {
            // Before the look, so that no end is missed after it.
            let mut ended = pin!(slot.ended.notified());
            ended.as_mut().enable();
            let wait = {
                let mut kept = lock(&slot.kept);
                if let Some(outcome) = kept.since(since, &suits) {
                    return Turn::Served(outcome);
                }
                let wait = kept.wait(self.terms.apart);
                if matches!(wait, Wait::Admission)
                    && let Some(admission) = admission.take()
                {
                    kept.is_under_way = true;
                    kept.begun = Some(time::Instant::now());
                    return Turn::Fetch(admission, kept.suiting(&suits));
                }
                wait
            };
            // While it waits for anything else, others have a use for the admission.
            admission = None;
            match wait {
                Wait::Request => ended.await,
                Wait::Pause(end) => {
                    // Another one may be admitted first, at that time.
                    let _ = time::timeout_at(end, ended).await;
                }
                Wait::Admission => {
                    admission = tokio::select! {
                        biased;
                        () = ended => None,
                        admitted = admit() => Some(admitted),
                    }
                }
            }
        }
    }

    /// The slot of a key. One for which there is no room serves a single look-up.
    fn slot(&self, key: &K, namespace: &Arc<str>) -> Arc<Slot<V, E>> {
        let known = lock(&self.slots).get(key).map(Arc::clone);
        let slot = known.unwrap_or_else(|| self.new_slot(key, namespace));
        slot.last_used
            .store(self.uses.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        slot
    }

    fn new_slot(&self, key: &K, namespace: &Arc<str>) -> Arc<Slot<V, E>> {
        let overhead = SLOT_BYTES + (self.sizes.key)(key);
        let slot = Arc::new(Slot::new(overhead, self.terms.budget.start(namespace)));
        if self.charge(&slot, namespace, overhead).is_err() {
            return slot;
        }
        // Another one may have been quicker.
        Arc::clone(lock(&self.slots).entry(Arc::new(key.clone())).or_insert(slot))
    }

    fn forget(&self, key: &K, slot: &Arc<Slot<V, E>>) {
        let mut slots = lock(&self.slots);
        if slots.get(key).is_some_and(|known| Arc::ptr_eq(known, slot)) {
            slots.remove(key);
        }
    }

    /// Drops what nobody is about to use of what a namespace pays for.
    fn drop_idle(&self, owner: &str) {
        lock(&self.slots).retain(|_, slot| {
            let stays = Arc::strong_count(slot) > 1 || *slot.charged().0 != *owner;
            self.fetches.evictions.inc_by(u64::from(!stays));
            stays
        });
    }

    /// Drops answers that nobody is about to use until the rest of them is small enough.
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
        if idle > self.terms.idle {
            total -= self.evict(&mut slots);
        }
        let kept = i64::try_from(total).unwrap_or(i64::MAX);
        // The gauge is that of all caches together.
        let told = self.told.swap(kept, Ordering::Relaxed);
        self.fetches.cache_bytes.add(kept - told);
    }

    /// Drops those that have not been used for the longest time, but first those of a namespace that has more than its share.
    /// Returns how many bytes were dropped.
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
        for greedy_alone in [true, false] {
            candidates.retain(|(_, owner, bytes, key)| {
                let own = shares.get(owner).copied().unwrap_or_default();
                let is_greedy = own > self.terms.idle / SHARE;
                if left <= self.terms.idle || greedy_alone && !is_greedy {
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
            let (namespace, since) = (Arc::from(around.0), around.1);
            self.answer(key, (&namespace, since), suits, || ready(()), fetch)
                .await
        }
    }

    #[tokio::test]
    async fn nobody_waits_for_the_admission_of_another() {
        let cache = cache(1 << 20);
        let since = Instant::now();
        let never = std::future::pending::<()>;
        let fetch = |number| async move |(), _| Ok(Arc::new(number));
        let namespace = Arc::from("");
        let mut first = pin!(cache.answer(&"a", (&namespace, since), |_| true, never, fetch(1)));
        assert!(futures::poll!(&mut first).is_pending());
        let second = cache
            .answer(&"a", (&namespace, since), |_| true, || ready(()), fetch(2))
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

    fn cache(idle: usize) -> Numbers {
        with(Terms {
            idle,
            budget: Budget::new(4 * idle, SHARE),
            apart: Duration::ZERO,
        })
    }

    /// An answer is a number, and takes as many bytes. A key takes a hundred.
    fn with(terms: Terms) -> Numbers {
        let sizes = Sizes {
            key: |_: &&str| 100,
            value: |value: &u32| *value as usize,
        };
        Cache::new(terms, sizes, Fetches::register(&Registry::new()).unwrap())
    }

    fn kept_bytes(cache: &Numbers) -> usize {
        usize::try_from(cache.fetches.cache_bytes.get()).unwrap()
    }

    /// What a number takes in a cache.
    const fn cost(number: usize) -> usize {
        SLOT_BYTES + 100 + number
    }

    #[tokio::test]
    async fn everybody_who_waits_is_served_by_two_requests_at_the_most() {
        let cache = cache(1 << 20);
        let requests = AtomicUsize::new(0);
        let look_ups = (0..100).map(async |_| {
            let fetch = async |_| {
                requests.fetch_add(1, Ordering::Relaxed);
                sleep(Duration::from_millis(20)).await;
                Ok(Arc::new(7))
            };
            cache.unlimited(&"a", ("", Instant::now()), |_| true, fetch).await
        });
        let answers = join_all(look_ups).await;
        assert!(
            answers
                .iter()
                .all(|answer| *answer.as_ref().unwrap().as_ref() == 7)
        );
        let requests = requests.load(Ordering::Relaxed);
        assert!((1..=2).contains(&requests), "{requests}");
        assert_eq!(cache.fetches.coalesced.get(), 100 - requests as u64);
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
        let kept = |key: &'static str| lock(&cache.slots).contains_key(&key);
        assert!(kept("a") && !kept("b") && kept("c"));
        assert_eq!(kept_bytes(&cache), 2 * cost(500));
        assert_eq!(cache.fetches.evictions.get(), 1);
    }

    #[tokio::test]
    async fn a_failure_of_ones_own_is_shared_within_the_namespace() {
        let cache = cache(1 << 20);
        let since = Instant::now();
        let own = async |_| Err("own");
        assert_eq!(
            cache.unlimited(&"a", ("one", since), |_| true, own).await,
            Err("own")
        );
        let good = async |_| Ok(Arc::new(1));
        assert_eq!(
            cache.unlimited(&"a", ("one", since), |_| true, good).await,
            Err("own"),
            "shared"
        );
        assert_eq!(
            cache.unlimited(&"a", ("other", since), |_| true, good).await,
            Ok(Arc::new(1))
        );
        assert_eq!(
            cache.unlimited(&"a", ("one", since), |_| true, own).await,
            Ok(Arc::new(1)),
            "the answer of the other serves this one too"
        );
    }

    /// Look-ups every ten milliseconds for a second.
    #[tokio::test(start_paused = true)]
    async fn requests_of_one_key_begin_apart_and_serve_all_who_came_meanwhile() {
        let cache = with(Terms {
            apart: APART,
            ..cache(1 << 20).terms
        });
        let begun = RefCell::new(Vec::new());
        let start = time::Instant::now();
        let look_ups = (0..100_u64).map(async |number| {
            sleep(Duration::from_millis(10 * number)).await;
            let since = Instant::now();
            let fetch = async |_| {
                let mut begun = begun.borrow_mut();
                begun.push((time::Instant::now(), Instant::now()));
                Ok(Arc::new(u32::try_from(begun.len()).unwrap() - 1))
            };
            let answer = cache.unlimited(&"a", ("", since), |_| true, fetch).await;
            (since, answer.unwrap())
        });
        let answers = join_all(look_ups).await;
        let begun = begun.into_inner();
        assert!((10..=11).contains(&begun.len()), "{}", begun.len());
        assert_eq!(begun[0].0, start, "the first one does not wait");
        assert!(begun.windows(2).all(|two| two[1].0 - two[0].0 >= APART));
        for (since, number) in answers {
            assert!(
                begun[*number as usize].1 >= since,
                "no answer is older than the look-up"
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_look_up_that_waits_for_its_moment_holds_no_admission() {
        let cache = with(Terms {
            apart: APART,
            ..cache(1 << 20).terms
        });
        let good = async |_| Ok(Arc::new(1));
        for _ in 0..2 {
            let around = ("", Instant::now());
            cache.unlimited(&"a", around, |_| true, good).await.unwrap();
        }
        let admit = || panic!("it is too soon");
        let (namespace, since) = (Arc::from(""), Instant::now());
        let fetch = async |(), _| Ok(Arc::new(2));
        let soon = pin!(cache.answer(&"a", (&namespace, since), |_| true, || async { admit() }, fetch));
        let soon = time::timeout(APART / 2, soon).await;
        assert!(soon.is_err());
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
        let kept = |key: &'static str| lock(&cache.slots).contains_key(&key);
        assert!(kept("a") && kept("e") && kept("f") && !kept("b"));
    }

    /// Has answers in use until this is dropped, as a tenant has with a server that is slow the second time.
    async fn in_use<'c>(
        cache: &'c Numbers,
        namespace: &'c str,
        answers: &[(&'static str, u32)],
    ) -> Vec<Pin<Box<dyn Future<Output = ()> + 'c>>> {
        let mut held = Vec::new();
        for (key, number) in answers.iter().copied() {
            let good = async move |_| Ok(Arc::new(number));
            let around = (namespace, Instant::now());
            cache.unlimited(&key, around, |_| true, good).await.unwrap();
            let mut slow: Pin<Box<dyn Future<Output = ()>>> = Box::pin(async move {
                let never = async |_| std::future::pending().await;
                let around = (namespace, Instant::now());
                drop(cache.unlimited(&key, around, |_| true, never).await);
            });
            assert!(futures::poll!(&mut slow).is_pending());
            held.push(slow);
        }
        held
    }

    /// How many requests two look-ups at the same time need.
    async fn requests(cache: &Numbers, key: &'static str, namespace: &str, number: u32) -> usize {
        let requests = AtomicUsize::new(0);
        let fetch = async |_| {
            requests.fetch_add(1, Ordering::Relaxed);
            tokio::task::yield_now().await;
            Ok(Arc::new(number))
        };
        let since = Instant::now();
        let look_up = || cache.unlimited(&key, (namespace, since), |_| true, fetch);
        let (first, second) = tokio::join!(look_up(), look_up());
        assert_eq!((first.as_deref(), second.as_deref()), (Ok(&number), Ok(&number)));
        requests.into_inner()
    }

    #[tokio::test]
    async fn what_one_namespace_has_in_use_does_not_keep_others_from_sharing() {
        let cache = with(Terms {
            idle: 2 * cost(1000),
            budget: Budget::new(6 * cost(1000), SHARE),
            apart: Duration::ZERO,
        });
        assert_eq!(requests(&cache, "before", "modest", 1000).await, 1);
        let keys = ["a", "b", "c", "d", "e", "f", "g"].map(|key| (key, 1000));
        let held = in_use(&cache, "greedy", &keys).await;
        assert_eq!(
            kept_bytes(&cache),
            4 * cost(1000),
            "a half for the one who takes all"
        );
        assert_eq!(requests(&cache, "after", "modest", 1000).await, 1);
        let kept = |key: &'static str| lock(&cache.slots).contains_key(&key);
        assert!(kept("before") && kept("after"), "and what was kept stays");
        assert_eq!(
            requests(&cache, "more", "greedy", 1000).await,
            2,
            "alone, and at his own cost"
        );
        drop(held);
        assert_eq!(requests(&cache, "more", "greedy", 1000).await, 1);
    }

    #[tokio::test]
    async fn caches_share_the_memory_for_what_is_in_use() {
        let terms = Terms {
            idle: cost(1000),
            budget: Budget::new(4 * cost(1000), SHARE),
            apart: Duration::ZERO,
        };
        let (one, other) = (with(terms.clone()), with(terms));
        let _held = [
            in_use(&one, "a", &[("a", 1000), ("b", 1000)]).await,
            in_use(&other, "b", &[("a", 1000), ("b", 1000)]).await,
        ];
        assert_eq!(requests(&one, "c", "c", 1000).await, 2, "all of it is in use");
    }

    #[tokio::test]
    async fn an_answer_that_has_not_changed_stays_with_who_had_it_fetched() {
        let cache = with(Terms {
            idle: 2 * cost(1000),
            budget: Budget::new(6 * cost(1000), SHARE),
            apart: Duration::ZERO,
        });
        assert_eq!(requests(&cache, "shared", "modest", 1000).await, 1);
        let _held = in_use(&cache, "greedy", &["a", "b", "c"].map(|key| (key, 1000))).await;
        let unchanged = async |kept: Option<Arc<u32>>| kept.ok_or("lost");
        for namespace in ["greedy", "modest"] {
            let around = (namespace, Instant::now());
            let answer = cache.unlimited(&"shared", around, |_| true, unchanged).await;
            assert_eq!(answer, Ok(Arc::new(1000)), "{namespace}");
        }
    }

    #[tokio::test]
    async fn failures_take_room_too() {
        let cache = cache(1 << 20);
        let bad = async |_| Err("0123456789");
        let around = ("", Instant::now());
        cache.unlimited(&"a", around, |_| true, bad).await.unwrap_err();
        assert_eq!(kept_bytes(&cache), cost(10));
    }
}
