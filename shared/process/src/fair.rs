//! A semaphore whose permits are shared fairly between keys, such as the namespaces of tenants.
//!
//! There is a total number of permits, and one key holds at most its share of them. Keys that wait are served round-robin,
//! and the waiters of one key in the order of their arrival, after those with priority. So how long a key waits depends on
//! the number of keys that wait, and not on the number of requests of one of them.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    hash::Hash,
    sync::{Arc, Mutex},
};

use tokio::sync::oneshot;

use super::lock;

/// A semaphore with a limit for all and a share for each key. Clones are handles to the same semaphore.
pub struct FairSemaphore<K: Clone + Eq + Hash> {
    share: usize,
    state: Arc<Mutex<State<K>>>,
}

/// A permit for one unit of work. Dropping it passes it on to the next waiter.
pub struct FairPermit<K: Clone + Eq + Hash> {
    semaphore: FairSemaphore<K>,
    key: K,
}

/// The permits that are held, and the waiters.
///
/// Invariant after every operation: no permit is free, or no key is in `ready`.
struct State<K> {
    free: usize,
    /// Only keys that hold permits or have waiters.
    keys: HashMap<K, Queue>,
    /// The keys that have waiters and hold less than their share, in the order in which they are served.
    ready: BTreeMap<u64, K>,
    /// Grows with each ticket and each position in `ready`.
    counter: u64,
}

/// The state of one key.
#[derive(Default)]
struct Queue {
    held: usize,
    waiters: BTreeMap<Ticket, oneshot::Sender<()>>,
    /// Its position in [`State::ready`].
    position: Option<u64>,
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
struct QueuedWaiter<'a, K: Clone + Eq + Hash> {
    semaphore: &'a FairSemaphore<K>,
    key: &'a K,
    ticket: Ticket,
    is_granted: bool,
}

impl<K: Clone + Eq + Hash> FairSemaphore<K> {
    /// `total` permits, of which one key holds at most `share`. Values below one count as one.
    pub fn new(total: usize, share: usize) -> Self {
        let state = State {
            free: total.max(1),
            keys: HashMap::new(),
            ready: BTreeMap::new(),
            counter: 0,
        };
        Self {
            share: share.max(1),
            state: Arc::new(Mutex::new(state)),
        }
    }

    /// Waits for a permit. Dropping the future removes it from the queue.
    pub async fn acquire(&self, key: K) -> FairPermit<K> {
        self.acquire_as(Rank::Normal, key).await
    }

    /// As [`Self::acquire`], but before the other waiters of the key: for a task that others wait for. It has no priority
    /// over the waiters of other keys.
    pub async fn acquire_first(&self, key: K) -> FairPermit<K> {
        self.acquire_as(Rank::First, key).await
    }

    async fn acquire_as(&self, rank: Rank, key: K) -> FairPermit<K> {
        loop {
            let (sender, granted) = oneshot::channel();
            let ticket = {
                let mut state = lock(&self.state);
                if state.take(&key, self.share) {
                    drop(state);
                    return self.permit(key);
                }
                state.wait(&key, rank, sender, self.share)
            };
            let mut waiter = QueuedWaiter {
                semaphore: self,
                key: &key,
                ticket,
                is_granted: false,
            };
            // A sender is dropped only after it has sent, so this succeeds the first time.
            if granted.await.is_ok() {
                waiter.is_granted = true;
                drop(waiter);
                return self.permit(key);
            }
        }
    }

    /// A permit, if one is available without waiting.
    pub fn try_acquire(&self, key: K) -> Option<FairPermit<K>> {
        lock(&self.state).take(&key, self.share).then(|| self.permit(key))
    }

    /// The number of keys that hold permits or wait for them.
    pub fn keys(&self) -> usize {
        lock(&self.state).keys.len()
    }

    fn release(&self, key: &K) {
        let next = lock(&self.state).release(key, self.share);
        if let Some(next) = next {
            // If the waiter is being dropped concurrently, dropping its `QueuedWaiter` releases the permit.
            let _ = next.send(());
        }
    }

