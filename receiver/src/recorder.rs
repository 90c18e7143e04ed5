//! Records pushes: at most one write per Receiver and second, the first without waiting, and a limited number for all Receivers.
//!
//! ```text
//! request ─► Recorder::record ─► lane of the Receiver: pushes that wait ─► Sink, one write at a time ─► response to each request
//! ```

use std::{collections::HashMap, panic::AssertUnwindSafe, time::Duration};

use futures::FutureExt;
use helmops_api::NamespacedName;
use helmops_fair::TokenBucket;
use helmops_notify::push::{Announcement, MAX_PUSHES};
use thiserror::Error;
use tokio::{
    sync::{
        mpsc::{self, error::TrySendError},
        oneshot,
    },
    task::JoinSet,
    time::{Instant, sleep_until, timeout},
};

use crate::limits::{CONNECTIONS, WRITES};

/// Time between the starts of two writes of one Receiver.
const INTERVAL: Duration = Duration::from_secs(1);

/// Requests that wait for the recorder to see them.
const QUEUE: usize = 256;

/// Requests of one Receiver that wait for their response: a share of the connections, so that a flood to one Receiver leaves the others
/// room. The next write has the pushes of more, too, but they do not learn its result.
const MAX_WAITING: usize = CONNECTIONS.connections / 4;

/// Concurrent writes.
const MAX_WRITES: usize = 16;

/// How long a request waits. Registries wait for a response for 10 s or less.
const DEADLINE: Duration = Duration::from_secs(8);

/// Why a push was not recorded.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum RecordError {
    /// The Receiver does not exist any more.
    #[error("the Receiver does not exist")]
    Gone,
    /// Too many requests of the Receiver wait. Its next write has the pushes nevertheless.
    #[error("too many requests wait for a write")]
    Busy,
    /// Too many requests of all Receivers wait, and the pushes are dropped.
    #[error("too many requests wait")]
    Full,
    /// The write took too long.
    #[error("the push was not recorded within {} s", DEADLINE.as_secs())]
    Timeout,
    /// The API server rejected the write, or is not available.
    #[error("cannot write the status of the Receiver: {0}")]
    Failed(String),
}

/// Where pushes are recorded.
pub trait Sink: Clone + Send + Sync + 'static {
    /// Adds pushes to a Receiver.
    fn record(
        &self,
        receiver: NamespacedName,
        announced: Vec<Announcement>,
    ) -> impl Future<Output = Result<(), RecordError>> + Send;
}

/// Hands pushes over to the task that records them. The task ends after the last clone is dropped and the last push is recorded.
#[derive(Clone, Debug)]
pub struct Recorder(mpsc::Sender<Job>);

#[derive(Debug)]
struct Job {
    receiver: NamespacedName,
    announced: Vec<Announcement>,
    done: oneshot::Sender<Result<(), RecordError>>,
}

impl Recorder {
    /// A recorder, and its task.
    pub fn new<S: Sink>(sink: S) -> (Self, impl Future<Output = ()> + Send) {
        let (jobs, receiver) = mpsc::channel(QUEUE);
        (Self(jobs), Lanes::new(sink).run(receiver))
    }

    /// Records pushes. It returns when they are in the status of the Receiver.
    ///
    /// # Errors
    /// Why they are not, so that the sender should repeat the request.
    pub async fn record(
        &self,
        receiver: NamespacedName,
        announced: Vec<Announcement>,
    ) -> Result<(), RecordError> {
        let (done, result) = oneshot::channel();
        let job = Job {
            receiver,
            announced,
            done,
        };
        self.0.try_send(job).map_err(|error| match error {
            TrySendError::Full(_) => RecordError::Full,
            TrySendError::Closed(_) => stopping(),
        })?;
        match timeout(DEADLINE, result).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err(stopping()),
            Err(_) => Err(RecordError::Timeout),
        }
    }
}

fn stopping() -> RecordError {
    RecordError::Failed("the process is stopping".to_owned())
}

/// The pushes and requests of one Receiver that wait for a write.
#[derive(Default)]
struct Lane {
    announced: Vec<Announcement>,
    waiting: Vec<oneshot::Sender<Result<(), RecordError>>>,
    /// The requests that the write in progress responds to; `None` if there is none.
    writing: Option<usize>,
    /// When the next write may start.
    next: Option<Instant>,
    /// The time since which the oldest request waits.
    since: Option<Instant>,
}

impl Lane {
    /// Whether a write may start.
    fn is_due(&self, now: Instant) -> bool {
        self.has_work() && self.writing.is_none() && self.next.is_none_or(|next| next <= now)
    }

