//! The workqueue: which objects are reconciled, and when.
//!
//! ```text
//! triggers ─► due, after the debounce ─► ready, by namespace ─► running, one per permit ─► due again, if requeued
//! ```
//!
//! An object is never reconciled concurrently. If it changes during its reconciliation, it is reconciled once more afterwards.
//! Several changes within the debounce cause one reconciliation. A waiting object costs the memory of its key only.
//!
//! Namespaces with ready objects get permits in turn, and each reconciliation is a task of its own: neither many objects nor one
//! with a long computation keeps the queue from starting the reconciliations of another tenant.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    future::poll_fn,
    hash::Hash,
    panic::AssertUnwindSafe,
    pin::Pin,
    time::Duration,
};

use futures::{FutureExt, Stream, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use helmops_fair::deadline::{self, DeadlineExceeded};
use prometheus::IntGauge;
use tokio::{task::JoinSet, time::Instant};
use tokio_util::{
    sync::CancellationToken,
    time::{DelayQueue, delay_queue},
};

use crate::{
    backoff,
    workers::{Namespace, Stopping, WorkerPermit, Workers},
};

/// The delay after which an object is requeued; `None` to wait for the next change.
pub type RequeueAfter = Option<Duration>;

/// The timeout of one reconciliation, including waits for repositories. A call of the API server takes at most 30 s, the
/// resolution of versions 5 minutes; a Bundle with thousands of clusters takes minutes to write. Beyond this something hangs.
/// Programs that a reconciliation runs have deadlines of their own, and do not count ([`deadline::excluded`]).
const DEADLINE: Duration = Duration::from_mins(15);
/// The longest delay of an object, since timers are limited to two years. It is reconciled after that, and requeued again.
const LONGEST: Duration = Duration::from_hours(24);
/// The backoff of an object whose reconciliation panicked or reached its deadline.
const ABORTED: helmops_fair::ExponentialBackoff = backoff::SLOW;

/// Runs `work` for each triggered object until `stop` or the end of the triggers, and then finishes what is in progress.
///
/// `work` gets a permit, and returns the delay after which the object is requeued. `depth` is the number of objects that wait
/// for a permit.
pub async fn run<K, W>(
    triggers: impl Stream<Item = Trigger<K>>,
    workers: &Workers,
    depth: &IntGauge,
    stop: &CancellationToken,
    work: impl Fn(K, WorkerPermit) -> W,
) where
    K: QueueKey,
    W: Future<Output = RequeueAfter> + Send + 'static,
{
    let mut triggers = std::pin::pin!(triggers);
    let mut queue = Queue::default();
    let mut running = JoinSet::new();
    let mut permits = FuturesUnordered::new();
    loop {
        depth.set(i64::try_from(queue.is_ready.len()).unwrap_or(i64::MAX));
        permits.extend(queue.take_unserved().map(|namespace| acquire(workers, namespace)));
        tokio::select! {
            () = stop.cancelled() => break,
            trigger = triggers.next() => match trigger {
                Some(trigger) => queue.trigger(trigger),
                None => break,
            },
            () = poll_fn(|context| queue.poll_due(context)) => {}
            Some((namespace, permit)) = permits.next() => match (permit, queue.start(&namespace)) {
                (Ok(permit), Some(key)) => {
                    let work = work(key.clone(), permit);
                    running.spawn(async move { (key, bounded(work).await) });
                }
                (Ok(_), None) => {}
                (Err(Stopping), _) => break,
            },
            Some(done) = running.join_next() => {
                // Panics are caught in the task, and nothing aborts a task.
                if let Ok((key, requeue)) = done {
                    queue.done(key, requeue);
                }
            }
        }
    }
    while running.join_next().await.is_some() {}
}

/// A change of an object.
#[derive(Clone, Debug)]
pub struct Trigger<K> {
    /// The object.
    pub key: K,
    /// How long further changes of it are collected before it is reconciled. The shortest of them counts.
    pub debounce: Duration,
}

/// The key of an object in the queue.
pub trait QueueKey: Clone + Eq + Hash + Send + 'static {
    /// The namespace whose share its reconciliation uses.
    fn namespace(&self) -> &str;
}

fn acquire(
    workers: &Workers,
    namespace: Namespace,
) -> BoxFuture<'_, (Namespace, Result<WorkerPermit, Stopping>)> {
    async move {
        let permit = workers.acquire(Namespace::clone(&namespace)).await;
        (namespace, permit)
    }
    .boxed()
}

/// Aborts a reconciliation that panics or reaches the deadline: only its own object is affected.
async fn bounded(work: impl Future<Output = RequeueAfter>) -> RequeueAfter {
    match deadline::bounded(DEADLINE, AssertUnwindSafe(work).catch_unwind()).await {
        Ok(Ok(next)) => next,
        // The panic is already logged.
        Ok(Err(_)) => Some(ABORTED.max_delay),
        Err(DeadlineExceeded) => {
            tracing::error!(
                "reconciliation cancelled after {} minutes",
                DEADLINE.as_secs() / 60
            );
            Some(ABORTED.initial_delay)
        }
    }
}

/// The state of each object.
struct Queue<K> {
    due: DelayQueue<K>,
    waiting: HashMap<K, Waiting>,
    /// Ready objects by namespace; no list is empty.
    ready: HashMap<Namespace, VecDeque<K>>,
    is_ready: HashSet<K>,
    /// Namespaces with ready objects for which no permit is requested yet.
    unserved: Vec<Namespace>,
    /// The objects in progress, and the debounce of those that have changed since the start.
    running: HashMap<K, Option<Duration>>,
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

impl<K: QueueKey> Queue<K> {
    /// An object has changed.
    fn trigger(&mut self, Trigger { key, debounce }: Trigger<K>) {
        match self.running.get_mut(&key) {
            Some(changed) => *changed = Some(changed.map_or(debounce, |before| before.min(debounce))),
            None => self.wait(key, debounce),
        }
    }

    /// Makes an object due after a delay, or earlier if it already is.
    fn wait(&mut self, key: K, delay: Duration) {
        if self.is_ready.contains(&key) {
            return;
        }
        let until = Instant::now() + delay.min(LONGEST);
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

    /// Completes when an object has become ready.
    fn poll_due(&mut self, context: &mut std::task::Context<'_>) -> std::task::Poll<()> {
        let Some(expired) = std::task::ready!(Pin::new(&mut self.due).poll_expired(context)) else {
            // Nothing is waiting. Objects that are added later are polled in the next iteration of the loop.
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

    /// Namespaces that need a permit, each of them once until it has one.
    fn take_unserved(&mut self) -> impl Iterator<Item = Namespace> + use<K> {
        std::mem::take(&mut self.unserved).into_iter()
    }

    /// Starts the next ready object of a namespace.
    fn start(&mut self, namespace: &Namespace) -> Option<K> {
        let ready = self.ready.get_mut(namespace)?;
        let key = ready.pop_front()?;
        if ready.is_empty() {
            self.ready.remove(namespace);
        } else {
            self.unserved.push(Namespace::clone(namespace));
        }
        self.is_ready.remove(&key);
        self.running.insert(key.clone(), None);
        Some(key)
    }

    /// The reconciliation of an object has ended.
    fn done(&mut self, key: K, requeue: RequeueAfter) {
        let debounce = self.running.remove(&key).flatten();
        if let Some(delay) = [debounce, requeue].into_iter().flatten().min() {
            self.wait(key, delay);
        }
    }
}

#[cfg(test)]
mod tests;
