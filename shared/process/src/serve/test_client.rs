//! A client and an application for tests.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::routing::get;
use hyper::body::{Body as HttpBody, Bytes, Frame};
use prometheus::Registry;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::{sleep, timeout};
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::{ServeMetrics, Transport};

pub(super) const PEER: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 1);

/// `GET /` with keep-alive.
pub(super) const GET: &[u8] = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n";

/// `GET /slow`.
pub(super) const GET_SLOW: &[u8] = b"GET /slow HTTP/1.1\r\nhost: a\r\n\r\n";

/// How long `/slow` takes.
pub(super) const SLOW: Duration = Duration::from_secs(30);

/// `/` responds immediately, `/slow` after [`SLOW`], `/never` never, `/large` with 4 MiB in one chunk, `/late` with the same
/// after [`SLOW`], `/endless` with a body that never ends, and `/panic` panics.
pub(super) fn app() -> Router {
    Router::new()
        .route("/", get(|| async { "done" }))
        .route(
            "/slow",
            get(|| async {
                sleep(SLOW).await;
                "done"
            }),
        )
        .route("/never", get(std::future::pending::<()>))
        .route("/large", get(|| async { large() }))
        .route(
            "/late",
            get(|| async {
                sleep(SLOW).await;
                large()
            }),
        )
        .route("/endless", get(|| async { Body::new(Endless) }))
        .route("/panic", get(panics))
}

/// A body that never ends.
struct Endless;

impl HttpBody for Endless {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(&[b'x'; 1 << 12])))))
    }
}

/// More than the buffers and windows between two peers hold.
fn large() -> Vec<u8> {
    vec![b'x'; 4 << 20]
}

async fn panics() {
    panic!("panic in a handler");
}

pub(super) fn metrics() -> ServeMetrics {
    ServeMetrics::register(&Registry::new(), "test").unwrap()
}

/// Longer than any limit of the server, so that a bug fails a test instead of hanging it.
pub(super) const DEADLINE: Duration = Duration::from_mins(10);

/// Reads one response whose body is `done`.
pub(super) async fn read_done(peer: &mut (impl AsyncRead + Unpin)) -> String {
    let mut text = Vec::new();
    while !text.ends_with(b"done") {
        let byte = timeout(DEADLINE, peer.read_u8())
            .await
            .expect("a response in time");
        text.push(byte.expect("a response"));
    }
    let text = String::from_utf8(text).unwrap();
    assert!(text.starts_with("HTTP/1.1 200 OK"), "{text}");
    text
}

/// Sends `GET /` and reads the response.
pub(super) async fn exchange(peer: &mut (impl AsyncRead + AsyncWrite + Unpin)) -> String {
    peer.write_all(GET).await.unwrap();
    read_done(peer).await
}

/// Reads until the server closes the connection, cleanly or not.
pub(super) async fn read_to_close(peer: &mut (impl AsyncRead + Unpin)) -> Vec<u8> {
    let mut all = Vec::new();
    let _ = timeout(DEADLINE, peer.read_to_end(&mut all))
        .await
        .expect("the server closes the connection");
    all
}

/// TLS as the webhook serves it, and a client that trusts it.
pub(super) struct Tls {
    pub(super) transport: Transport,
    roots: RootCertStore,
}

impl Tls {
    pub(super) fn new() -> Self {
        let identity = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let certificate = identity.cert.der().clone();
        let key = PrivateKeyDer::Pkcs8(identity.signing_key.serialize_der().into());
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.clone()], key)
            .unwrap();
        let transport = Transport::Tls(TlsAcceptor::from(Arc::new(config)));
        let mut roots = RootCertStore::empty();
        roots.add(certificate).unwrap();
        Self { transport, roots }
    }

    pub(super) async fn connect<S>(&self, stream: S) -> TlsStream<S>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(self.roots.clone())
            .with_no_client_auth();
        let name = ServerName::try_from("localhost").unwrap();
        TlsConnector::from(Arc::new(config))
            .connect(name, stream)
            .await
            .unwrap()
    }
}
