//! The TLS configuration of requests, and the origin of a URL: its scheme, host and port.

use std::fmt;

use reqwest::Url;

/// CA certificates, PEM, and their source, for messages.
pub type CaCertificate = (Vec<u8>, &'static str);

/// The TLS configuration: trusted CAs and client certificate.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct TlsConfig {
    /// CAs that are trusted besides those of the system.
    pub ca_certificates: Vec<CaCertificate>,
    /// Client certificate and its key, PEM.
    pub identity: Option<Vec<u8>>,
    /// Do not verify certificates.
    pub insecure_skip_tls_verify: bool,
}

/// Keys stay out of logs.
impl fmt::Debug for TlsConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsConfig")
            .field("ca_certificates", &self.ca_certificates.len())
            .field("identity", &self.identity.is_some())
            .field("insecure_skip_tls_verify", &self.insecure_skip_tls_verify)
            .finish()
    }
}

/// Scheme, host and port.
pub fn origin(url: &Url) -> String {
    url.origin().ascii_serialization()
}
