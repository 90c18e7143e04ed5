//! A proxy in front of an API server that is slow, rejects requests, is away, or holds back the events of a kind.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Response, StatusCode, header};
use futures::StreamExt;
use reqwest::{Certificate, Client};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_rustls::TlsAcceptor;

use crate::cluster::Cluster;
use crate::private_ca::PrivateCa;
use crate::{credentials, https};

/// More than the API server accepts.
const MAX_BODY: usize = 8 << 20;

/// How an API server is overloaded.
#[derive(Clone, Copy, Debug, Default)]
pub struct Load {
    /// The time that each response takes longer.
    pub delay: Duration,
    /// One in so many requests gets a 429 response; 0 for none, 1 for all.
    pub reject_one_in: usize,
    /// When it may be repeated, in seconds: the header `Retry-After` of these responses.
    pub retry_after: u64,
}

/// An HTTPS server on a free port of 127.0.0.1 that forwards to an API server; it stops when dropped.
pub struct ApiProxy {
    address: SocketAddr,
    ca: String,
    acceptor: TlsAcceptor,
    state: Arc<ProxyState>,
    tasks: JoinSet<()>,
}

struct ProxyState {
    client: Client,
    base: String,
    load: Mutex<Load>,
    /// The resource whose events are held back.
    held: watch::Sender<Option<&'static str>>,
    requests: AtomicUsize,
    rejected: AtomicUsize,
}

impl ApiProxy {
    /// Forwards to the API server of a cluster, with the credentials of the requests.
    pub async fn start(cluster: &Cluster) -> Result<Self> {
        // Only the first call in a process installs a provider; later calls find it installed.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let ca = PrivateCa::new("helmops test proxy")?;
        let state = ProxyState {
            // Without a timeout: a watch takes long.
            client: Client::builder()
                .no_proxy()
                .tls_certs_only(Certificate::from_pem_bundle(cluster.ca()?.as_bytes())?)
                .build()?,
            base: cluster.url.trim_end_matches('/').to_owned(),
            load: Mutex::default(),
            held: watch::Sender::default(),
            requests: AtomicUsize::new(0),
            rejected: AtomicUsize::new(0),
        };
        let mut proxy = Self {
            address: listener.local_addr()?,
            ca: ca.pem().to_owned(),
            acceptor: https::acceptor(&ca, &["127.0.0.1"])?,
            state: Arc::new(state),
            tasks: JoinSet::new(),
        };
        proxy.accept(listener);
        Ok(proxy)
    }

    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// The CA certificate to trust (PEM).
    pub fn ca(&self) -> &str {
        &self.ca
    }

    /// Overloads it from now on, or no longer.
    pub fn set_load(&self, load: Load) {
        *self.state.load.lock().unwrap_or_else(PoisonError::into_inner) = load;
    }

    /// Holds back the events of the watches of a resource (`clustergroups`) from now on; with `None`, all that were held back arrive.
    pub fn hold(&self, resource: Option<&'static str>) {
        self.state.held.send_replace(resource);
    }

    /// The cluster at the address of this proxy, with a folder of its own.
    pub fn cluster(&self, cluster: &Cluster) -> Result<Cluster> {
        let directory = cluster.directory.join(format!("proxy-{}", self.address.port()));
        std::fs::create_dir(&directory)?;
        std::fs::write(directory.join(credentials::CA), &self.ca)?;
        let tokens = credentials::TOKENS;
        std::fs::copy(cluster.directory.join(tokens), directory.join(tokens))?;
        Ok(Cluster {
            url: self.url(),
            directory,
            ..cluster.clone()
        })
    }

    /// The number of requests so far.
    pub fn requests(&self) -> usize {
        self.state.requests.load(Relaxed)
    }

    /// The number of those that got a 429 response.
    pub fn rejected(&self) -> usize {
        self.state.rejected.load(Relaxed)
    }

    /// Closes all connections and refuses new ones.
    pub async fn close(&mut self) {
        self.tasks.shutdown().await;
    }

    /// Accepts connections again after [`ApiProxy::close`], at the same address.
    pub async fn reopen(&mut self) -> Result<()> {
        let listener = TcpListener::bind(self.address).await;
        self.accept(listener.with_context(|| format!("cannot listen on {} again", self.address))?);
        Ok(())
    }

    fn accept(&mut self, listener: TcpListener) {
        let router = Router::new().fallback(handle).with_state(Arc::clone(&self.state));
        self.tasks
            .spawn(https::serve(listener, Some(self.acceptor.clone()), router));
    }
}

async fn handle(State(state): State<Arc<ProxyState>>, request: Request) -> Response<Body> {
    let load = *state.load.lock().unwrap_or_else(PoisonError::into_inner);
    let number = state.requests.fetch_add(1, Relaxed);
    sleep(load.delay).await;
    if load.reject_one_in > 0 && number.is_multiple_of(load.reject_one_in) {
        state.rejected.fetch_add(1, Relaxed);
        return rejection(load.retry_after);
    }
    forward(&state, request).await.unwrap_or_else(|error| {
        let mut response = Response::new(Body::from(format!("{error:#}")));
        *response.status_mut() = StatusCode::BAD_GATEWAY;
        response
    })
}

/// As the API server rejects a request when it has too many.
fn rejection(retry_after: u64) -> Response<Body> {
    let mut response = Response::new(Body::from("Too many requests, please try again later.\n"));
    *response.status_mut() = StatusCode::TOO_MANY_REQUESTS;
    response
        .headers_mut()
        .insert(header::RETRY_AFTER, retry_after.into());
    response
}

async fn forward(state: &ProxyState, request: Request) -> Result<Response<Body>> {
    let (parts, body) = request.into_parts();
    let body = to_bytes(body, MAX_BODY).await?;
    let path = parts.uri.path_and_query().context("the request has no path")?;
    let is_watch = path.query().is_some_and(|query| query.contains("watch="));
    let watched = is_watch.then(|| path.path().rsplit('/').next().unwrap_or_default().to_owned());
    let response = state
        .client
        .request(parts.method, format!("{}{path}", state.base))
        .headers(of_message(parts.headers))
        .body(body)
        .send()
        .await?;
    let (status, headers) = (response.status(), response.headers().clone());
    let held = state.held.subscribe();
    let events = response.bytes_stream().then(move |events| {
        let (mut held, watched) = (held.clone(), watched.clone());
        async move {
            // It fails only if the proxy is gone.
            let _ = held
                .wait_for(|held| held.is_none() || *held != watched.as_deref())
                .await;
            events
        }
    });
    let mut forwarded = Response::new(Body::from_stream(events));
    *forwarded.status_mut() = status;
    *forwarded.headers_mut() = of_message(headers);
    Ok(forwarded)
}

/// Without the headers of the connection.
fn of_message(mut headers: HeaderMap) -> HeaderMap {
    for name in [
        header::HOST,
        header::CONNECTION,
        header::TRANSFER_ENCODING,
        header::CONTENT_LENGTH,
        header::UPGRADE,
    ] {
        headers.remove(name);
    }
    headers
}
