//! The tasks of one HTTP/2 connection.

use std::sync::{Arc, Mutex, Weak};

use hyper::rt::Executor;
use tokio::task::{JoinError, JoinSet};

use crate::runtime::{lock, supervisor::panic_message};

/// The requests of one HTTP/2 connection, each a task. They end with the connection, none is detached, and
/// a panic in one is logged and resets that request alone.
#[derive(Debug, Default)]
pub(super) struct Streams(Arc<Mutex<JoinSet<()>>>);

/// What hyper starts the requests with. It does not keep the tasks alive: hyper stores a copy in each of
/// them, which would be a circle.
#[derive(Clone, Debug)]
pub(super) struct StreamExecutor(Weak<Mutex<JoinSet<()>>>);

impl Streams {
    pub(super) fn executor(&self) -> StreamExecutor {
        StreamExecutor(Arc::downgrade(&self.0))
    }
}

impl Drop for Streams {
    fn drop(&mut self) {
        reap(&mut lock(&self.0));
    }
}

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for StreamExecutor {
    fn execute(&self, stream: F) {
        let Some(tasks) = self.0.upgrade() else { return };
        let mut tasks = lock(&tasks);
        // Without this the set would grow with every request ever served.
        reap(&mut tasks);
        tasks.spawn(stream);
    }
}

fn reap(tasks: &mut JoinSet<()>) {
    while let Some(ended) = tasks.try_join_next() {
        if let Err(error) = ended {
            log_panic(error);
        }
    }
}

/// A task that was aborted with its connection is no news; one that panicked is.
pub(super) fn log_panic(error: JoinError) {
    if error.is_panic() {
        tracing::error!("a connection's task panicked: {}", panic_message(error));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn requests_that_ended_leave_no_trace() {
        let streams = Streams::default();
        for _ in 0..100 {
            streams.executor().execute(async {});
            tokio::task::yield_now().await;
        }
        assert!(lock(&streams.0).len() <= 2, "{} left", lock(&streams.0).len());
    }

    #[tokio::test]
    async fn requests_end_with_their_connection() {
        let streams = Streams::default();
        let (guard, alive) = tokio::sync::oneshot::channel::<()>();
        // As hyper does, the task holds the executor that started it.
        let executor = streams.executor();
        streams.executor().execute(async move {
            let _held = (guard, executor);
            std::future::pending::<()>().await;
        });
        drop(streams);
        alive.await.unwrap_err();
    }
}
