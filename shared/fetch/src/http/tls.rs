//! The TLS configuration and the proxy of requests, and the origin of a URL: its scheme, host and port.

use std::{fmt, sync::Arc};

use reqwest::{Proxy, Url};

/// CA certificates, PEM, and their source, for messages.
pub type CaCertificate = (Vec<u8>, &'static str);

/// The TLS configuration: trusted CAs and client certificate.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct TlsConfig {
    /// CAs that are trusted besides those of the system.
    pub ca_certificates: Vec<CaCertificate>,
    /// Trust these CAs only, and not those of the system.
    pub is_exclusive: bool,
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
            .field("is_exclusive", &self.is_exclusive)
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
    /// Size, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let login = self.login.as_ref();
        let login = login.map_or(0, |(username, password)| username.len() + password.len());
        self.address.as_str().len() + login
    }

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

/// How a server is reached. Each has its own HTTP client.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Connection {
    /// The TLS configuration.
    pub tls: Arc<TlsConfig>,
    /// The proxy; `None` for those of the environment.
    pub proxy: Option<Arc<ProxyConfig>>,
}

/// Scheme, host and port.
pub fn origin(url: &Url) -> String {
    url.origin().ascii_serialization()
}
