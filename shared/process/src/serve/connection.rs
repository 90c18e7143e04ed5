//! One connection, from its TLS handshake to its end.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_rustls::{TlsAcceptor, rustls};
use tokio_util::sync::CancellationToken;

use super::WARN_INTERVAL;
use super::activity::{ConnectionContext, ConnectionState, tracked_service};
use super::limits::Limits;
use super::metrics::{HandshakeFailure, ServeMetrics};
use crate::throttle::Throttle;

/// Time for a closing connection without a request in flight to send the rest of a response and to close. If the peer has
/// not received them by then, the connection is cut off.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// Largest header that is kept in memory. Go's server reads 1 MiB, but an API server sends less than 1 KiB.
const HEADER_BYTES: usize = 16 << 10;

/// Read and write buffer of one connection: larger than the header, smaller than hyper's default of 400 KiB.
const BUFFER_BYTES: usize = 64 << 10;

/// The layer between the socket and HTTP.
#[derive(Clone)]
pub enum Transport {
    /// None: plain HTTP.
    Plain,
    /// TLS.
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

/// How a connection ended.
#[derive(Debug)]
pub(super) enum End {
    /// It closed cleanly.
    Closed,
    /// It broke, or the peer sent something that is not HTTP.
    Broken(hyper::Error),
    /// The server cut it off.
    CutOff,
}

impl From<hyper::Result<()>> for End {
    fn from(ended: hyper::Result<()>) -> Self {
        ended.map_or_else(Self::Broken, |()| Self::Closed)
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => f.write_str("closed"),
            Self::Broken(error) => write!(f, "broken: {error}"),
            Self::CutOff => f.write_str("cut off"),
        }
    }
}

/// The state that all connections of a server share.
pub(super) struct Connections {
    pub(super) transport: Transport,
    pub(super) app: Router,
    pub(super) limits: Limits,
    pub(super) metrics: ServeMetrics,
    pub(super) stop: CancellationToken,
    tls_warnings: Throttle,
}

impl Connections {
    pub(super) fn new(
        transport: Transport,
        app: Router,
        limits: Limits,
        metrics: ServeMetrics,
        stop: CancellationToken,
    ) -> Self {
        Self {
            transport,
            app,
            limits,
            metrics,
            stop,
            tls_warnings: Throttle::new(WARN_INTERVAL),
        }
    }

    /// Serves one connection until it ends.
    pub(super) async fn serve<S>(self: Arc<Self>, stream: S, context: ConnectionContext)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let peer = context.address;
        let _open = self.metrics.opened();
        // Boxed: the state of HTTP is large, and a connection in its handshake would reserve memory for two.
        let end = match &self.transport {
            Transport::Plain => Box::pin(self.http(stream, &context)).await,
            Transport::Tls(acceptor) => {
                let handshake = timeout(self.limits.handshake, acceptor.accept(stream));
                let stream = match self.stop.run_until_cancelled(handshake).await {
                    None => return,
                    Some(Err(_)) => {
                        return self.handshake_failed(HandshakeFailure::Timeout, peer, &"timed out");
                    }
                    Some(Ok(Err(error))) => return self.handshake_failed(failure_of(&error), peer, &error),
                    Some(Ok(Ok(stream))) => stream,
                };
                context.activity.handshake_ended();
                Box::pin(self.http(stream, &context)).await
            }
        };
        tracing::debug!(%peer, "connection {end}");
    }

    /// Serves requests until the connection ends or is idle for too long, or until its request has ended after `stop`.
    async fn http<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
        &self,
        stream: S,
        context: &ConnectionContext,
    ) -> End {
        let activity = &context.activity;
        let mut connection = pin!(
            http1::Builder::new()
                // The deadline of `activity` limits headers too.
                .header_read_timeout(None)
                .max_header_size(HEADER_BYTES)
                .max_buf_size(BUFFER_BYTES)
                .serve_connection(TokioIo::new(stream), tracked_service(self.app.clone(), context))
        );
        let deadline = || activity.deadline(&self.limits);
        let serving = self
            .stop
            .run_until_cancelled(until(connection.as_mut(), deadline));
        if let Some(Some(ended)) = serving.await {
            return End::from(ended);
        }
        connection.as_mut().graceful_shutdown();
        let started = Instant::now();
        let deadline = || match activity.state() {
            (ConnectionState::Active, _) => deadline().max(started + CLOSE_TIMEOUT),
            (_, since) => started.max(since) + CLOSE_TIMEOUT,
        };
        until(connection, deadline).await.map_or(End::CutOff, End::from)
    }

    fn handshake_failed(&self, failure: HandshakeFailure, peer: SocketAddr, error: &dyn fmt::Display) {
        self.metrics.handshake_failure(failure);
        let reason = failure.label();
        if let Some(suppressed) = self.should_warn(failure) {
            tracing::warn!(
                %peer, reason, suppressed,
                "TLS handshake failed: {error}; if the peer is the API server, compare caBundle in the webhook \
                 configuration with the certificate served here, and its client certificate with --client-ca-file"
            );
        } else {
            tracing::debug!(%peer, reason, "TLS handshake failed: {error}");
        }
    }

    /// Whether to log a warning. Port scanners and TCP probes constantly disconnect or stay silent; only an error of TLS
    /// itself indicates a wrong configuration.
    fn should_warn(&self, failure: HandshakeFailure) -> Option<u64> {
        match failure {
            HandshakeFailure::Tls => self.tls_warnings.allow(Instant::now()),
            HandshakeFailure::Timeout | HandshakeFailure::Io => None,
        }
    }
}

fn failure_of(error: &io::Error) -> HandshakeFailure {
    let tls = error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<rustls::Error>())
        .is_some();
    if tls {
        HandshakeFailure::Tls
    } else {
        HandshakeFailure::Io
    }
}

/// Polls `connection` until it ends; `None` if the deadline passes before. Each poll may move the deadline.
async fn until<C: Future>(mut connection: Pin<&mut C>, deadline: impl Fn() -> Instant) -> Option<C::Output> {
    let mut timer = pin!(sleep_until(deadline()));
    poll_fn(|context| {
        if let Poll::Ready(ended) = connection.as_mut().poll(context) {
            return Poll::Ready(Some(ended));
        }
        timer.as_mut().reset(deadline());
        timer.as_mut().poll(context).map(|()| None)
    })
    .await
}

#[cfg(test)]
mod tests;
