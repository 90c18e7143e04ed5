//! HTTP servers of an attacker, each on a loopback address of its own.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Result;
use axum::Router;
use axum::extract::Request;
use axum::response::Response;
use axum::routing::any;
use futures::future::BoxFuture;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::sleep;

/// The attacker's usual address.
pub const ADDRESS: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 66);
/// Often enough that no timeout between two bytes ends the request.
const DRIP: Duration = Duration::from_millis(500);

/// A server that stops when it is dropped.
pub struct HostileServer {
    /// The address that it listens on.
    pub address: SocketAddr,
    requests: Arc<AtomicUsize>,
    _tasks: JoinSet<()>,
}

impl HostileServer {
    /// Starts a server whose responses are a function of the path and query.
    pub async fn serve<F>(address: Ipv4Addr, respond: F) -> Result<Self>
    where
        F: Fn(String) -> Response + Clone + Send + Sync + 'static,
    {
        let handler = move |request: Request| {
            let respond = respond.clone();
            async move {
                let path = request.uri().path_and_query();
                respond(path.map(ToString::to_string).unwrap_or_default())
            }
        };
        let router = Router::new().fallback(any(handler));
        Self::listen(address, move |stream| Box::pin(handle(stream, router.clone()))).await
    }

    /// Starts a server that starts a body for each request and sends a byte of it in each period of [`DRIP`].
    pub async fn dripping(address: Ipv4Addr) -> Result<Self> {
        Self::listen(address, |stream| {
            Box::pin(async move {
                // The client may close the connection at any time.
                let _ = drip(stream).await;
            })
        })
        .await
    }

    async fn listen(
        address: Ipv4Addr,
        handle: impl Fn(TcpStream) -> BoxFuture<'static, ()> + Send + 'static,
    ) -> Result<Self> {
        let listener = TcpListener::bind((address, 0)).await?;
        let address = listener.local_addr()?;
        let requests = Arc::<AtomicUsize>::default();
        let counter = Arc::clone(&requests);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                counter.fetch_add(1, Ordering::Relaxed);
                connections.spawn(handle(stream));
                while connections.try_join_next().is_some() {}
            }
        });
        Ok(Self {
            address,
            requests,
            _tasks: tasks,
        })
    }

    /// Its base URL, without a slash at the end.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// How many connections it has accepted. It keeps none alive: each is one request.
    pub fn requests(&self) -> usize {
        self.requests.load(Ordering::Relaxed)
    }
}

async fn handle(stream: TcpStream, router: Router) {
    let service = TowerToHyperService::new(router);
    let connection = http1::Builder::new()
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    let _ = connection.await;
}

async fn drip(mut stream: TcpStream) -> Result<()> {
    let mut head = [0; 1024];
    let _ = stream.read(&mut head).await?;
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/x-yaml\r\nContent-Length: 10000000\r\n\r\n";
    stream.write_all(head.as_bytes()).await?;
    loop {
        stream.write_all(b"#").await?;
        sleep(DRIP).await;
    }
}
