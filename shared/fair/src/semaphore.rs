//! A semaphore whose permits are shared fairly between keys, such as the namespaces of tenants.
//!
//! There is a total number of permits, and one key holds at most its share of them. Keys that wait are served round-robin,
//! and the waiters of one key in the order of their arrival, after those with priority. So how long a key waits depends on
//! the number of keys that wait, and not on the number of requests of one of them.
//!
//! A permit can have a second key, such as the host of a request, with a limit for all keys together and one for each pair of
//! keys. A waiter must be within all limits, and is counted in all of them in one step. What waits holds nothing, whatever limit
//! it waits for: otherwise keys that only wait for a slow host would hold permits that others could use.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    hash::Hash,
    sync::{Arc, Mutex},
};

use tokio::sync::oneshot;

use crate::lock;

/// A semaphore with a limit for all and a share for each key. Clones are handles to the same semaphore.
pub struct FairSemaphore<K: Key, S: Key = ()> {
    limits: PairLimits,
    state: Arc<Mutex<State<K, S>>>,
}

/// A permit for one unit of work. Dropping it passes it on to the next waiter.
pub struct FairPermit<K: Key, S: Key = ()> {
    semaphore: FairSemaphore<K, S>,
    key: K,
    second: S,
}

/// The limits of a semaphore with second keys. Zero counts as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PairLimits {
    /// Permits of all keys together.
    pub total: usize,
    /// Permits that one key holds at most.
    pub per_key: usize,
    /// Permits of all keys together for one second key.
    pub per_second: usize,
    /// Permits that one key holds at most for one second key.
    pub per_pair: usize,
}

/// What permits can be shared between.
pub trait Key: Clone + Eq + Hash {}

impl<T: Clone + Eq + Hash> Key for T {}

/// The permits that are held, and the waiters.
///
/// Invariant after every operation: no waiter is within all limits. So a permit that is taken without waiting overtakes no one.
struct State<K, S> {
    free: usize,
    /// Only keys that hold permits or have waiters.
    keys: HashMap<K, Queue<S>>,
    /// Permits that are held by second key; only those that have some.
    seconds: HashMap<S, usize>,
    /// The keys that have waiters and hold less than their share, in the order in which they are served.
    ready: BTreeMap<u64, K>,
    /// Grows with each ticket and each position in `ready`.
    counter: u64,
}

/// The state of one key.
struct Queue<S> {
    held: usize,
    /// Only second keys with permits or waiters of this key.
    pairs: HashMap<S, Pair>,
    /// The second keys with waiters, by the ticket of their first waiter.
    waiting: BTreeMap<Ticket, S>,
    /// Its position in [`State::ready`].
    position: Option<u64>,
}

/// The permits and waiters of a key for a second key.
#[derive(Default)]
struct Pair {
    held: usize,
    waiters: BTreeMap<Ticket, oneshot::Sender<()>>,
}

/// The position of a waiter in the queue of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Ticket {
    rank: Rank,
    number: u64,
}

/// In the order in which waiters are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    First,
    Normal,
}

/// A waiter in a queue. Dropping it removes it from the queue, or releases its permit if one was granted meanwhile.
struct QueuedWaiter<'a, K: Key, S: Key> {
    semaphore: &'a FairSemaphore<K, S>,
    key: &'a K,
    second: &'a S,
    ticket: Ticket,
    is_granted: bool,
}

impl<K: Key> FairSemaphore<K> {
    /// `total` permits, of which one key holds at most `share`. Values below one count as one.
    pub fn new(total: usize, share: usize) -> Self {
        Self::with_pairs(PairLimits {
            total,
            per_key: share,
            per_second: usize::MAX,
            per_pair: usize::MAX,
        })
    }

    /// Waits for a permit. Dropping the future removes it from the queue.
    pub async fn acquire(&self, key: K) -> FairPermit<K> {
        self.acquire_as(Rank::Normal, key, ()).await
    }

    /// As [`Self::acquire`], but before the other waiters of the key: for a task that others wait for. It has no priority
    /// over the waiters of other keys.
    pub async fn acquire_first(&self, key: K) -> FairPermit<K> {
        self.acquire_as(Rank::First, key, ()).await
    }

    /// A permit, if one is available without waiting.
    pub fn try_acquire(&self, key: K) -> Option<FairPermit<K>> {
        let is_taken = lock(&self.state).take(&self.limits, &key, &());
        is_taken.then(|| self.permit(key, ()))
    }
}

impl<K: Key, S: Key> FairSemaphore<K, S> {
    /// A semaphore whose permits have a second key.
    pub fn with_pairs(limits: PairLimits) -> Self {
        let limits = PairLimits {
            total: limits.total.max(1),
            per_key: limits.per_key.max(1),
            per_second: limits.per_second.max(1),
            per_pair: limits.per_pair.max(1),
        };
        let state = State {
            free: limits.total,
            keys: HashMap::new(),
            seconds: HashMap::new(),
            ready: BTreeMap::new(),
            counter: 0,
        };
        Self {
            limits,
            state: Arc::new(Mutex::new(state)),
        }
    }

