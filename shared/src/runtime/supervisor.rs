//! One supervisor starts every task, and the end of a task is the end of the process.
//!
//! A detached task that dies leaves a process that looks well and does nothing. Here a task that ends or
//! panics before it was asked to stop ends the process with an error that names it.

use std::collections::HashMap;
use std::error::Error;
use std::fmt;
use std::io;
use std::time::Duration;

use thiserror::Error;
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use super::exit::with_causes;
use super::health::Health;
use super::signals::{OsSignals, Signals};

/// An error of any kind that ended a task.
pub type TaskError = Box<dyn Error + Send + Sync>;

/// What a task may return: nothing, or a result whose error says why it failed.
pub trait Outcome: Send + 'static {
    /// The outcome as a result.
    fn into_result(self) -> Result<(), TaskError>;
}

impl Outcome for () {
    fn into_result(self) -> Result<(), TaskError> {
        Ok(())
    }
}

impl<E: Into<TaskError> + Send + 'static> Outcome for Result<(), E> {
    fn into_result(self) -> Result<(), TaskError> {
        self.map_err(Into::into)
    }
}

/// How long a shutdown may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shutdown {
    /// How long to go on working, but unready, after the signal.
    pub delay: Duration,
    /// How long the tasks then get to end.
    pub timeout: Duration,
}

/// Why the process ends with an error.
#[derive(Debug, Error)]
pub enum ProcessError {
    /// A task returned although nothing asked it to stop.
    #[error("task {task:?} ended although nothing asked it to stop")]
    Ended {
        /// The task's name.
        task: &'static str,
    },
    /// A task failed.
    #[error("task {task:?} failed")]
    Failed {
        /// The task's name.
        task: &'static str,
        /// Why.
        #[source]
        source: TaskError,
    },
    /// A task panicked: a fault of this code, worth a report.
    #[error("task {task:?} panicked: {message}")]
    Panicked {
        /// The task's name.
        task: &'static str,
        /// The panic's message.
        message: String,
    },
    /// Tasks did not end in time.
    #[error(
        "still running {} s after being asked to stop: {}; raise --shutdown-timeout if they only needed longer",
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
        "{signal} during the shutdown: ended at once, still running: {}",
        Names(tasks)
    )]
    SecondSignal {
        /// The second signal's name.
        signal: &'static str,
        /// The tasks cut off, sorted by name.
        tasks: Vec<&'static str>,
    },
    /// The signal handlers could not be installed.
    #[error("cannot install the handlers for SIGTERM and SIGINT")]
    Signals(#[source] io::Error),
}

/// Task names in a sentence.
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
    /// A supervisor without tasks that tells `health` when the process begins to stop.
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

    /// The token that asks every task to stop.
    pub fn stop(&self) -> CancellationToken {
        self.stop.clone()
    }

    /// Starts a task. It must run until [`Supervisor::stop`] is cancelled and then end by itself.
    pub fn spawn<T: Outcome>(&mut self, name: &'static str, task: impl Future<Output = T> + Send + 'static) {
        let handle = self.tasks.spawn(async move { task.await.into_result() });
        self.names.insert(handle.id(), name);
    }

    /// Waits for SIGTERM, SIGINT or the end of a task, then shuts down: unready, delay (only after a
    /// signal), cancel, wait for the tasks.
    ///
    /// # Errors
    /// A task ended too early, failed or panicked, also while shutting down (the first one counts, the
    /// others are logged); tasks outlived the timeout; a second signal came.
    pub async fn run(self) -> Result<(), ProcessError> {
        let signals = OsSignals::install().map_err(ProcessError::Signals)?;
        self.run_until(signals).await
    }

    /// [`Supervisor::run`] with signals from elsewhere.
    ///
    /// # Errors
    /// As [`Supervisor::run`].
    pub async fn run_until(mut self, mut signals: impl Signals) -> Result<(), ProcessError> {
        let fault = tokio::select! {
            biased;
            fault = self.early_end() => Some(fault),
            signal = signals.next() => {
                tracing::info!(signal, delay_seconds = self.shutdown.delay.as_secs(), "shutting down");
                self.health.stopping();
                self.linger(&mut signals).await?
            }
        };
        self.health.stopping();
        self.stop.cancel();
        if let Some(fault) = &fault {
            tracing::error!("shutting down: {}", with_causes(fault));
        }
        let drained = self.drain(&mut signals).await;
        match (fault, drained) {
            (Some(first), Err(later)) => {
                tracing::error!("while shutting down: {}", with_causes(&later));
                Err(first)
            }
            (Some(fault), Ok(())) | (None, Err(fault)) => Err(fault),
            (None, Ok(())) => Ok(()),
        }
    }

    /// The delay before the tasks are asked to stop; `Some` when a task ended within it.
    async fn linger(&mut self, signals: &mut impl Signals) -> Result<Option<ProcessError>, ProcessError> {
        let delay = sleep(self.shutdown.delay);
        tokio::select! {
            biased;
            fault = self.early_end() => Ok(Some(fault)),
            signal = signals.next() => Err(ProcessError::SecondSignal { signal, tasks: self.running() }),
            () = delay => Ok(None),
        }
    }

    /// Waits for every task to end; the first that fails counts.
    async fn drain(&mut self, signals: &mut impl Signals) -> Result<(), ProcessError> {
        let timeout = self.shutdown.timeout;
        let deadline = Instant::now() + timeout;
        let mut first = Ok(());
        while !self.tasks.is_empty() {
            tokio::select! {
                biased;
                Some((task, ended)) = self.next_end() => {
                    first = first.and(fault_of(task, ended).map_or(Ok(()), Err));
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

    /// The fault of the first task to end before it was asked to; pending while all run.
    async fn early_end(&mut self) -> ProcessError {
        match self.next_end().await {
            Some((task, ended)) => fault_of(task, ended).unwrap_or(ProcessError::Ended { task }),
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

fn fault_of(task: &'static str, ended: Result<Result<(), TaskError>, JoinError>) -> Option<ProcessError> {
    match ended {
        Ok(Ok(())) => None,
        Ok(Err(source)) => Some(ProcessError::Failed { task, source }),
        Err(error) => Some(ProcessError::Panicked {
            task,
            message: panic_message(error),
        }),
    }
}

/// The message of a task's panic, or what else ended the task.
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
