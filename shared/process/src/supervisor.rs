//! The supervisor starts every task. If one of them ends, the process ends.
//!
//! If a detached task dies, the process looks healthy but does nothing. Here, a task that ends or panics before the
//! shutdown ends the process, with an error that names the task.

use std::collections::HashMap;
use std::error::Error;
use std::fmt;
use std::time::Duration;

use thiserror::Error;
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use super::exit::with_causes;
use super::health::Health;
use super::signals::Signals;

/// An error of any kind that ended a task.
pub type TaskError = Box<dyn Error + Send + Sync>;

/// What a task may return: nothing, or a result whose error is the reason of the failure.
pub trait TaskResult: Send + 'static {
    /// Converts to a result.
    fn into_result(self) -> Result<(), TaskError>;
}

impl TaskResult for () {
    fn into_result(self) -> Result<(), TaskError> {
        Ok(())
    }
}

impl<E: Into<TaskError> + Send + 'static> TaskResult for Result<(), E> {
    fn into_result(self) -> Result<(), TaskError> {
        self.map_err(Into::into)
    }
}

/// How long a shutdown may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shutdown {
    /// How long the process keeps working, but unready, after the signal.
    pub delay: Duration,
    /// How long the tasks then have to end.
    pub timeout: Duration,
}

/// Why the process ends with an error.
#[derive(Debug, Error)]
pub enum ProcessError {
    /// A task ended before the shutdown.
    #[error("task {task:?} ended unexpectedly")]
    Ended {
        /// The task's name.
        task: &'static str,
    },
    /// A task failed.
    #[error("task {task:?} failed")]
    Failed {
        /// The task's name.
        task: &'static str,
        /// The reason.
        #[source]
        source: TaskError,
    },
    /// A task panicked: a bug in this code, worth a report.
    #[error("task {task:?} panicked: {message}")]
    Panicked {
        /// The task's name.
        task: &'static str,
        /// The panic's message.
        message: String,
    },
    /// Tasks did not end in time.
    #[error(
        "tasks did not stop within {} s: {}; raise --shutdown-timeout if they only need longer",
        timeout.as_secs(), Names(tasks)
    )]
    StillRunning {
        /// Their names, sorted.
        tasks: Vec<&'static str>,
        /// How long they had.
        timeout: Duration,
    },
    /// A second signal cut the shutdown short.
    #[error(
        "{signal} during shutdown: exiting immediately, with tasks still running: {}",
        Names(tasks)
    )]
    SecondSignal {
        /// The second signal's name.
        signal: &'static str,
        /// The tasks that were still running, sorted by name.
        tasks: Vec<&'static str>,
    },
}

/// Formats task names as a list.
struct Names<'a>(&'a [&'static str]);

impl fmt::Display for Names<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(", "))
    }
}

/// Starts the tasks of a process and ends them together.
#[derive(Debug)]
pub struct Supervisor {
    tasks: JoinSet<Result<(), TaskError>>,
    names: HashMap<Id, &'static str>,
    stop: CancellationToken,
    health: Health,
    shutdown: Shutdown,
}

impl Supervisor {
    /// A supervisor without tasks. It reports to `health` when the process has started, and when the shutdown starts.
    pub fn new(health: Health, shutdown: Shutdown) -> Self {
        let (tasks, names) = (JoinSet::new(), HashMap::new());
        Self {
            tasks,
            names,
            stop: CancellationToken::new(),
            health,
            shutdown,
        }
    }

    /// The token that is cancelled when the tasks must stop.
    pub fn stop_token(&self) -> CancellationToken {
        self.stop.clone()
    }

    /// Starts a task. It must run until [`Supervisor::stop_token`] is cancelled and then end by itself.
    pub fn spawn<T: TaskResult>(
        &mut self,
        name: &'static str,
        task: impl Future<Output = T> + Send + 'static,
    ) {
        let handle = self.tasks.spawn(async move { task.await.into_result() });
        self.names.insert(handle.id(), name);
    }

