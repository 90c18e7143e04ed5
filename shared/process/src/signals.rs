//! The signals that end the process.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// A source of stop signals. The supervisor waits for the first, and then for a second.
pub trait Signals: Send {
    /// Waits for the next signal and returns its name. Cancel-safe: no signal is lost if the future is dropped.
    fn next(&mut self) -> impl Future<Output = &'static str> + Send;
}

/// SIGTERM and SIGINT of this process.
#[derive(Debug)]
pub struct OsSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl OsSignals {
    /// Installs handlers for both signals. From then on they no longer end the process by themselves.
    ///
    /// # Errors
    /// The operating system rejects a handler.
    pub fn install() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }
}

impl Signals for OsSignals {
    async fn next(&mut self) -> &'static str {
        tokio::select! {
            Some(()) = self.terminate.recv() => "SIGTERM",
            Some(()) = self.interrupt.recv() => "SIGINT",
            // Both streams end only with the runtime, and then this is no longer polled.
            else => std::future::pending().await,
        }
    }
}
