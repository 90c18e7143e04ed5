//! Records pushes: at most one write per Receiver and second, and the first without waiting.
//!
//! ```text
//! request ─► Recorder::record ─► lane of the Receiver: pushes that wait ─► Sink, one write at a time ─► response to each request
//! ```

use std::{collections::HashMap, time::Duration};

use helmops_api::NamespacedName;
use helmops_notify::push::{Announcement, MAX_PUSHES};
use thiserror::Error;
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinSet,
    time::{Instant, sleep_until, timeout},
};

/// Time between the starts of two writes of one Receiver.
const INTERVAL: Duration = Duration::from_secs(1);

/// Requests that wait for the recorder to see them.
const QUEUE: usize = 256;

/// Requests that wait for one write.
const MAX_WAITING: usize = 64;

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
    /// Too many requests wait.
    #[error("too many requests wait for a write")]
    Busy,
    /// It took too long.
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
        self.0.try_send(job).map_err(|_| RecordError::Busy)?;
        match timeout(DEADLINE, result).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err(RecordError::Failed("the process is stopping".to_owned())),
            Err(_) => Err(RecordError::Timeout),
        }
    }
}

/// What waits for one Receiver.
#[derive(Default)]
struct Lane {
    announced: Vec<Announcement>,
    waiting: Vec<oneshot::Sender<Result<(), RecordError>>>,
    is_writing: bool,
    /// When the next write may start.
    next: Option<Instant>,
}

impl Lane {
    /// Whether a write may start.
    fn is_due(&self, now: Instant) -> bool {
        !self.waiting.is_empty() && !self.is_writing && self.next.is_none_or(|next| next <= now)
    }

    fn add(&mut self, job: Job) {
        if self.waiting.len() >= MAX_WAITING {
            // The request may be gone already.
            let _ = job.done.send(Err(RecordError::Busy));
            return;
        }
        for announcement in job.announced {
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
        self.waiting.push(job.done);
    }
}

struct Lanes<S> {
    sink: S,
    /// Only of Receivers with a recent push.
    by_receiver: HashMap<NamespacedName, Lane>,
    writes: JoinSet<NamespacedName>,
}

impl<S: Sink> Lanes<S> {
    fn new(sink: S) -> Self {
        Self {
            sink,
            by_receiver: HashMap::new(),
            writes: JoinSet::new(),
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
                Some(written) = self.writes.join_next() => self.written(written.ok()),
                () = sleep => {}
            }
            self.forget_idle(is_open);
        }
    }

