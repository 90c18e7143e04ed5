//! Where connections come from.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};

/// A source of connections. The server keeps accepting whatever errors it returns.
pub trait Accept: Send {
    /// A connection.
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    /// Waits for the next connection. May be dropped and called again without losing one.
    fn accept(&mut self) -> impl Future<Output = io::Result<(Self::Stream, SocketAddr)>> + Send;
}

/// Listens on an address. At `[::]` callers of IPv4 come in too; where the kernel has no IPv6, that is taken for `0.0.0.0`.
///
/// # Errors
/// The port is taken, or the address is not this host's.
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
        // Answers are small and awaited: never hold a segment back for more data. It fails only on a
        // connection that is already gone, which the first read finds out.
        let _ = stream.set_nodelay(true);
        // Callers of IPv4 are written as such.
        Ok((stream, SocketAddr::new(peer.ip().to_canonical(), peer.port())))
    }
}

/// What an accept error asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AfterError {
    /// The peer went away before it was accepted: nothing is wrong here.
    GoOn,
    /// This process or host is out of something (file descriptors, memory); trying again at once would spin.
    Pause,
}

pub(super) fn after_error(error: &io::Error) -> AfterError {
    match error.kind() {
        io::ErrorKind::ConnectionAborted
        | io::ErrorKind::ConnectionReset
        | io::ErrorKind::ConnectionRefused => AfterError::GoOn,
        _ => AfterError::Pause,
    }
}
