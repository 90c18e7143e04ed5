//! The pair that new handshakes use, replaceable at any time.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use crate::pair::ServingPair;

/// The pair served to new handshakes. Replacing it touches no open connection. While it is empty, handshakes
/// fail: a process that starts before its certificate exists is unready rather than gone.
#[derive(Debug, Default)]
pub struct CertResolver(ArcSwapOption<ServingPair>);

impl CertResolver {
    /// Without a pair yet.
    pub fn empty() -> Arc<Self> {
        Arc::default()
    }

    /// With a first pair.
    pub fn new(pair: ServingPair) -> Arc<Self> {
        Arc::new(Self(ArcSwapOption::from_pointee(pair)))
    }

    /// Serves `pair` from the next handshake on.
    pub fn replace(&self, pair: Arc<ServingPair>) {
        self.0.store(Some(pair));
    }

    /// The pair served now, if any.
    pub fn current(&self) -> Option<Arc<ServingPair>> {
        self.0.load_full()
    }
}

impl ResolvesServerCert for CertResolver {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.0.load().as_ref().map(|pair| pair.certified_key())
    }
}

/// TLS 1.2 and 1.3 on ring, HTTP/2 before HTTP/1.1 by ALPN, no client certificates, certificates from `hot`.
///
/// # Errors
/// Only when ring lacks what TLS 1.2 or 1.3 needs, which a build settles.
pub fn server_config(hot: Arc<CertResolver>) -> Result<ServerConfig, rustls::Error> {
    // Passed explicitly: the process' default provider may be unset, or be another one.
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_cert_resolver(hot);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}