    /// Waits for a permit of a key for a second key. Dropping the future removes it from the queue.
    pub async fn acquire_pair(&self, key: K, second: S) -> FairPermit<K, S> {
        self.acquire_as(Rank::Normal, key, second).await
    }

    async fn acquire_as(&self, rank: Rank, key: K, second: S) -> FairPermit<K, S> {
        loop {
            let (sender, granted) = oneshot::channel();
            let ticket = {
                let mut state = lock(&self.state);
                if state.take(&self.limits, &key, &second) {
                    drop(state);
                    return self.permit(key, second);
                }
                state.wait(&self.limits, &key, &second, rank, sender)
            };
            let mut waiter = QueuedWaiter {
                semaphore: self,
                key: &key,
                second: &second,
                ticket,
                is_granted: false,
            };
            // A sender is dropped only after it has sent, so this succeeds the first time.
            if granted.await.is_ok() {
                waiter.is_granted = true;
                drop(waiter);
                return self.permit(key, second);
            }
        }
    }

    /// Whether anyone waits for a permit.
    pub fn has_waiters(&self) -> bool {
        let state = lock(&self.state);
        state.keys.values().any(|queue| !queue.waiting.is_empty())
    }

    /// Whether a key holds a permit.
    pub fn holds(&self, key: &K) -> bool {
        let state = lock(&self.state);
        state.keys.get(key).is_some_and(|queue| queue.held > 0)
    }

    /// The number of permits that these keys hold.
    pub fn held_by(&self, is_counted: impl Fn(&K) -> bool) -> usize {
        let state = lock(&self.state);
        let counted = state.keys.iter().filter(|(key, _)| is_counted(key));
        counted.map(|(_, queue)| queue.held).sum()
    }

    /// The number of keys that hold permits or wait for them.
    pub fn keys(&self) -> usize {
        lock(&self.state).keys.len()
    }

    fn release(&self, key: &K, second: &S) {
        let granted = lock(&self.state).release(&self.limits, key, second);
        for waiter in granted {
            // If the waiter is being dropped concurrently, dropping its `QueuedWaiter` releases the permit.
            let _ = waiter.send(());
        }
    }

    fn permit(&self, key: K, second: S) -> FairPermit<K, S> {
        FairPermit {
            semaphore: self.clone(),
            key,
            second,
        }
    }
}

impl<K: Key, S: Key> State<K, S> {
    /// Takes a permit, if it is within all limits.
    fn take(&mut self, limits: &PairLimits, key: &K, second: &S) -> bool {
        let queue = self.keys.get(key);
        let is_within = self.free > 0
            && queue.is_none_or(|queue| queue.held < limits.per_key)
            && has_capacity(limits, &self.seconds, queue, second);
        if is_within {
            self.hold(key, second);
        }
        is_within
    }

    fn hold(&mut self, key: &K, second: &S) {
        self.free -= 1;
        *self.seconds.entry(second.clone()).or_default() += 1;
        let queue = self.keys.entry(key.clone()).or_default();
        queue.held += 1;
        queue.pairs.entry(second.clone()).or_default().held += 1;
    }

    /// Queues a waiter and returns its ticket.
    fn wait(
        &mut self,
        limits: &PairLimits,
        key: &K,
        second: &S,
        rank: Rank,
        waiter: oneshot::Sender<()>,
    ) -> Ticket {
        let ticket = Ticket {
            rank,
            number: self.next_number(),
        };
        let queue = self.keys.entry(key.clone()).or_default();
        let pair = queue.pairs.entry(second.clone()).or_default();
        let first = pair.waiters.first_key_value().map(|(first, _)| *first);
        if first.is_none_or(|first| ticket < first) {
            if let Some(first) = first {
                queue.waiting.remove(&first);
            }
            queue.waiting.insert(ticket, second.clone());
        }
        pair.waiters.insert(ticket, waiter);
        self.update(limits, key);
        ticket
    }

    /// Releases a permit. Returns the waiters that are granted one now: with second keys, one permit may have blocked several.
    fn release(&mut self, limits: &PairLimits, key: &K, second: &S) -> Vec<oneshot::Sender<()>> {
        self.free += 1;
        if let Some(held) = self.seconds.get_mut(second) {
            *held -= 1;
            if *held == 0 {
                self.seconds.remove(second);
            }
        }
        if let Some(queue) = self.keys.get_mut(key) {
            queue.held -= 1;
            if let Some(pair) = queue.pairs.get_mut(second) {
                pair.held -= 1;
            }
            queue.remove_if_idle(second);
        }
        self.update(limits, key);
        std::iter::from_fn(|| self.grant(limits)).collect()
    }

