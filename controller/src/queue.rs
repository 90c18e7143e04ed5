//! What is to be worked on, and when.
//!
//! ```text
//! triggers ─► due, after a moment ─► ready, by namespace ─► running, as many as there are places ─► due again, if it says so
//! ```
//!
//! Each object is worked on once at a time. What changes while it is worked on is worked on once more afterwards, and what
//! changes several times in a moment is worked on once. An object that waits costs its name and no more.
//!
//! Namespaces that have objects ready get places in turn, and each piece of work is a task of its own: neither many
//! objects nor one that computes for long keeps the queue from starting another tenant's work.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    future::poll_fn,
    hash::Hash,
    panic::AssertUnwindSafe,
    pin::Pin,
    time::Duration,
};

use futures::{FutureExt, Stream, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use prometheus::IntGauge;
use tokio::{
    task::JoinSet,
    time::{Instant, timeout},
};
use tokio_util::{
    sync::CancellationToken,
    time::{DelayQueue, delay_queue},
};

use crate::{
    backoff::Pace,
    workers::{Namespace, Stopping, WorkerPermit, Workers},
};

/// What becomes of an object next: when to come back to it, if not only when something changes.
pub type Next = Option<Duration>;

/// The longest time for one piece of work, waits for repositories included. A call of the API server has 30 s, a look-up
/// of versions 5 minutes; a Bundle with thousands of clusters takes minutes to write. Beyond this something hangs.
const DEADLINE: Duration = Duration::from_mins(15);
/// When to come back to an object whose work panicked or reached its deadline.
const BROKEN_OFF: Pace = Pace::SLOW;

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
    work: impl Fn(K, WorkerPermit) -> W,
) where
    K: Object,
    W: Future<Output = Next> + Send + 'static,
{
    let mut triggers = std::pin::pin!(triggers);
    let mut queue = Queue::default();
    let mut running = JoinSet::new();
    let mut places = FuturesUnordered::new();
    loop {
        depth.set(i64::try_from(queue.is_ready.len()).unwrap_or(i64::MAX));
        places.extend(queue.take_unserved().map(|namespace| place(workers, namespace)));
        tokio::select! {
            () = stop.cancelled() => break,
            trigger = triggers.next() => match trigger {
                Some(key) => queue.trigger(key, &moment),
                None => break,
            },
            () = poll_fn(|context| queue.poll_due(context)) => {}
            Some((namespace, place)) = places.next() => match (place, queue.start(&namespace)) {
                (Ok(place), Some(key)) => {
                    let work = work(key.clone(), place);
                    running.spawn(async move { (key, bounded(work).await) });
                }
                (Ok(_), None) => {}
                (Err(Stopping), _) => break,
            },
            Some(done) = running.join_next() => {
                // Panics are caught within, and nothing aborts a task.
                if let Ok((key, again)) = done {
                    queue.done(key, again, &moment);
                }
            }
        }
    }
    while running.join_next().await.is_some() {}
}

/// What is worked on.
pub trait Object: Clone + Eq + Hash + Send + 'static {
    /// The namespace that its work is counted to.
    fn namespace(&self) -> &str;
}

fn place(
    workers: &Workers,
    namespace: Namespace,
) -> BoxFuture<'_, (Namespace, Result<WorkerPermit, Stopping>)> {
    async move {
        let place = workers.place(Namespace::clone(&namespace)).await;
        (namespace, place)
    }
    .boxed()
}

/// Work that panics or never ends is broken off: it holds up its own object, and nothing else.
async fn bounded(work: impl Future<Output = Next>) -> Next {
    match timeout(DEADLINE, AssertUnwindSafe(work).catch_unwind()).await {
        Ok(Ok(next)) => next,
        // The panic itself is in the log already.
        Ok(Err(_)) => Some(BROKEN_OFF.longest),
        Err(_) => {
            tracing::error!(
                "reconciliation cancelled after {} minutes",
                DEADLINE.as_secs() / 60
            );
            Some(BROKEN_OFF.first)
        }
    }
}

/// Where each object stands.
struct Queue<K> {
    due: DelayQueue<K>,
    waiting: HashMap<K, Waiting>,
    /// By namespace; none is empty.
    ready: HashMap<Namespace, VecDeque<K>>,
    is_ready: HashSet<K>,
    /// Namespaces with something ready for which no place is requested yet.
    unserved: Vec<Namespace>,
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
            ready: HashMap::new(),
            is_ready: HashSet::new(),
            unserved: Vec::new(),
            running: HashMap::new(),
        }
    }
}

impl<K: Object> Queue<K> {
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
        if let Some(ready) = self.ready.get_mut(key.namespace()) {
            ready.push_back(key);
        } else {
            let namespace = Namespace::from(key.namespace());
            self.unserved.push(Namespace::clone(&namespace));
            self.ready.insert(namespace, VecDeque::from([key]));
        }
        std::task::Poll::Ready(())
    }

    /// Namespaces that need a place, each of them once until it has one.
    fn take_unserved(&mut self) -> impl Iterator<Item = Namespace> + use<K> {
        std::mem::take(&mut self.unserved).into_iter()
    }

    /// The next object of a namespace to work on.
    fn start(&mut self, namespace: &Namespace) -> Option<K> {
        let ready = self.ready.get_mut(namespace)?;
        let key = ready.pop_front()?;
        if ready.is_empty() {
            self.ready.remove(namespace);
        } else {
            self.unserved.push(Namespace::clone(namespace));
        }
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
