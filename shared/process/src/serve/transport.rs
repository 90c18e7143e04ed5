//! The layer between the socket and HTTP.

use std::fmt;

use tokio_rustls::TlsAcceptor;

/// The layer between the socket and HTTP.
#[derive(Clone)]
pub enum Transport {
    /// None: plain HTTP.
    Plain,
    /// TLS.
    Tls(TlsAcceptor),
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plain => "Plain",
            Self::Tls(_) => "Tls",
        })
    }
}
