//! A proxy that connects a client with the address that it names: by CONNECT, with or without TLS, or by SOCKS 5.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, ensure};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::https;
use crate::private_ca::PrivateCa;

/// The first byte of a client that begins with TLS, and with SOCKS 5.
const TLS: u8 = 22;
const SOCKS: u8 = 5;
/// A name in a request of SOCKS 5; an IPv4 address is 1.
const NAME: u8 = 3;
/// More than a client sends before the tunnel.
const MAX_HEAD: usize = 8 << 10;

type Tunnels = Arc<Mutex<Vec<String>>>;

/// A proxy on a free port of 127.0.0.1; it stops when dropped.
pub struct ForwardProxy {
    address: SocketAddr,
    ca: PrivateCa,
    tunnels: Tunnels,
    _tasks: JoinSet<()>,
}

impl ForwardProxy {
    pub async fn start() -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let ca = PrivateCa::new("helmops test forward proxy")?;
        let acceptor = https::acceptor(&ca, &["127.0.0.1"])?;
        let tunnels = Tunnels::default();
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, acceptor, Arc::clone(&tunnels)));
        Ok(Self {
            address,
            ca,
            tunnels,
            _tasks: tasks,
        })
    }

    /// Its URL with this scheme: `http`, `https` or `socks5`.
    pub fn url(&self, scheme: &str) -> String {
        format!("{scheme}://{}", self.address)
    }

    /// The CA certificate to trust for `https` (PEM).
    pub fn ca(&self) -> &str {
        self.ca.pem()
    }

    /// The addresses that clients were connected with since the last call.
    pub fn take_tunnels(&self) -> Vec<String> {
        std::mem::take(&mut *self.tunnels.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

async fn accept(listener: TcpListener, acceptor: TlsAcceptor, tunnels: Tunnels) {
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        let (acceptor, tunnels) = (acceptor.clone(), Arc::clone(&tunnels));
        // The test sees what its client reports.
        connections.spawn(async move { serve(client, &acceptor, &tunnels).await });
        while connections.try_join_next().is_some() {}
    }
}

async fn serve(client: TcpStream, acceptor: &TlsAcceptor, tunnels: &Tunnels) -> Result<()> {
    let mut first = [0];
    client.peek(&mut first).await?;
    match first {
        [TLS] => by_connect(acceptor.accept(client).await?, tunnels).await,
        [SOCKS] => by_socks(client, tunnels).await,
        _ => by_connect(client, tunnels).await,
    }
}

async fn by_connect(mut client: impl AsyncRead + AsyncWrite + Unpin, tunnels: &Tunnels) -> Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        ensure!(head.len() < MAX_HEAD, "the head is too long");
        head.push(client.read_u8().await?);
    }
    let head = String::from_utf8(head)?;
    let address = head
        .strip_prefix("CONNECT ")
        .and_then(|rest| rest.split(' ').next());
    let address = address.context("no CONNECT")?.to_owned();
    tunnel(client, address, b"HTTP/1.1 200 OK\r\n\r\n", tunnels).await
}

async fn by_socks(mut client: TcpStream, tunnels: &Tunnels) -> Result<()> {
    let _version = client.read_u8().await?;
    let methods = client.read_u8().await?;
    client.read_exact(&mut vec![0; methods.into()]).await?;
    // Without a login.
    client.write_all(&[SOCKS, 0]).await?;
    let mut request = [0; 4];
    client.read_exact(&mut request).await?;
    let host = if request == [SOCKS, 1, 0, NAME] {
        let mut name = vec![0; client.read_u8().await?.into()];
        client.read_exact(&mut name).await?;
        String::from_utf8(name)?
    } else {
        Ipv4Addr::from(client.read_u32().await?).to_string()
    };
    let port = client.read_u16().await?;
    let established = [SOCKS, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    tunnel(client, format!("{host}:{port}"), &established, tunnels).await
}

async fn tunnel(
    mut client: impl AsyncRead + AsyncWrite + Unpin,
    address: String,
    established: &[u8],
    tunnels: &Tunnels,
) -> Result<()> {
    let mut server = TcpStream::connect(&address).await?;
    tunnels
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push(address);
    client.write_all(established).await?;
    copy_bidirectional(&mut client, &mut server).await?;
    Ok(())
}
