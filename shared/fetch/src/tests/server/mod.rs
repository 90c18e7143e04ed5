//! A server that replies as a test defines, byte by byte, and records its requests.

mod reply;
mod certificates;
mod request;

use std::{
    net::Ipv4Addr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use helmops_process::lock;
use tokio::{
    io::{self, AsyncRead, AsyncWrite, AsyncWriteExt, BufStream},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
    time::timeout,
};
use tokio_rustls::TlsAcceptor;

pub use self::{
    certificates::{Ca, Leaf, server_tls},
    reply::{Action, Reply, chunked, forever, response, stalling, status, with_content_length},
    request::RequestHead,
};

/// Far above the duration of any operation here, so that only a bug reaches it.
pub const DEADLINE: Duration = Duration::from_secs(20);

/// The usual response of a server without TLS to a TLS handshake.
const BAD_REQUEST: &[u8] =
    b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n400 Bad Request";

/// A server on a free port of 127.0.0.1; it stops when dropped.
#[derive(Debug)]
pub struct Server {
    scheme: &'static str,
    port: u16,
    state: Arc<ServerState>,
    disconnects: watch::Receiver<u64>,
    _tasks: JoinSet<()>,
}

struct ServerState {
    script: Box<dyn Fn(&RequestHead) -> Reply + Send + Sync>,
    heads: Mutex<Vec<RequestHead>>,
    connections: AtomicU64,
    written: AtomicU64,
    disconnects: watch::Sender<u64>,
}

impl std::fmt::Debug for ServerState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stage")
            .field("heads", &self.heads)
            .finish_non_exhaustive()
    }
}

impl Server {
    /// Serves over plain HTTP. The script defines the reply to a request.
    pub async fn http(script: impl Fn(&RequestHead) -> Reply + Send + Sync + 'static) -> Self {
        Self::start(None, script).await
    }

    /// Serves over HTTPS.
    pub async fn https(
        tls: TlsAcceptor,
        script: impl Fn(&RequestHead) -> Reply + Send + Sync + 'static,
    ) -> Self {
        Self::start(Some(tls), script).await
    }

    async fn start(
        tls: Option<TlsAcceptor>,
        script: impl Fn(&RequestHead) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let (sender, disconnects) = watch::channel(0);
        let state = Arc::new(ServerState {
            script: Box::new(script),
            heads: Mutex::default(),
            connections: AtomicU64::default(),
            written: AtomicU64::default(),
            disconnects: sender,
        });
        let scheme = if tls.is_some() { "https" } else { "http" };
        let port = listener.local_addr().unwrap().port();
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, tls, Arc::clone(&state)));
        Self {
            scheme,
            port,
            state,
            disconnects,
            _tasks: tasks,
        }
    }

    /// Its URL, without a slash at the end.
    pub fn url(&self) -> String {
        format!("{}://{}", self.scheme, self.host())
    }

    /// Its address and port.
    pub fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The requests, in the order of their arrival.
    pub fn requests(&self) -> Vec<RequestHead> {
        lock(&self.state.heads).clone()
    }

    /// Method and target of the requests.
    pub fn lines(&self) -> Vec<String> {
        lock(&self.state.heads).iter().map(RequestHead::line).collect()
    }

    /// The header `Authorization` of each request, empty if it has none.
    pub fn authorizations(&self) -> Vec<String> {
        let text = |head: &RequestHead| head.text("Authorization").to_owned();
        lock(&self.state.heads).iter().map(text).collect()
    }

    /// How many connections were accepted.
    pub fn connections(&self) -> u64 {
        self.state.connections.load(Ordering::Relaxed)
    }

    /// How many bytes have been written.
    pub fn written(&self) -> u64 {
        self.state.written.load(Ordering::Relaxed)
    }

    /// Waits until this many clients have disconnected during a response.
    pub async fn wait_for_disconnects(&self, times: u64) {
        let mut disconnects = self.disconnects.clone();
        let disconnects = timeout(
            DEADLINE,
            disconnects.wait_for(|disconnects| *disconnects >= times),
        )
        .await;
        assert!(disconnects.is_ok(), "the client keeps the connection");
    }
}

impl ServerState {
    fn reply(&self, mut head: RequestHead) -> Reply {
        let mut heads = lock(&self.heads);
        head.nth = heads.len();
        heads.push(head.clone());
        drop(heads);
        (self.script)(&head)
    }
}

async fn accept(listener: TcpListener, tls: Option<TlsAcceptor>, state: Arc<ServerState>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        connections.spawn(connection(stream, tls.clone(), Arc::clone(&state)));
        while connections.try_join_next().is_some() {}
    }
}

/// Errors of a connection are ignored: tests cause them deliberately.
async fn connection(stream: TcpStream, tls: Option<TlsAcceptor>, state: Arc<ServerState>) {
    state.connections.fetch_add(1, Ordering::Relaxed);
    let _ = stream.set_nodelay(true);
    match tls {
        None => serve(stream, &state).await,
        Some(tls) => {
            if let Ok(stream) = tls.accept(stream).await {
                serve(stream, &state).await;
            }
        }
    }
}

async fn serve(stream: impl AsyncRead + AsyncWrite + Unpin, state: &ServerState) {
    let mut stream = BufStream::new(stream);
    loop {
        match request::read(&mut stream).await {
            Ok(Some(head)) => {
                let reply = state.reply(head);
                match reply::send(reply, &mut stream, &state.written).await {
                    Ok(reply::AfterReply::Next) => {}
                    Ok(reply::AfterReply::Close) => break,
                    Ok(reply::AfterReply::Abort) => return,
                    Err(_) => return state.disconnects.send_modify(|disconnects| *disconnects += 1),
                }
            }
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                let _ = stream.write_all(BAD_REQUEST).await;
                break;
            }
            Ok(None) | Err(_) => return,
        }
    }
    let _ = stream.shutdown().await;
}
