//! The pair for new handshakes, replaceable at any time.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use crate::pair::ServingPair;

/// The pair for new handshakes. Replacing it affects no open connection. While it is empty, handshakes fail: a process that
/// starts before its certificate exists is not ready instead of crashing.
#[derive(Debug, Default)]
pub struct CertResolver(ArcSwapOption<ServingPair>);

impl CertResolver {
    /// Without a pair.
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

/// TLS 1.2 and 1.3 on ring, HTTP/1.1 by ALPN, no client certificates, certificates from `resolver`.
///
/// # Errors
/// Only if ring lacks what TLS 1.2 or 1.3 needs, which the build decides.
pub fn server_config(resolver: Arc<CertResolver>) -> Result<ServerConfig, rustls::Error> {
    // Passed explicitly: the default provider of the process may be unset, or another one.
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_cert_resolver(resolver);
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}
