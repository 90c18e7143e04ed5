//! Connections to a webhook like those of the API server: HTTP/1.1, one for each request in flight.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use axum::http::StatusCode;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::client::Resumption;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// A handshake on loopback takes a millisecond; a server that needs longer than this hangs.
const CONNECT_DEADLINE: Duration = Duration::from_secs(10);

/// A server on this machine.
#[derive(Clone, Debug)]
pub struct Target {
    /// Its port on 127.0.0.1.
    pub port: u16,
    tls: Arc<ClientConfig>,
}

impl Target {
    /// A server whose certificate was issued by the CA `ca` (PEM).
    pub fn new(port: u16, ca: &str) -> Result<Self> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(ca.as_bytes()).context("not a PEM certificate")?)?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut tls = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        // Otherwise the second connection would cost a server less than the first.
        tls.resumption = Resumption::disabled();
        Ok(Self {
            port,
            tls: Arc::new(tls),
        })
    }

    async fn connect(&self) -> Result<TlsStream<TcpStream>> {
        let tcp = TcpStream::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, self.port))).await?;
        tcp.set_nodelay(true)?;
        let name = ServerName::from(std::net::IpAddr::from(Ipv4Addr::LOCALHOST));
        Ok(TlsConnector::from(Arc::clone(&self.tls))
            .connect(name, tcp)
            .await?)
    }
}

/// Open connections; closed when dropped.
#[derive(Debug, Default)]
pub struct Connections(JoinSet<()>);

impl Connections {
    /// Opens a connection for each of `streams` concurrent requests.
    pub async fn open(&mut self, target: &Target, streams: u16) -> Result<Vec<Sender>> {
        let open = async {
            let mut senders = Vec::new();
            for _ in 0..streams {
                let stream = TokioIo::new(target.connect().await?);
                let (sender, connection) = http1::handshake(stream).await?;
                // The error is dropped: the sender of a request gets it too.
                self.0.spawn(async move { drop(connection.await) });
                senders.push(Sender(sender));
            }
            Ok(senders)
        };
        let opened = timeout(CONNECT_DEADLINE, open).await;
        let opened = opened.with_context(|| format!("still not connected after {CONNECT_DEADLINE:?}"));
        opened
            .flatten()
            .with_context(|| format!("cannot connect to 127.0.0.1:{}", target.port))
    }
}

/// Sends one request after the other over a connection of its own.
#[derive(Debug)]
pub struct Sender(http1::SendRequest<Full<Bytes>>);

impl Sender {
    /// Waits until the connection accepts a request.
    pub async fn ready(&mut self) -> Result<()> {
        Ok(self.0.ready().await?)
    }

    /// Sends a request and reads the whole response.
    pub async fn send(&mut self, request: Request<Full<Bytes>>) -> Result<(StatusCode, Bytes)> {
        let response = self.0.send_request(request).await?;
        let status = response.status();
        Ok((status, response.into_body().collect().await?.to_bytes()))
    }
}
