//! An HTTP server that slow, silent or greedy peers cannot exhaust.
//!
//! ```text
//! Accept ──► slot free? ──► TLS handshake, bounded ──► HTTP/1.1 ──► Router
//!               │ no                                       │
//!               └ an idle connection is closed             └ closed when no request starts or ends
//!                                                            for too long, even if bytes arrive
//! ```
//!
//! HTTP/2 is not offered: an API server calls webhooks of a Service over HTTP/1.1 in any case, and one connection of HTTP/2 can
//! start and abort requests without a limit of their rate (CVE-2023-44487).
//!
//! It never ends by itself: after an accept error it pauses, and the failure of a connection ends only that connection. On
//! `stop` it accepts no more connections, lets requests in flight end, and cuts off the rest after [`Limits::drain`].

mod accept;
mod activity;
mod connection;
mod limits;
mod metrics;
mod slots;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use self::accept::{AfterError, after_error};
use self::activity::{Activity, ConnectionContext};
use self::connection::Connections;
use self::metrics::Evicted;
use self::slots::ConnectionSlots;
use super::{supervisor::panic_message, throttle::Throttle};

pub use self::accept::{Accept, listen};
pub use self::connection::Transport;
pub use self::limits::Limits;
pub use self::metrics::ServeMetrics;

/// Pause after an accept error: long enough not to spin, and too short for clients to notice.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Minimum interval between warnings that any peer can cause.
const WARN_INTERVAL: Duration = Duration::from_secs(30);

/// The result of a server's shutdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drained {
    /// Connections that did not end within [`Limits::drain`] and were cut off.
    pub cut_off: usize,
}

/// Serves `app` on the connections of `listener` until `stop`, then drains them.
///
/// A panic in a handler ends its connection, never the server. To respond with 500 instead, add a layer to `app` that catches panics. `app` must limit the size of bodies and the time of its
/// handlers.
pub async fn serve<L: Accept>(
    mut listener: L,
    transport: Transport,
    app: Router,
    limits: Limits,
    metrics: ServeMetrics,
    stop: CancellationToken,
) -> Drained {
    let connections = Arc::new(Connections::new(
        transport,
        app,
        limits,
        metrics.clone(),
        stop.clone(),
    ));
    let warnings = Warnings::new();
    let mut open = JoinSet::new();
    let mut slots = ConnectionSlots::new(limits.connections);
    loop {
        let accepted = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            Some(ended) = open.join_next_with_id() => {
                slots.release(task_of(&ended));
                ended.map_or_else(log_panic, |_| ());
                continue;
            }
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, address)) => {
                if slots.is_full() {
                    warnings.limit_reached(limits.connections);
                    if !slots.evict_for(address.ip()) {
                        metrics.evicted(Evicted::New);
                        continue;
                    }
                    metrics.evicted(Evicted::Old);
                }
                let activity = Activity::new();
                let context = ConnectionContext {
                    address,
                    activity: Arc::clone(&activity),
                };
                let task = open.spawn(Arc::clone(&connections).serve(stream, context));
                slots.occupy(address.ip(), activity, task);
            }
            Err(error) if after_error(&error) == AfterError::Continue => {}
            Err(error) => {
                metrics.accept_error();
                warnings.accept_error(&error);
                stop.run_until_cancelled(sleep(ACCEPT_PAUSE)).await;
            }
        }
    }
    drop(listener);
    drain(open, limits.drain).await
}

fn task_of(ended: &Result<(Id, ()), JoinError>) -> Id {
    match ended {
        Ok((id, ())) => *id,
        Err(error) => error.id(),
    }
}

/// Logs a panic. A task that was aborted with its connection is not logged.
fn log_panic(error: JoinError) {
    if error.is_panic() {
        tracing::error!("the task of a connection panicked: {}", panic_message(error));
    }
}

async fn drain(mut open: JoinSet<()>, limit: Duration) -> Drained {
    let ended = timeout(limit, async {
        while let Some(ended) = open.join_next().await {
            ended.unwrap_or_else(log_panic);
        }
    });
    if ended.await.is_err() {
        tracing::warn!(
            connections = open.len(),
            "closed connections that did not finish within {limit:?}"
        );
    }
    Drained { cut_off: open.len() }
}

/// The warnings of the accept loop, each with a rate limit.
struct Warnings {
    limit_reached: Throttle,
    accept_error: Throttle,
}

impl Warnings {
    fn new() -> Self {
        Self {
            limit_reached: Throttle::new(WARN_INTERVAL),
            accept_error: Throttle::new(WARN_INTERVAL),
        }
    }

    fn limit_reached(&self, limit: usize) {
        if let Some(suppressed) = self.limit_reached.allow(Instant::now()) {
            tracing::warn!(
                limit,
                suppressed,
                "connection limit reached; each new connection replaces an idle one, or is closed"
            );
        }
    }

    fn accept_error(&self, error: &std::io::Error) {
        if let Some(suppressed) = self.accept_error.allow(Instant::now()) {
            tracing::warn!(
                suppressed,
                "failed to accept connections; retrying every {ACCEPT_PAUSE:?}: {error}"
            );
        }
    }
}

#[cfg(test)]
mod test_client;
#[cfg(test)]
mod tests;
