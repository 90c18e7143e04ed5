//! The signals that end the process.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// A source of requests to stop. The supervisor asks once for the first and again for the second.
pub trait Signals: Send {
    /// Waits for the next request and names it. May be dropped and called again without losing one.
    fn next(&mut self) -> impl Future<Output = &'static str> + Send;
}

/// SIGTERM and SIGINT of this process.
#[derive(Debug)]
pub struct OsSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl OsSignals {
    /// Takes the handlers of both signals over; from here on they no longer end the process by themselves.
    ///
    /// # Errors
    /// The operating system refused a handler.
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
            // Both streams end only with the runtime, and then nobody polls this any more.
            else => std::future::pending().await,
        }
    }
}
