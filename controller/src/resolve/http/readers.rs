//! The threads that read bodies.
//!
//! They are not those of the runtime that everything else runs on: names are resolved there, and a reader waits for as
//! long as its server takes. There are as many as requests at a time, so none of them waits for a thread. They are started
//! when needed and end when idle.

use std::io;

use tokio::{
    runtime::{Builder, Handle, Runtime},
    task::JoinHandle,
};

use super::admission::REQUESTS;

/// The threads. They end in the background when this is dropped.
#[derive(Debug)]
pub struct Readers {
    runtime: Option<Runtime>,
    threads: Threads,
}

/// A way to the threads.
#[derive(Clone, Debug)]
pub struct Threads(Handle);

impl Readers {
    /// None is started yet.
    ///
    /// # Errors
    /// Where the system refuses what a runtime needs.
    pub fn new() -> io::Result<Self> {
        // Nothing but its blocking threads is used.
        let runtime = Builder::new_current_thread()
            .max_blocking_threads(REQUESTS)
            .thread_name("helmops-body")
            .build()?;
        Ok(Self {
            threads: Threads(runtime.handle().clone()),
            runtime: Some(runtime),
        })
    }

    /// A way to the threads.
    pub fn threads(&self) -> Threads {
        self.threads.clone()
    }
}

impl Threads {
    /// Runs a reader on one of the threads. A panic of it is an error of the handle.
    pub fn read<T: Send + 'static>(&self, reader: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
        self.0.spawn_blocking(reader)
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        // The other way to end a runtime waits, which is not allowed among tasks.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
