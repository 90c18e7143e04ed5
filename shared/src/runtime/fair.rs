//! A semaphore whose permits are shared fairly between keys, such as the namespaces of tenants.
//!
//! There is a total number of permits, and one key holds at most its share of them. Keys that wait are served in turn
//! (round-robin), and the waiters of one key in the order of their arrival, after those that go first. So the wait of a key depends on the number of
//! keys that wait, and not on the number of requests that one of them makes.

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

/// The right to one unit of work. Dropping it passes it on to the next waiter.
pub struct FairPermit<K: Clone + Eq + Hash> {
    semaphore: FairSemaphore<K>,
    key: K,
}

/// Who holds permits, and who waits.
///
/// After every operation: no permit is free, or no key has a turn.
struct State<K> {
    free: usize,
    /// Only keys that hold permits or have waiters.
    keys: HashMap<K, Queue>,
    /// The keys that have waiters and hold less than their share, in the order in which they are served.
    turns: BTreeMap<u64, K>,
    /// Grows with each ticket and each turn that is given out.
    clock: u64,
}

/// One key.
#[derive(Default)]
struct Queue {
    held: usize,
    waiters: BTreeMap<Ticket, oneshot::Sender<()>>,
    turn: Option<u64>,
}

/// Where a waiter is in the queue of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Ticket {
    rank: Rank,
    number: u64,
}

/// In the order in which they are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    First,
    Usual,
}

/// A place in a queue. Dropping it gives up the place, or the permit if one was granted meanwhile.
struct Waiting<'a, K: Clone + Eq + Hash> {
    semaphore: &'a FairSemaphore<K>,
    key: &'a K,
    ticket: Ticket,
    has_ended: bool,
}

impl<K: Clone + Eq + Hash> FairSemaphore<K> {
    /// `total` permits, of which one key holds at most `share`. Less than one of either is taken as one.
    pub fn new(total: usize, share: usize) -> Self {
        let state = State {
            free: total.max(1),
            keys: HashMap::new(),
            turns: BTreeMap::new(),
            clock: 0,
        };
        Self {
            share: share.max(1),
            state: Arc::new(Mutex::new(state)),
        }
    }

    /// Waits for a permit. Dropping the future gives up its place in the queue.
    pub async fn acquire(&self, key: K) -> FairPermit<K> {
        self.acquire_as(Rank::Usual, key).await
    }

    /// As [`Self::acquire`], but ahead of the key's other waiters: for a waiter that others wait for. It is served no
    /// earlier than the waiters of other keys.
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
            let mut waiting = Waiting {
                semaphore: self,
                key: &key,
                ticket,
                has_ended: false,
            };
            // A sender is dropped only after it has sent, so this is true the first time.
            if granted.await.is_ok() {
                waiting.has_ended = true;
                drop(waiting);
                return self.permit(key);
            }
        }
    }

    /// A permit, if there is one without waiting.
    pub fn try_acquire(&self, key: K) -> Option<FairPermit<K>> {
        lock(&self.state).take(&key, self.share).then(|| self.permit(key))
    }

    /// How many keys hold permits or wait for some.
    pub fn keys(&self) -> usize {
        lock(&self.state).keys.len()
    }

    fn release(&self, key: &K) {
        let next = lock(&self.state).give_back(key, self.share);
        if let Some(next) = next {
            // Where the waiter is being dropped at this moment, its place gives the permit back.
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
    /// Takes a permit, if the key may have one now. Where a waiter could be served there is no free permit, so nobody is
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
        let number = self.tick();
        let ticket = Ticket { rank, number };
        let queue = self.keys.entry(key.clone()).or_default();
        queue.waiters.insert(ticket, waiter);
        self.settle(key, share);
        ticket
    }

    /// Gives a permit back; whom it is for now.
    fn give_back(&mut self, key: &K, share: usize) -> Option<oneshot::Sender<()>> {
        self.free += 1;
        if let Some(queue) = self.keys.get_mut(key) {
            queue.held = queue.held.saturating_sub(1);
        }
        self.settle(key, share);
        let (_, next) = self.turns.pop_first()?;
        self.free -= 1;
        let queue = self.keys.get_mut(&next)?;
        queue.turn = None;
        queue.held += 1;
        let waiter = queue.waiters.pop_first();
        self.settle(&next, share);
        waiter.map(|(_, waiter)| waiter)
    }

    /// Gives up a place; whether there was still one. If not, a permit was granted for it.
    fn leave(&mut self, key: &K, ticket: Ticket, share: usize) -> bool {
        let queue = self.keys.get_mut(key);
        let is_waiting = queue.is_some_and(|queue| queue.waiters.remove(&ticket).is_some());
        self.settle(key, share);
        is_waiting
    }

    /// Gives a key its turn or takes it away, and forgets the key if it has nothing left.
    fn settle(&mut self, key: &K, share: usize) {
        let next = self.clock;
        let Some(queue) = self.keys.get_mut(key) else {
            return;
        };
        let is_due = !queue.waiters.is_empty() && queue.held < share;
        match queue.turn {
            None if is_due => {
                queue.turn = Some(next);
                self.clock += 1;
                self.turns.insert(next, key.clone());
            }
            Some(turn) if !is_due => {
                queue.turn = None;
                self.turns.remove(&turn);
            }
            _ => {}
        }
        if queue.held == 0 && queue.waiters.is_empty() {
            self.keys.remove(key);
        }
    }

    fn tick(&mut self) -> u64 {
        let now = self.clock;
        self.clock += 1;
        now
    }
}

impl<K: Clone + Eq + Hash> Drop for Waiting<'_, K> {
    fn drop(&mut self) {
        if self.has_ended {
            return;
        }
        let was_waiting = lock(&self.semaphore.state).leave(self.key, self.ticket, self.semaphore.share);
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
