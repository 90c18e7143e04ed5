//! What is to be worked on, and when.
//!
//! ```text
//! triggers ─► due, after a moment ─► ready ─► running, as many as there are places ─► due again, if it says so
//! ```
//!
//! Each object is worked on once at a time. What changes while it is worked on is worked on once more afterwards, and what
//! changes several times in a moment is worked on once. An object that waits costs its name and no more, and a step of the
//! work wakes nobody but whom it concerns, so that ten thousand that wait do not hold up one that could go on.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    future::poll_fn,
    hash::Hash,
    pin::Pin,
    time::Duration,
};

use futures::{
    FutureExt, Stream, StreamExt,
    future::{BoxFuture, Fuse},
    stream::FuturesUnordered,
};
use prometheus::IntGauge;
use tokio::time::Instant;
use tokio_util::{
    sync::CancellationToken,
    time::{DelayQueue, delay_queue},
};

use crate::workers::{Place, Stopping, Workers};

/// What becomes of an object next: when to come back to it, if not only when something changes.
pub type Next = Option<Duration>;

/// Works on what the triggers name until it is told to stop or the triggers end, and then finishes what is under way.
///
/// `work` gets a place, and gives the time after which the object is to be worked on again. `depth` shows how many wait for
/// a place. Changes that arrive within a `moment`, which may be longer for some objects than for others, are worked on
/// together.
pub async fn run<K, W>(
    triggers: impl Stream<Item = K>,
    moment: impl Fn(&K) -> Duration,
    workers: &Workers,
    depth: &IntGauge,
    stop: &CancellationToken,
    work: impl Fn(K, Place) -> W,
) where
    K: Clone + Eq + Hash,
    W: Future<Output = Next>,
{
    let mut triggers = std::pin::pin!(triggers);
    let mut queue = Queue::default();
    let mut running = FuturesUnordered::new();
    let mut place: Fuse<BoxFuture<'_, Result<Place, Stopping>>> = Fuse::terminated();
    loop {
        depth.set(i64::try_from(queue.ready.len()).unwrap_or(i64::MAX));
        if !queue.ready.is_empty() && futures::future::FusedFuture::is_terminated(&place) {
            place = workers.place().boxed().fuse();
        }
        tokio::select! {
            () = stop.cancelled() => break,
            trigger = triggers.next() => match trigger {
                Some(key) => queue.trigger(key, &moment),
                None => break,
            },
            () = poll_fn(|context| queue.poll_due(context)) => {}
            place = &mut place => match (place, queue.start()) {
                (Ok(place), Some(key)) => {
                    let done = work(key.clone(), place);
                    running.push(done.map(|again| (key, again)));
                }
                (Ok(_), None) => {}
                (Err(Stopping), _) => break,
            },
            Some((key, again)) = running.next() => queue.done(key, again, &moment),
        }
    }
    while running.next().await.is_some() {}
}

/// Where each object stands.
struct Queue<K> {
    due: DelayQueue<K>,
    waiting: HashMap<K, Waiting>,
    ready: VecDeque<K>,
    is_ready: HashSet<K>,
    /// What is worked on, and whether it has changed since that began.
    running: HashMap<K, bool>,
}

struct Waiting {
    entry: delay_queue::Key,
    until: Instant,
}

impl<K> Default for Queue<K> {
    fn default() -> Self {
        Self {
            due: DelayQueue::new(),
            waiting: HashMap::new(),
            ready: VecDeque::new(),
            is_ready: HashSet::new(),
            running: HashMap::new(),
        }
    }
}

impl<K: Clone + Eq + Hash> Queue<K> {
    /// Something has changed about an object.
    fn trigger(&mut self, key: K, moment: impl Fn(&K) -> Duration) {
        if let Some(has_changed) = self.running.get_mut(&key) {
            *has_changed = true;
        } else {
            let moment = moment(&key);
            self.wait(key, moment);
        }
    }

    /// The object is due after some time, or earlier if it is already.
    fn wait(&mut self, key: K, delay: Duration) {
        if self.is_ready.contains(&key) {
            return;
        }
        let until = Instant::now() + delay;
        match self.waiting.get_mut(&key) {
            Some(waiting) if waiting.until <= until => {}
            Some(waiting) => {
                waiting.until = until;
                self.due.reset_at(&waiting.entry, until);
            }
            None => {
                let entry = self.due.insert_at(key.clone(), until);
                self.waiting.insert(key, Waiting { entry, until });
            }
        }
    }

    /// Ready when something has become due.
    fn poll_due(&mut self, context: &mut std::task::Context<'_>) -> std::task::Poll<()> {
        let Some(expired) = std::task::ready!(Pin::new(&mut self.due).poll_expired(context)) else {
            // Nothing waits; what will is noticed when the loop comes round.
            return std::task::Poll::Pending;
        };
        let key = expired.into_inner();
        self.waiting.remove(&key);
        self.is_ready.insert(key.clone());
        self.ready.push_back(key);
        std::task::Poll::Ready(())
    }

    /// The next object to work on.
    fn start(&mut self) -> Option<K> {
        let key = self.ready.pop_front()?;
        self.is_ready.remove(&key);
        self.running.insert(key.clone(), false);
        Some(key)
    }

    /// The work on an object has ended.
    fn done(&mut self, key: K, again: Next, moment: impl Fn(&K) -> Duration) {
        if self.running.remove(&key) == Some(true) {
            let moment = moment(&key);
            self.wait(key, moment);
        } else if let Some(again) = again {
            self.wait(key, again);
        }
    }
}

#[cfg(test)]
mod tests;
