//! The threads that read bodies.
//!
//! They are separate from the blocking threads of the main runtime: names are resolved there, and a reader waits for as
//! long as its server takes. There are as many as concurrent requests, so no request waits for a thread. They are started
//! when needed and end when idle.

use std::io;

use tokio::{
    runtime::{Builder, Handle, Runtime},
    task::JoinHandle,
};

use crate::permits::REQUESTS;

/// The threads. They end in the background when this is dropped.
#[derive(Debug)]
pub struct Readers {
    runtime: Option<Runtime>,
    threads: Threads,
}

/// A handle to the threads.
#[derive(Clone, Debug)]
pub struct Threads(Handle);

impl Readers {
    /// Creates the pool without starting a thread.
    ///
    /// # Errors
    /// If the operating system refuses a resource.
    pub fn new() -> io::Result<Self> {
        // Only its blocking threads are used.
        let runtime = Builder::new_current_thread()
            .max_blocking_threads(REQUESTS.total)
            .thread_name("helmops-body")
            .build()?;
        Ok(Self {
            threads: Threads(runtime.handle().clone()),
            runtime: Some(runtime),
        })
    }

    /// A handle to the threads.
    pub fn threads(&self) -> Threads {
        self.threads.clone()
    }
}

impl Threads {
    /// Runs a reader on one of the threads. Its panic becomes an error of the handle.
    pub fn read<T: Send + 'static>(&self, reader: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
        self.0.spawn_blocking(reader)
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        // Dropping a runtime blocks, which is not allowed in a task.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
