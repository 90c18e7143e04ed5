//! One connection, from its handshake to its end.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::{http1, http2};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_rustls::rustls;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;

use super::activity::{Activity, counted};
use super::limits::Limits;
use super::metrics::{HandshakeFailure, ServeMetrics};
use super::peer_bytes::PeerBytes;
use super::streams::Streams;
use super::{Transport, WARN_EVERY};
use crate::runtime::throttle::Throttle;

/// Time for a closing connection without a request to send its farewell and the rest of an answer. A peer
/// that has not taken them by then is cut off.
const FAREWELL: Duration = Duration::from_secs(2);

/// The most of one header that is kept in memory, for HTTP/1.1 and HTTP/2 alike. Go's server reads 1 MiB, but
/// an API server sends less than 1 KiB.
const HEADER_BYTES: u32 = 16 << 10;

/// Read and write buffer of one HTTP/1.1 connection: above the header, below hyper's 400 KiB.
const BUFFER_BYTES: usize = 64 << 10;

/// What an HTTP/2 peer may send ahead of being read, for one request and for the whole connection: a review
/// in one go, and a cap on what the streams of one connection keep in memory together.
const STREAM_WINDOW: u32 = 256 << 10;
const CONNECTION_WINDOW: u32 = 1 << 20;

/// How a connection came to its end.
#[derive(Debug)]
pub(super) enum End {
    /// It closed in good order.
    Closed,
    /// It broke, or the peer sent something that is not HTTP.
    Broken(hyper::Error),
    /// It was cut off.
    CutOff,
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

/// The other side of one connection.
#[derive(Clone)]
pub(super) struct Caller {
    pub(super) address: SocketAddr,
    pub(super) activity: Arc<Activity>,
    pub(super) body_bytes: PeerBytes,
}

/// What all connections of a server share.
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
            tls_warnings: Throttle::new(WARN_EVERY),
        }
    }

    /// Serves one connection to its end.
    pub(super) async fn serve<S>(self: Arc<Self>, stream: S, caller: Caller)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let peer = caller.address;
        let _open = self.metrics.opened();
        // Boxed: each protocol's state is large, and every connection would hold room for all of them.
        let end = match &self.transport {
            Transport::Plain => Box::pin(self.http1(stream, &caller)).await,
            Transport::Tls(acceptor) => {
                let handshake = timeout(self.limits.handshake, acceptor.accept(stream));
                let stream = match self.stop.run_until_cancelled(handshake).await {
                    None => return,
                    Some(Err(_)) => {
                        return self.handshake_failed(HandshakeFailure::Timeout, peer, &"took too long");
                    }
                    Some(Ok(Err(error))) => return self.handshake_failed(failure_of(&error), peer, &error),
                    Some(Ok(Ok(stream))) => stream,
                };
                caller.activity.open();
                if speaks_h2(&stream) {
                    Box::pin(self.http2(stream, &caller)).await
                } else {
                    Box::pin(self.http1(stream, &caller)).await
                }
            }
        };
        tracing::debug!(%peer, "connection {end}");
    }

    async fn http1<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
        &self,
        stream: S,
        caller: &Caller,
    ) -> End {
        let service = counted(self.app.clone(), caller);
        let connection = http1::Builder::new()
            .header_read_timeout(None)
            .max_header_size(HEADER_BYTES as usize)
            .max_buf_size(BUFFER_BYTES)
            .serve_connection(TokioIo::new(stream), service);
        self.drive(connection, http1::Connection::graceful_shutdown, &caller.activity)
            .await
    }

    async fn http2<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
        &self,
        stream: S,
        caller: &Caller,
    ) -> End {
        let service = counted(self.app.clone(), caller);
        let streams = Streams::default();
        let connection = http2::Builder::new(streams.executor())
            .max_concurrent_streams(self.limits.streams)
            .max_header_list_size(HEADER_BYTES)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .serve_connection(TokioIo::new(stream), service);
        self.drive(connection, http2::Connection::graceful_shutdown, &caller.activity)
            .await
    }

    /// Polls the connection until it ends, is idle for too long, or `stop` and then its requests have ended.
    async fn drive<C>(&self, connection: C, close: impl Fn(Pin<&mut C>), activity: &Activity) -> End
    where
        C: Future<Output = hyper::Result<()>>,
    {
        let mut connection = pin!(connection);
        let mut closing: Option<Instant> = None;
        loop {
            let due = self.due(activity, closing);
            // A closing connection's requests end meanwhile and bring the end nearer: look again often.
            let wake = if closing.is_some() {
                due.min(Instant::now() + FAREWELL)
            } else {
                due
            };
            tokio::select! {
                biased;
                ended = connection.as_mut() => return ended.map_or_else(End::Broken, |()| End::Closed),
                () = self.stop.cancelled(), if closing.is_none() => {}
                () = sleep_until(wake) => {}
            }
            let now = Instant::now();
            let due = self.due(activity, closing) <= now;
            match closing {
                None if due || self.stop.is_cancelled() => {
                    close(connection.as_mut());
                    closing = Some(now);
                }
                Some(_) if due => return End::CutOff,
                None | Some(_) => {}
            }
        }
    }

    /// When the connection is to be closed or, if it is closing since a while, cut off.
    fn due(&self, activity: &Activity, closing: Option<Instant>) -> Instant {
        match (closing, activity.idle_since()) {
            (None, _) => activity.deadline(&self.limits),
            (Some(begun), Some(idle)) => begun.max(idle) + FAREWELL,
            (Some(begun), None) => activity.deadline(&self.limits).max(begun + FAREWELL),
        }
    }

    fn handshake_failed(&self, failure: HandshakeFailure, peer: SocketAddr, error: &dyn fmt::Display) {
        self.metrics.handshake_failure(failure);
        let reason = failure.label();
        if let Some(held_back) = self.warn_of(failure) {
            tracing::warn!(
                %peer, reason, held_back,
                "TLS handshake failed: {error}; if the peer is the API server, compare caBundle in the webhook \
                 configuration with the certificate served here, and its client certificate with --client-ca-file"
            );
        } else {
            tracing::debug!(%peer, reason, "TLS handshake failed: {error}");
        }
    }

    /// Whether to warn. Port scanners and TCP probes break off or stay silent all day; only what TLS itself
    /// refused is a sign of misconfiguration.
    fn warn_of(&self, failure: HandshakeFailure) -> Option<u64> {
        match failure {
            HandshakeFailure::Tls => self.tls_warnings.pass(Instant::now()),
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

fn speaks_h2<S>(stream: &TlsStream<S>) -> bool {
    stream.get_ref().1.alpn_protocol() == Some(b"h2")
}

#[cfg(test)]
mod tests;
