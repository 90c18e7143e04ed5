//! Sources of connections.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};

/// A source of connections. The server keeps accepting after any error.
pub trait Accept: Send {
    /// A connection.
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    /// Waits for the next connection. Cancel-safe: no connection is lost if the future is dropped.
    fn accept(&mut self) -> impl Future<Output = io::Result<(Self::Stream, SocketAddr)>> + Send;
}

/// Listens on an address. `[::]` accepts clients over IPv4 too. If the kernel has no IPv6, it is replaced by `0.0.0.0`.
///
/// # Errors
/// The port is in use, or the address does not belong to this host.
pub async fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    match TcpListener::bind(address).await {
        Err(error) if address.ip() == Ipv6Addr::UNSPECIFIED && error.kind() != io::ErrorKind::AddrInUse => {
            TcpListener::bind((Ipv4Addr::UNSPECIFIED, address.port())).await
        }
        bound => bound,
    }
}

impl Accept for TcpListener {
    type Stream = TcpStream;

    async fn accept(&mut self) -> io::Result<(TcpStream, SocketAddr)> {
        let (stream, peer) = TcpListener::accept(self).await?;
        // Responses are small and clients wait for them: never delay a segment for more data. This fails only on a
        // connection that is already closed, which the first read detects.
        let _ = stream.set_nodelay(true);
        // An IPv4 address mapped to IPv6 becomes an IPv4 address again.
        Ok((stream, SocketAddr::new(peer.ip().to_canonical(), peer.port())))
    }
}

/// How to proceed after an accept error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AfterError {
    /// Continue immediately: the peer closed the connection before it was accepted.
    Continue,
    /// Pause: this process or host lacks a resource (file descriptors, memory), and an immediate retry would spin.
    Pause,
}

pub(super) fn after_error(error: &io::Error) -> AfterError {
    match error.kind() {
        io::ErrorKind::ConnectionAborted
        | io::ErrorKind::ConnectionReset
        | io::ErrorKind::ConnectionRefused => AfterError::Continue,
        _ => AfterError::Pause,
    }
}
