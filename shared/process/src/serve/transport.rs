//! The layer between the socket and HTTP.

use std::fmt;

use tokio_rustls::TlsAcceptor;

/// The layer between the socket and HTTP.
#[derive(Clone)]
pub enum Transport {
    /// Plain HTTP/1.1, without another layer.
    Plain,
    /// TLS; the protocol is HTTP/2 if ALPN negotiates `h2`, else HTTP/1.1.
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