    /// The process has started: waits for a signal or the end of a task, then shuts down: unready, delay (only after a
    /// signal), cancel, wait for the tasks. `signals` are installed first in a process, so that one that arrives while it starts
    /// is not lost.
    ///
    /// # Errors
    /// A task ended unexpectedly, failed or panicked, also during the shutdown (the first error is returned, the
    /// others are logged); tasks did not stop within the timeout; a second signal arrived.
    pub async fn run(mut self, mut signals: impl Signals) -> Result<(), ProcessError> {
        self.health.set_started();
        let error = tokio::select! {
            biased;
            error = self.unexpected_end() => Some(error),
            signal = signals.next() => {
                tracing::info!(signal, delay_seconds = self.shutdown.delay.as_secs(), "shutting down");
                self.health.set_stopping();
                self.wait_delay(&mut signals).await?
            }
        };
        self.health.set_stopping();
        self.stop.cancel();
        if let Some(error) = &error {
            tracing::error!("shutting down: {}", with_causes(error));
        }
        let drained = self.drain(&mut signals).await;
        match (error, drained) {
            (Some(first), Err(later)) => {
                tracing::error!("while shutting down: {}", with_causes(&later));
                Err(first)
            }
            (Some(error), Ok(())) | (None, Err(error)) => Err(error),
            (None, Ok(())) => Ok(()),
        }
    }

    /// Waits for the shutdown delay. Returns `Some` if a task ended meanwhile.
    async fn wait_delay(&mut self, signals: &mut impl Signals) -> Result<Option<ProcessError>, ProcessError> {
        let delay = sleep(self.shutdown.delay);
        tokio::select! {
            biased;
            error = self.unexpected_end() => Ok(Some(error)),
            signal = signals.next() => Err(ProcessError::SecondSignal { signal, tasks: self.running() }),
            () = delay => Ok(None),
        }
    }

    /// Waits for every task to end. Returns the first error.
    async fn drain(&mut self, signals: &mut impl Signals) -> Result<(), ProcessError> {
        let timeout = self.shutdown.timeout;
        let deadline = Instant::now() + timeout;
        let mut first = Ok(());
        while !self.tasks.is_empty() {
            tokio::select! {
                biased;
                Some((task, ended)) = self.next_end() => {
                    first = first.and(error_of(task, ended).map_or(Ok(()), Err));
                }
                signal = signals.next() => {
                    return first.and(Err(ProcessError::SecondSignal { signal, tasks: self.running() }));
                }
                () = sleep_until(deadline) => {
                    return first.and(Err(ProcessError::StillRunning { tasks: self.running(), timeout }));
                }
            }
        }
        first
    }

    /// The error of the first task that ends. Pending while all run.
    async fn unexpected_end(&mut self) -> ProcessError {
        match self.next_end().await {
            Some((task, ended)) => error_of(task, ended).unwrap_or(ProcessError::Ended { task }),
            None => std::future::pending().await,
        }
    }

    async fn next_end(&mut self) -> Option<(&'static str, Result<Result<(), TaskError>, JoinError>)> {
        let ended = self.tasks.join_next_with_id().await?;
        let (id, ended) = match ended {
            Ok((id, result)) => (id, Ok(result)),
            Err(error) => (error.id(), Err(error)),
        };
        let task = self.names.remove(&id).unwrap_or("unnamed");
        Some((task, ended))
    }

    fn running(&self) -> Vec<&'static str> {
        let mut names: Vec<_> = self.names.values().copied().collect();
        names.sort_unstable();
        names
    }
}

fn error_of(task: &'static str, ended: Result<Result<(), TaskError>, JoinError>) -> Option<ProcessError> {
    match ended {
        Ok(Ok(())) => None,
        Ok(Err(source)) => Some(ProcessError::Failed { task, source }),
        Err(error) => Some(ProcessError::Panicked {
            task,
            message: panic_message(error),
        }),
    }
}

/// The panic message of a task, or the error that ended it otherwise.
pub(super) fn panic_message(error: JoinError) -> String {
    let payload = match error.try_into_panic() {
        Ok(payload) => payload,
        Err(error) => return error.to_string(),
    };
    match payload.downcast::<String>() {
        Ok(text) => *text,
        Err(payload) => payload
            .downcast_ref::<&str>()
            .map_or("(no message)", |text| text)
            .to_owned(),
    }
}

#[cfg(test)]
mod tests;