    /// Starts the writes that are due.
    fn start_due(&mut self) {
        let now = Instant::now();
        for (receiver, lane) in &mut self.by_receiver {
            if self.writes.len() >= MAX_WRITES {
                return;
            }
            if !lane.is_due(now) {
                continue;
            }
            lane.is_writing = true;
            lane.next = Some(now + INTERVAL);
            let announced = std::mem::take(&mut lane.announced);
            let waiting = std::mem::take(&mut lane.waiting);
            let (sink, receiver) = (self.sink.clone(), receiver.clone());
            self.writes.spawn(async move {
                let result = sink.record(receiver.clone(), announced).await;
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
        let idle = self.by_receiver.values().filter(|lane| !lane.is_writing);
        idle.filter_map(|lane| lane.next).min()
    }

    fn written(&mut self, receiver: Option<NamespacedName>) {
        if let Some(receiver) = receiver {
            if let Some(lane) = self.by_receiver.get_mut(&receiver) {
                lane.is_writing = false;
            }
        } else if self.writes.is_empty() {
            // A write that panicked does not say whose it was. Its requests fail, as their channels are closed.
            for lane in self.by_receiver.values_mut() {
                lane.is_writing = false;
            }
        }
    }

    /// Forgets lanes that wait for nothing.
    fn forget_idle(&mut self, is_open: bool) {
        let now = Instant::now();
        self.by_receiver.retain(|_, lane| {
            let is_limited = is_open && lane.next.is_some_and(|next| next > now);
            lane.is_writing || !lane.waiting.is_empty() || is_limited
        });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use tokio::time::{advance, sleep};

    use super::*;

    /// When a write was done, of which Receiver, with which repositories.
    type Write = (Instant, String, Vec<String>);

    /// Records what is written and when; each write takes a while.
    #[derive(Clone, Default)]
    struct Written {
        writes: Arc<Mutex<Vec<Write>>>,
        takes: Duration,
        fails: bool,
    }

    impl Sink for Written {
        async fn record(
            &self,
            receiver: NamespacedName,
            announced: Vec<Announcement>,
        ) -> Result<(), RecordError> {
            sleep(self.takes).await;
            let repositories = announced
                .into_iter()
                .map(|announcement| announcement.repository)
                .collect();
            self.writes
                .lock()
                .unwrap()
                .push((Instant::now(), receiver.name, repositories));
            if self.fails {
                Err(RecordError::Gone)
            } else {
                Ok(())
            }
        }
    }

    fn push(repository: &str) -> Vec<Announcement> {
        vec![Announcement {
            repository: repository.into(),
            tag: String::new(),
        }]
    }

    fn receiver(name: &str) -> NamespacedName {
        NamespacedName::new("default", name)
    }

    fn started(sink: &Written) -> (Recorder, JoinSet<()>) {
        let (recorder, task) = Recorder::new(sink.clone());
        let mut tasks = JoinSet::new();
        tasks.spawn(task);
        (recorder, tasks)
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_push_is_written_immediately_and_later_ones_together() {
        let sink = Written {
            takes: Duration::from_millis(10),
            ..Written::default()
        };
        let (recorder, mut tasks) = started(&sink);
        let start = Instant::now();
        recorder.record(receiver("a"), push("1")).await.unwrap();
        assert_eq!(start.elapsed().as_millis(), 10);
        let more = ["2", "3", "2"].map(|repository| recorder.record(receiver("a"), push(repository)));
        let other = recorder.record(receiver("b"), push("4"));
        let (results, other) = tokio::join!(futures::future::join_all(more), other);
        assert!(results.iter().all(Result::is_ok) && other.is_ok());
        let writes: Vec<_> = sink
            .writes
            .lock()
            .unwrap()
            .iter()
            .map(|(at, name, all)| ((*at - start).as_millis(), name.clone(), all.join(" ")))
            .collect();
        assert_eq!(
            writes,
            [
                (10, "a".into(), "1".into()),
                (20, "b".into(), "4".into()),
                (1_010, "a".into(), "2 3".into())
            ]
        );
        drop(recorder);
        tasks.join_next().await.unwrap().unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_receiver_delays_no_other_and_its_requests_time_out() {
        let sink = Written {
            takes: Duration::from_mins(1),
            ..Written::default()
        };
        let (recorder, _tasks) = started(&sink);
        let start = Instant::now();
        let all = (0..3).map(|index| recorder.record(receiver(&index.to_string()), push("1")));
        let results = futures::future::join_all(all).await;
        assert_eq!(results, vec![Err(RecordError::Timeout); 3]);
        assert_eq!(start.elapsed(), DEADLINE);
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_requests_are_bounded() {
        let sink = Written {
            takes: Duration::from_secs(1),
            ..Written::default()
        };
        let (recorder, _tasks) = started(&sink);
        let first = recorder.record(receiver("a"), push("1"));
        let flood = async {
            advance(Duration::from_millis(1)).await;
            let all = (0..200).map(|index| recorder.record(receiver("a"), push(&index.to_string())));
            futures::future::join_all(all).await
        };
        let (first, flood) = tokio::join!(first, flood);
        assert!(first.is_ok());
        let busy = flood
            .iter()
            .filter(|result| **result == Err(RecordError::Busy))
            .count();
        assert_eq!(busy, 200 - MAX_WAITING);
        let announced = sink.writes.lock().unwrap()[1].2.len();
        assert_eq!(
            announced,
            MAX_PUSHES + 1,
            "one more than a status holds, so that it becomes one for all"
        );
    }

    /// A status has one push for each repository, so tags must not take the room of another repository.
    #[tokio::test(start_paused = true)]
    async fn many_tags_of_a_repository_keep_no_other_repository_out() {
        let sink = Written::default();
        let (recorder, _tasks) = started(&sink);
        recorder.record(receiver("a"), push("first")).await.unwrap();
        let tags = (0..=MAX_PUSHES).map(|tag| Announcement {
            repository: "web".to_owned(),
            tag: tag.to_string(),
        });
        let announced: Vec<_> = tags.chain(push("db")).collect();
        let all = announced
            .into_iter()
            .map(|announcement| recorder.record(receiver("a"), vec![announcement]));
        let results = futures::future::join_all(all).await;
        assert!(results.iter().all(Result::is_ok));
        assert_eq!(sink.writes.lock().unwrap()[1].2, ["web", "db"]);
    }

    #[tokio::test(start_paused = true)]
    async fn an_error_reaches_each_request_and_pushes_are_recorded_before_the_end() {
        let sink = Written {
            fails: true,
            takes: Duration::from_millis(5),
            ..Written::default()
        };
        let (recorder, mut tasks) = started(&sink);
        assert_eq!(
            recorder.record(receiver("a"), push("1")).await,
            Err(RecordError::Gone)
        );
        let last = recorder.clone();
        let (result, ()) = tokio::join!(last.record(receiver("a"), push("2")), async { drop(recorder) });
        assert_eq!(result, Err(RecordError::Gone));
        drop(last);
        tasks.join_next().await.unwrap().unwrap();
        assert_eq!(sink.writes.lock().unwrap().len(), 2);
    }
}
