//! The TLS configuration and the proxy of requests, and the origin of a URL: its scheme, host and port.

use std::fmt;

use reqwest::{Proxy, Url};

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

/// A proxy of requests.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ProxyConfig {
    /// Its URL.
    pub address: Url,
    /// User name and password.
    pub login: Option<(String, String)>,
}

/// Passwords stay out of logs.
impl fmt::Debug for ProxyConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ProxyConfig(…)")
    }
}

impl ProxyConfig {
    /// The proxy of a client, for all requests.
    ///
    /// # Errors
    /// If the URL is not that of a proxy.
    pub(super) fn to_reqwest(&self) -> reqwest::Result<Proxy> {
        let proxy = Proxy::all(self.address.as_str())?;
        Ok(match &self.login {
            Some((username, password)) => proxy.basic_auth(username, password),
            None => proxy,
        })
    }
}

/// Scheme, host and port.
pub fn origin(url: &Url) -> String {
    url.origin().ascii_serialization()
}
