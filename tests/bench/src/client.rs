//! Connections to a webhook like those of the API server: one for each request in flight over HTTP/1.1, one for all over
//! HTTP/2.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use axum::http::StatusCode;
use bytes::Bytes;
use clap::ValueEnum;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
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

/// Version of HTTP.
///
/// The API server uses HTTP/1.1 for a Service and HTTP/2 for a URL on localhost, so in a cluster the rows of `h1` apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Protocol {
    /// HTTP/1.1
    #[value(name = "h1")]
    Http1,
    /// HTTP/2
    #[value(name = "h2")]
    Http2,
}

impl Protocol {
    /// Its name in flags and tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Http1 => "h1",
            Self::Http2 => "h2",
        }
    }

    fn alpn(self) -> &'static [u8] {
        match self {
            Self::Http1 => b"http/1.1",
            Self::Http2 => b"h2",
        }
    }
}

/// A server on this machine, and the protocol to use.
#[derive(Clone, Debug)]
pub struct Target {
    /// Its port on 127.0.0.1.
    pub port: u16,
    /// Version of HTTP.
    pub protocol: Protocol,
    tls: Arc<ClientConfig>,
}

impl Target {
    /// A server whose certificate was issued by the CA `ca` (PEM).
    pub fn new(port: u16, protocol: Protocol, ca: &str) -> Result<Self> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(ca.as_bytes()).context("not a PEM certificate")?)?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut tls = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        tls.alpn_protocols = vec![protocol.alpn().to_vec()];
        // Otherwise the second connection would cost a server less than the first.
        tls.resumption = Resumption::disabled();
        Ok(Self {
            port,
            protocol,
            tls: Arc::new(tls),
        })
    }

    async fn connect(&self) -> Result<TlsStream<TcpStream>> {
        let tcp = TcpStream::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, self.port))).await?;
        tcp.set_nodelay(true)?;
        let name = ServerName::from(std::net::IpAddr::from(Ipv4Addr::LOCALHOST));
        let stream = TlsConnector::from(Arc::clone(&self.tls))
            .connect(name, tcp)
            .await?;
        let chosen = stream.get_ref().1.alpn_protocol();
        // A server that supports only HTTP/1.1 need not negotiate.
        let is_negotiated =
            chosen == Some(self.protocol.alpn()) || (chosen.is_none() && self.protocol == Protocol::Http1);
        ensure!(
            is_negotiated,
            "the server does not support {}",
            self.protocol.as_str()
        );
        Ok(stream)
    }
}

/// Open connections; closed when dropped.
#[derive(Debug, Default)]
pub struct Connections(JoinSet<()>);

impl Connections {
    /// Opens the connections for `streams` concurrent requests.
    pub async fn open(&mut self, target: &Target, streams: u16) -> Result<Vec<Sender>> {
        let open = async {
            match target.protocol {
                Protocol::Http1 => self.open_http1(target, streams).await,
                Protocol::Http2 => self.open_http2(target, streams).await,
            }
        };
        let opened = timeout(CONNECT_DEADLINE, open).await;
        let opened = opened.with_context(|| format!("still not connected after {CONNECT_DEADLINE:?}"));
        opened
            .flatten()
            .with_context(|| format!("cannot connect to 127.0.0.1:{}", target.port))
    }

    async fn open_http1(&mut self, target: &Target, streams: u16) -> Result<Vec<Sender>> {
        let mut senders = Vec::new();
        for _ in 0..streams {
            let stream = TokioIo::new(target.connect().await?);
            let (sender, connection) = http1::handshake(stream).await?;
            // The error is dropped: the sender of a request gets it too.
            self.0.spawn(async move { drop(connection.await) });
            senders.push(Sender::Http1(sender));
        }
        Ok(senders)
    }

    async fn open_http2(&mut self, target: &Target, streams: u16) -> Result<Vec<Sender>> {
        let stream = TokioIo::new(target.connect().await?);
        let (sender, connection) = http2::handshake(TokioExecutor::new(), stream).await?;
        self.0.spawn(async move { drop(connection.await) });
        Ok((0..streams).map(|_| Sender::Http2(sender.clone())).collect())
    }
}

/// Sends one request after the other.
#[derive(Debug)]
pub enum Sender {
    /// With a connection of its own.
    Http1(http1::SendRequest<Full<Bytes>>),
    /// Over a shared connection.
    Http2(http2::SendRequest<Full<Bytes>>),
}

impl Sender {
    /// Waits until the connection accepts a request.
    pub async fn ready(&mut self) -> Result<()> {
        match self {
            Self::Http1(sender) => sender.ready().await?,
            Self::Http2(sender) => sender.ready().await?,
        }
        Ok(())
    }

    /// Sends a request and reads the whole response.
    pub async fn send(&mut self, request: Request<Full<Bytes>>) -> Result<(StatusCode, Bytes)> {
        let response = match self {
            Self::Http1(sender) => sender.send_request(request).await?,
            Self::Http2(sender) => sender.send_request(request).await?,
        };
        let status = response.status();
        Ok((status, response.into_body().collect().await?.to_bytes()))
    }
}