    fn permit(&self, key: K) -> FairPermit<K> {
        FairPermit {
            semaphore: self.clone(),
            key,
        }
    }
}

impl<K: Clone + Eq + Hash> State<K> {
    /// Takes a permit, if the key may have one now. No permit is free while a waiter could be served, so no waiter is
    /// overtaken.
    fn take(&mut self, key: &K, share: usize) -> bool {
        let held = self.keys.get(key).map_or(0, |queue| queue.held);
        if self.free == 0 || held >= share {
            return false;
        }
        self.free -= 1;
        self.keys.entry(key.clone()).or_default().held += 1;
        true
    }

    /// Queues a waiter and returns its ticket.
    fn wait(&mut self, key: &K, rank: Rank, waiter: oneshot::Sender<()>, share: usize) -> Ticket {
        let number = self.next_number();
        let ticket = Ticket { rank, number };
        let queue = self.keys.entry(key.clone()).or_default();
        queue.waiters.insert(ticket, waiter);
        self.update_ready(key, share);
        ticket
    }

    /// Releases a permit. Returns the waiter that gets it.
    fn release(&mut self, key: &K, share: usize) -> Option<oneshot::Sender<()>> {
        self.free += 1;
        if let Some(queue) = self.keys.get_mut(key) {
            queue.held = queue.held.saturating_sub(1);
        }
        self.update_ready(key, share);
        let (_, next) = self.ready.pop_first()?;
        self.free -= 1;
        let queue = self.keys.get_mut(&next)?;
        queue.position = None;
        queue.held += 1;
        let waiter = queue.waiters.pop_first();
        self.update_ready(&next, share);
        waiter.map(|(_, waiter)| waiter)
    }

    /// Removes a waiter from the queue. Returns whether it was still there; if not, a permit was granted to it.
    fn cancel(&mut self, key: &K, ticket: Ticket, share: usize) -> bool {
        let queue = self.keys.get_mut(key);
        let is_waiting = queue.is_some_and(|queue| queue.waiters.remove(&ticket).is_some());
        self.update_ready(key, share);
        is_waiting
    }

    /// Adds a key to `ready` or removes it from there, and forgets the key if it has neither permits nor waiters.
    fn update_ready(&mut self, key: &K, share: usize) {
        let next = self.counter;
        let Some(queue) = self.keys.get_mut(key) else {
            return;
        };
        let is_due = !queue.waiters.is_empty() && queue.held < share;
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
        if queue.held == 0 && queue.waiters.is_empty() {
            self.keys.remove(key);
        }
    }

    fn next_number(&mut self) -> u64 {
        let number = self.counter;
        self.counter += 1;
        number
    }
}

impl<K: Clone + Eq + Hash> Drop for QueuedWaiter<'_, K> {
    fn drop(&mut self) {
        if self.is_granted {
            return;
        }
        let was_waiting = lock(&self.semaphore.state).cancel(self.key, self.ticket, self.semaphore.share);
        if !was_waiting {
            self.semaphore.release(self.key);
        }
    }
}

impl<K: Clone + Eq + Hash> Drop for FairPermit<K> {
    fn drop(&mut self) {
        self.semaphore.release(&self.key);
    }
}

impl<K: Clone + Eq + Hash> Clone for FairSemaphore<K> {
    fn clone(&self) -> Self {
        Self {
            share: self.share,
            state: Arc::clone(&self.state),
        }
    }
}

impl<K: Clone + Eq + Hash> fmt::Debug for FairSemaphore<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = lock(&self.state);
        f.debug_struct("FairSemaphore")
            .field("free", &state.free)
            .field("share", &self.share)
            .field("keys", &state.keys.len())
            .finish()
    }
}

impl<K: Clone + Eq + Hash> fmt::Debug for FairPermit<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FairPermit")
    }
}

#[cfg(test)]
mod tests;
