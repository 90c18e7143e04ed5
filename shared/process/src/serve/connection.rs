//! One connection, from its TLS handshake to its end.

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

use super::WARN_INTERVAL;
use super::activity::{Activity, ConnectionContext, tracked_service};
use super::limits::Limits;
use super::metrics::{HandshakeFailure, ServeMetrics};
use super::streams::Streams;
use super::transport::Transport;
use crate::throttle::Throttle;

/// Time for a closing connection without a request in flight to send the rest of a response and to close. If the peer has
/// not received them by then, the connection is cut off.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// Largest header that is kept in memory, for HTTP/1.1 and HTTP/2. Go's server reads 1 MiB, but an API server sends less than
/// 1 KiB.
const HEADER_BYTES: u32 = 16 << 10;

/// Read and write buffer of one HTTP/1.1 connection: larger than the header, smaller than hyper's default of 400 KiB.
const BUFFER_BYTES: usize = 64 << 10;

/// Flow control windows of HTTP/2 for one request and for the whole connection: large enough for a review without a pause,
/// and a limit on the memory for all streams of one connection.
const STREAM_WINDOW: u32 = 256 << 10;
const CONNECTION_WINDOW: u32 = 1 << 20;

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
        // Boxed: the state of each protocol is large, and every connection would reserve memory for all of them.
        let end = match &self.transport {
            Transport::Plain => Box::pin(self.http1(stream, &context)).await,
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
                if negotiated_h2(&stream) {
                    Box::pin(self.http2(stream, &context)).await
                } else {
                    Box::pin(self.http1(stream, &context)).await
                }
            }
        };
        tracing::debug!(%peer, "connection {end}");
    }

    async fn http1<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
        &self,
        stream: S,
        context: &ConnectionContext,
    ) -> End {
        let service = tracked_service(self.app.clone(), context);
        let connection = http1::Builder::new()
            .header_read_timeout(None)
            .max_header_size(HEADER_BYTES as usize)
            .max_buf_size(BUFFER_BYTES)
            .serve_connection(TokioIo::new(stream), service);
        self.drive(
            connection,
            http1::Connection::graceful_shutdown,
            &context.activity,
        )
        .await
    }

    async fn http2<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
        &self,
        stream: S,
        context: &ConnectionContext,
    ) -> End {
        let service = tracked_service(self.app.clone(), context);
        let streams = Streams::default();
        let connection = http2::Builder::new(streams.executor())
            .max_concurrent_streams(self.limits.streams)
            .max_header_list_size(HEADER_BYTES)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .serve_connection(TokioIo::new(stream), service);
        self.drive(
            connection,
            http2::Connection::graceful_shutdown,
            &context.activity,
        )
        .await
    }

    /// Polls the connection until it ends or is idle for too long, or until its requests have ended after `stop`.
    async fn drive<C>(&self, connection: C, close: impl Fn(Pin<&mut C>), activity: &Activity) -> End
    where
        C: Future<Output = hyper::Result<()>>,
    {
        let mut connection = pin!(connection);
        let mut closing: Option<Instant> = None;
        loop {
            let due = self.due(activity, closing);
            // Requests that end while the connection closes make it due earlier, so check often.
            let wake = if closing.is_some() {
                due.min(Instant::now() + CLOSE_TIMEOUT)
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

    /// When the connection must be closed or, if it is already closing, cut off.
    fn due(&self, activity: &Activity, closing: Option<Instant>) -> Instant {
        match (closing, activity.idle_since()) {
            (None, _) => activity.deadline(&self.limits),
            (Some(started), Some(idle)) => started.max(idle) + CLOSE_TIMEOUT,
            (Some(started), None) => activity.deadline(&self.limits).max(started + CLOSE_TIMEOUT),
        }
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

fn negotiated_h2<S>(stream: &TlsStream<S>) -> bool {
    stream.get_ref().1.alpn_protocol() == Some(b"h2")
}

#[cfg(test)]
mod tests;