    /// Whether pushes wait for a write. A request may not wait for it.
    const fn has_work(&self) -> bool {
        !self.announced.is_empty()
    }

    fn add(&mut self, job: Job) {
        self.merge(job.announced);
        self.since.get_or_insert_with(Instant::now);
        if self.waiting.len() + self.writing.unwrap_or_default() >= MAX_WAITING {
            // The request may be gone already.
            let _ = job.done.send(Err(RecordError::Busy));
        } else {
            self.waiting.push(job.done);
        }
    }

    fn merge(&mut self, announced: Vec<Announcement>) {
        for announcement in announced {
            let repository = &announcement.repository;
            let known = self
                .announced
                .iter_mut()
                .find(|known| known.repository == *repository);
            if let Some(known) = known {
                // As in the status: the last push to a repository counts.
                *known = announcement;
            } else if self.announced.len() <= MAX_PUSHES {
                // More repositories than a status can hold become one push to all, which the number of them decides.
                self.announced.push(announcement);
            }
        }
    }
}

struct Lanes<S> {
    sink: S,
    /// Only of Receivers with a recent push.
    by_receiver: HashMap<NamespacedName, Lane>,
    writes: JoinSet<NamespacedName>,
    /// The permits for writes.
    permits: TokenBucket,
    /// When there is a permit again.
    permit_at: Option<Instant>,
}

impl<S: Sink> Lanes<S> {
    fn new(sink: S) -> Self {
        Self {
            sink,
            by_receiver: HashMap::new(),
            writes: JoinSet::new(),
            permits: TokenBucket::new(WRITES),
            permit_at: None,
        }
    }

    async fn run(mut self, mut jobs: mpsc::Receiver<Job>) {
        let mut is_open = true;
        while is_open || !self.by_receiver.is_empty() {
            self.start_due();
            let wake = self.next_wake();
            let sleep = async {
                match wake {
                    Some(wake) => sleep_until(wake).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                job = jobs.recv(), if is_open => match job {
                    Some(job) => self.by_receiver.entry(job.receiver.clone()).or_default().add(job),
                    None => is_open = false,
                },
                Some(Ok(receiver)) = self.writes.join_next() => self.written(&receiver),
                () = sleep => {}
            }
            self.forget_idle(is_open);
        }
    }

    /// Starts the writes that are due, of those first that wait for the longest time: a flood to some Receivers keeps no other one out.
    fn start_due(&mut self) {
        let now = Instant::now();
        self.permit_at = None;
        let mut due: Vec<_> = self
            .by_receiver
            .iter_mut()
            .filter(|(_, lane)| lane.is_due(now))
            .collect();
        due.sort_by_key(|(_, lane)| lane.since);
        for (receiver, lane) in due {
            if self.writes.len() >= MAX_WRITES {
                return;
            }
            if let Err(wait) = self.permits.take(now.into_std()) {
                self.permit_at = Some(now + wait);
                return;
            }
            lane.next = Some(now + INTERVAL);
            lane.since = None;
            let announced = std::mem::take(&mut lane.announced);
            let waiting = std::mem::take(&mut lane.waiting);
            lane.writing = Some(waiting.len());
            let (sink, receiver) = (self.sink.clone(), receiver.clone());
            self.writes.spawn(async move {
                let write = AssertUnwindSafe(sink.record(receiver.clone(), announced)).catch_unwind();
                // The panic is already logged.
                let result = write
                    .await
                    .unwrap_or_else(|_| Err(RecordError::Failed("the write has panicked".to_owned())));
                for done in waiting {
                    let _ = done.send(result.clone());
                }
                receiver
            });
        }
    }

    /// When the next write is due, or a lane can be forgotten.
    fn next_wake(&self) -> Option<Instant> {
        if self.writes.len() >= MAX_WRITES {
            return None;
        }
        if self.permit_at.is_some() {
            return self.permit_at;
        }
        let idle = self.by_receiver.values().filter(|lane| lane.writing.is_none());
        idle.filter_map(|lane| lane.next).min()
    }

    fn written(&mut self, receiver: &NamespacedName) {
        if let Some(lane) = self.by_receiver.get_mut(receiver) {
            lane.writing = None;
        }
    }

    /// Forgets lanes that wait for nothing.
    fn forget_idle(&mut self, is_open: bool) {
        let now = Instant::now();
        self.by_receiver.retain(|_, lane| {
            let is_limited = is_open && lane.next.is_some_and(|next| next > now);
            lane.writing.is_some() || lane.has_work() || is_limited
        });
    }
}

#[cfg(test)]
mod tests;
