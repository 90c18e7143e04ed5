//! An HTTP server that a slow, silent or greedy peer cannot wear down.
//!
//! ```text
//! Accept ──► slot free? ──► TLS handshake, bounded ──ALPN──► HTTP/1.1 or HTTP/2 ──► Router
//!               │ no                                              │
//!               └ a connection that does nothing is closed        └ closed when no request is under way
//!                                                                   for too long, whatever bytes come
//! ```
//!
//! It never ends by itself: accept errors pause it, a connection's failure ends that connection. On `stop`
//! it accepts no more, lets requests under way end and cuts off what is left after [`Limits::drain`].

mod accept;
mod activity;
mod connection;
mod limits;
mod metrics;
mod peer_bytes;
mod places;
mod streams;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{Instant, sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use self::accept::{AfterError, after_error};
use self::activity::Activity;
use self::connection::{Caller, Connections};
use self::metrics::Displaced;
use self::places::ConnectionSlots;
use self::streams::log_panic;
use super::throttle::Throttle;

pub use self::accept::{Accept, listen};
pub use self::limits::Limits;
pub use self::metrics::ServeMetrics;
pub use self::peer_bytes::PeerBytes;

/// Pause after an accept error: long enough not to spin, short enough that nobody notices once it is over.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A warning that any peer can cause is written at most this often.
const WARN_EVERY: Duration = Duration::from_secs(30);

/// What lies between the socket and HTTP.
#[derive(Clone)]
pub enum Transport {
    /// Nothing: HTTP/1.1 in the clear.
    Plain,
    /// TLS; the protocol is HTTP/2 where ALPN agrees on `h2`, else HTTP/1.1.
    Tls(TlsAcceptor),
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plain => "Plain",
            Self::Tls(_) => "Tls",
        })
    }
}

/// How a server's shutdown went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drained {
    /// Connections that did not end within [`Limits::drain`] and were cut off.
    pub cut_off: usize,
}

/// Serves `app` on the connections of `listener` until `stop`, then drains them.
///
/// A panic in a handler ends its connection (HTTP/1.1) or its request (HTTP/2), never the server; to answer
/// 500 instead, put a panic-catching layer into `app`. The size of bodies and the time a handler takes are
/// for `app` to bound.
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
    let mut places = ConnectionSlots::new(limits.connections);
    loop {
        let accepted = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            Some(ended) = open.join_next_with_id() => {
                places.leave(task_of(&ended));
                ended.map_or_else(log_panic, |_| ());
                continue;
            }
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, address)) => {
                if places.full() {
                    warnings.full(limits.connections);
                    if !places.make_room(address.ip()) {
                        metrics.displaced(Displaced::New);
                        continue;
                    }
                    metrics.displaced(Displaced::Old);
                }
                let activity = Activity::new();
                let caller = Caller {
                    address,
                    activity: Arc::clone(&activity),
                    body_bytes: places.take(address.ip()),
                };
                let task = open.spawn(Arc::clone(&connections).serve(stream, caller));
                places.hold(address.ip(), activity, task);
            }
            Err(error) if after_error(&error) == AfterError::GoOn => {}
            Err(error) => {
                metrics.accept_pause();
                warnings.accept(&error);
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

async fn drain(mut open: JoinSet<()>, patience: Duration) -> Drained {
    let ended = timeout(patience, async {
        while let Some(ended) = open.join_next().await {
            ended.unwrap_or_else(log_panic);
        }
    });
    if ended.await.is_err() {
        tracing::warn!(
            connections = open.len(),
            "closed connections that did not finish within {patience:?}"
        );
    }
    Drained { cut_off: open.len() }
}

/// What the accept loop complains about, each at most once a while.
struct Warnings {
    full: Throttle,
    accept: Throttle,
}

impl Warnings {
    fn new() -> Self {
        Self {
            full: Throttle::new(WARN_EVERY),
            accept: Throttle::new(WARN_EVERY),
        }
    }

    fn full(&self, limit: usize) {
        if let Some(held_back) = self.full.pass(Instant::now()) {
            tracing::warn!(
                limit,
                held_back,
                "connection limit reached; each new connection replaces an idle one, or is closed"
            );
        }
    }

    fn accept(&self, error: &std::io::Error) {
        if let Some(held_back) = self.accept.pass(Instant::now()) {
            tracing::warn!(
                held_back,
                "failed to accept connections; retrying every {ACCEPT_PAUSE:?}: {error}"
            );
        }
    }
}

#[cfg(test)]
mod peer;
#[cfg(test)]
mod tests;
