//! Servers on loopback, of HTTP or HTTPS.

use std::sync::Arc;

use anyhow::Result;
use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::private_ca::PrivateCa;

/// Accepts TLS connections with a certificate of the CA for these names or addresses.
pub(crate) fn acceptor(ca: &PrivateCa, names: &[&str]) -> Result<TlsAcceptor> {
    let issued = ca.issue(names)?;
    let certificate = CertificateDer::from_pem_slice(issued.certificate.as_bytes())?;
    let key = PrivateKeyDer::from_pem_slice(issued.key.as_bytes())?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Serves all connections, over TLS if there is an acceptor. Dropping the future closes them.
pub(crate) async fn serve(listener: TcpListener, tls: Option<TlsAcceptor>, router: Router) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        connections.spawn(serve_connection(stream, tls.clone(), router.clone()));
        while connections.try_join_next().is_some() {}
    }
}

async fn serve_connection(stream: TcpStream, tls: Option<TlsAcceptor>, router: Router) {
    let Some(tls) = tls else {
        return serve_http(stream, router).await;
    };
    // A client that does not trust the CA aborts the handshake.
    if let Ok(stream) = tls.accept(stream).await {
        serve_http(stream, router).await;
    }
}

async fn serve_http(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static, router: Router) {
    let service = TowerToHyperService::new(router);
    let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    // The client may disconnect at any time.
    let _ = connection.await;
}
