//! The tasks of one HTTP/2 connection.

use std::sync::{Arc, Mutex, Weak};

use hyper::rt::Executor;
use tokio::task::{JoinError, JoinSet};

use crate::{lock, supervisor::panic_message};

/// The requests of one HTTP/2 connection, each in its own task. They end with the connection, and none is detached. A panic
/// in one is logged and resets only that request.
#[derive(Debug, Default)]
pub(super) struct Streams(Arc<Mutex<JoinSet<()>>>);

/// The executor on which hyper spawns the requests. It holds a weak reference, because hyper stores a clone in each task,
/// and a strong one would be a reference cycle.
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
        // Without this the set would grow with every request.
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

/// Logs a panic. A task that was aborted with its connection is not logged.
pub(super) fn log_panic(error: JoinError) {
    if error.is_panic() {
        tracing::error!("the task of a connection panicked: {}", panic_message(error));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn finished_requests_are_removed() {
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