    /// Grants a permit to the next waiter that is within all limits.
    fn grant(&mut self, limits: &PairLimits) -> Option<oneshot::Sender<()>> {
        if self.free == 0 {
            return None;
        }
        // Without second keys that is the first one. A second key at its limit is held by several keys or has a full pair, so there
        // are few of them, and a key is skipped after as few steps.
        let (position, key, ticket, second) = self.ready.iter().find_map(|(position, key)| {
            let queue = self.keys.get(key)?;
            let mut waiting = queue.waiting.iter();
            let (ticket, second) =
                waiting.find(|(_, second)| has_capacity(limits, &self.seconds, Some(queue), second))?;
            Some((*position, key.clone(), *ticket, second.clone()))
        })?;
        let waiter = self.keys.get_mut(&key)?.remove(&second, ticket);
        self.hold(&key, &second);
        // The next waiter of the key is served after those of the other keys.
        self.ready.remove(&position);
        self.keys.get_mut(&key)?.position = None;
        self.update(limits, &key);
        waiter
    }

    /// Removes a waiter from the queue. Returns whether it was still there; if not, a permit was granted to it.
    fn cancel(&mut self, limits: &PairLimits, key: &K, second: &S, ticket: Ticket) -> bool {
        let Some(queue) = self.keys.get_mut(key) else {
            return false;
        };
        let was_waiting = queue.remove(second, ticket).is_some();
        queue.remove_if_idle(second);
        self.update(limits, key);
        was_waiting
    }

    /// Adds a key to `ready` or removes it from there, and forgets the key if it has neither permits nor waiters.
    fn update(&mut self, limits: &PairLimits, key: &K) {
        let next = self.counter;
        let Some(queue) = self.keys.get_mut(key) else {
            return;
        };
        let is_due = !queue.waiting.is_empty() && queue.held < limits.per_key;
        match queue.position {
            None if is_due => {
                queue.position = Some(next);
                self.counter += 1;
                self.ready.insert(next, key.clone());
            }
            Some(position) if !is_due => {
                queue.position = None;
                self.ready.remove(&position);
            }
            _ => {}
        }
        if queue.pairs.is_empty() {
            self.keys.remove(key);
        }
    }

    fn next_number(&mut self) -> u64 {
        let number = self.counter;
        self.counter += 1;
        number
    }
}

/// Whether a second key has a permit left for a key, and for this pair.
fn has_capacity<S: Key>(
    limits: &PairLimits,
    seconds: &HashMap<S, usize>,
    queue: Option<&Queue<S>>,
    second: &S,
) -> bool {
    let own = queue.and_then(|queue| queue.pairs.get(second));
    own.is_none_or(|pair| pair.held < limits.per_pair)
        && seconds.get(second).is_none_or(|all| *all < limits.per_second)
}

impl<S: Key> Queue<S> {
    /// Removes a waiter.
    fn remove(&mut self, second: &S, ticket: Ticket) -> Option<oneshot::Sender<()>> {
        let pair = self.pairs.get_mut(second)?;
        let waiter = pair.waiters.remove(&ticket)?;
        if self.waiting.remove(&ticket).is_some()
            && let Some((next, _)) = pair.waiters.first_key_value()
        {
            self.waiting.insert(*next, second.clone());
        }
        Some(waiter)
    }

    fn remove_if_idle(&mut self, second: &S) {
        let is_idle = |pair: &Pair| pair.held == 0 && pair.waiters.is_empty();
        if self.pairs.get(second).is_some_and(is_idle) {
            self.pairs.remove(second);
        }
    }
}

impl<S> Default for Queue<S> {
    fn default() -> Self {
        Self {
            held: 0,
            pairs: HashMap::new(),
            waiting: BTreeMap::new(),
            position: None,
        }
    }
}

impl<K: Key, S: Key> Drop for QueuedWaiter<'_, K, S> {
    fn drop(&mut self) {
        if self.is_granted {
            return;
        }
        let Self {
            semaphore,
            key,
            second,
            ticket,
            ..
        } = *self;
        let was_waiting = lock(&semaphore.state).cancel(&semaphore.limits, key, second, ticket);
        if !was_waiting {
            semaphore.release(key, second);
        }
    }
}

impl<K: Key, S: Key> Drop for FairPermit<K, S> {
    fn drop(&mut self) {
        self.semaphore.release(&self.key, &self.second);
    }
}

impl<K: Key, S: Key> Clone for FairSemaphore<K, S> {
    fn clone(&self) -> Self {
        Self {
            limits: self.limits,
            state: Arc::clone(&self.state),
        }
    }
}

impl<K: Key, S: Key> fmt::Debug for FairSemaphore<K, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = lock(&self.state);
        f.debug_struct("FairSemaphore")
            .field("free", &state.free)
            .field("limits", &self.limits)
            .field("keys", &state.keys.len())
            .finish()
    }
}

impl<K: Key, S: Key> fmt::Debug for FairPermit<K, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FairPermit")
    }
}

#[cfg(test)]
mod pairs;
#[cfg(test)]
mod tests;
