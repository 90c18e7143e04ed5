//! A server that does what a test tells it to, byte by byte, and remembers what it was asked.

mod act;
mod certificates;
mod head;

use std::{
    net::Ipv4Addr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use helmops_shared::runtime::lock;
use tokio::{
    io::{self, AsyncRead, AsyncWrite, AsyncWriteExt, BufStream},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
    time::timeout,
};
use tokio_rustls::TlsAcceptor;

pub use self::{
    act::{Act, Reply, answer, chunked, forever, promising, stalling, status},
    certificates::{Ca, Leaf, server_tls},
    head::Head,
};

/// Far above what anything here takes, so that only a fault meets it.
pub const DEADLINE: Duration = Duration::from_secs(20);

/// What servers answer that speak no TLS, to a peer that begins with it.
const NO_TLS_HERE: &[u8] =
    b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n400 Bad Request";

/// A server on a port of its own on 127.0.0.1; it ends when dropped.
#[derive(Debug)]
pub struct Server {
    scheme: &'static str,
    port: u16,
    stage: Arc<Stage>,
    left: watch::Receiver<u64>,
    _tasks: JoinSet<()>,
}

struct Stage {
    script: Box<dyn Fn(&Head) -> Reply + Send + Sync>,
    heads: Mutex<Vec<Head>>,
    connections: AtomicU64,
    written: AtomicU64,
    left: watch::Sender<u64>,
}

impl std::fmt::Debug for Stage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stage")
            .field("heads", &self.heads)
            .finish_non_exhaustive()
    }
}

impl Server {
    /// Serves over plain HTTP. The script says what to do about a request.
    pub async fn http(script: impl Fn(&Head) -> Reply + Send + Sync + 'static) -> Self {
        Self::start(None, script).await
    }

    /// Serves over HTTPS.
    pub async fn https(tls: TlsAcceptor, script: impl Fn(&Head) -> Reply + Send + Sync + 'static) -> Self {
        Self::start(Some(tls), script).await
    }

    async fn start(
        tls: Option<TlsAcceptor>,
        script: impl Fn(&Head) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let (sender, left) = watch::channel(0);
        let stage = Arc::new(Stage {
            script: Box::new(script),
            heads: Mutex::default(),
            connections: AtomicU64::default(),
            written: AtomicU64::default(),
            left: sender,
        });
        let scheme = if tls.is_some() { "https" } else { "http" };
        let port = listener.local_addr().unwrap().port();
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, tls, Arc::clone(&stage)));
        Self {
            scheme,
            port,
            stage,
            left,
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

    /// The requests that came, in the order of their coming.
    pub fn heads(&self) -> Vec<Head> {
        lock(&self.stage.heads).clone()
    }

    /// The same in short: method and target.
    pub fn lines(&self) -> Vec<String> {
        lock(&self.stage.heads).iter().map(Head::line).collect()
    }

    /// The credentials of each request, empty for none.
    pub fn sent(&self) -> Vec<String> {
        let text = |head: &Head| head.text("Authorization").to_owned();
        lock(&self.stage.heads).iter().map(text).collect()
    }

    /// How many connections there were.
    pub fn connections(&self) -> u64 {
        self.stage.connections.load(Ordering::Relaxed)
    }

    /// What has been written, in bytes.
    pub fn written(&self) -> u64 {
        self.stage.written.load(Ordering::Relaxed)
    }

    /// Waits until so many peers have gone away in the middle of an answer.
    pub async fn has_been_left(&self, times: u64) {
        let mut left = self.left.clone();
        let left = timeout(DEADLINE, left.wait_for(|left| *left >= times)).await;
        assert!(left.is_ok(), "the connection is still held");
    }
}

impl Stage {
    fn reply(&self, mut head: Head) -> Reply {
        let mut heads = lock(&self.heads);
        head.nth = heads.len();
        heads.push(head.clone());
        drop(heads);
        (self.script)(&head)
    }
}

async fn accept(listener: TcpListener, tls: Option<TlsAcceptor>, stage: Arc<Stage>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        connections.spawn(connection(stream, tls.clone(), Arc::clone(&stage)));
        while connections.try_join_next().is_some() {}
    }
}

/// What goes wrong with a connection is what the test wants.
async fn connection(stream: TcpStream, tls: Option<TlsAcceptor>, stage: Arc<Stage>) {
    stage.connections.fetch_add(1, Ordering::Relaxed);
    let _ = stream.set_nodelay(true);
    match tls {
        None => talk(stream, &stage).await,
        Some(tls) => {
            if let Ok(stream) = tls.accept(stream).await {
                talk(stream, &stage).await;
            }
        }
    }
}

async fn talk(stream: impl AsyncRead + AsyncWrite + Unpin, stage: &Stage) {
    let mut stream = BufStream::new(stream);
    loop {
        match head::read(&mut stream).await {
            Ok(Some(head)) => {
                let reply = stage.reply(head);
                match act::perform(reply, &mut stream, &stage.written).await {
                    Ok(act::Then::Next) => {}
                    Ok(act::Then::Close) => break,
                    Ok(act::Then::Cut) => return,
                    Err(_) => return stage.left.send_modify(|left| *left += 1),
                }
            }
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                let _ = stream.write_all(NO_TLS_HERE).await;
                break;
            }
            Ok(None) | Err(_) => return,
        }
    }
    let _ = stream.shutdown().await;
}
