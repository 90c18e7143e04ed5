//! A web server for chart repositories that counts requests and fails on demand.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result};
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{Response, StatusCode, header};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::https;
use crate::private_ca::PrivateCa;

/// A server on a free port of 127.0.0.1; it stops when dropped.
pub struct ChartServer {
    address: SocketAddr,
    tls: Option<Tls>,
    state: Arc<Mutex<ServerState>>,
    tasks: JoinSet<()>,
}

struct Tls {
    ca: String,
    acceptor: TlsAcceptor,
}

/// What the server serves, and how many responses it has sent.
struct ServerState {
    folder: PathBuf,
    /// The `Authorization` header that requests must have.
    authorization: Option<String>,
    fixed: BTreeMap<String, FixedResponse>,
    responses: BTreeMap<(String, StatusCode), u64>,
}

/// A response that does not come from the folder.
#[derive(Clone, Debug)]
pub struct FixedResponse {
    pub status: StatusCode,
    /// The value of `Content-Type`.
    pub content_type: &'static str,
    pub body: String,
}

impl ChartServer {
    /// Serves a folder over plain HTTP.
    pub async fn http(folder: &Path) -> Result<Self> {
        Self::start(folder, None).await
    }

    /// Serves a folder over HTTPS, with a certificate of a private CA: see [`ChartServer::ca`].
    pub async fn https(folder: &Path) -> Result<Self> {
        Self::https_as(folder, "localhost").await
    }

    /// The same, with a certificate that is also valid for this name.
    pub async fn https_as(folder: &Path, name: &str) -> Result<Self> {
        Self::start(folder, Some(Tls::new(name)?)).await
    }

    async fn start(folder: &Path, tls: Option<Tls>) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let state = ServerState {
            folder: folder.to_owned(),
            authorization: None,
            fixed: BTreeMap::new(),
            responses: BTreeMap::new(),
        };
        let mut server = Self {
            address: listener.local_addr()?,
            tls,
            state: Arc::new(Mutex::new(state)),
            tasks: JoinSet::new(),
        };
        server.accept(listener);
        Ok(server)
    }

    /// Its base URL, without a trailing slash.
    pub fn url(&self) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }

    /// The CA certificate to trust (PEM); `None` for plain HTTP.
    pub fn ca(&self) -> Option<&str> {
        self.tls.as_ref().map(|tls| tls.ca.as_str())
    }

    /// From now on, requests without this name and password get a 401 response.
    pub fn require_login(&self, name: &str, password: &str) {
        let login = STANDARD.encode(format!("{name}:{password}"));
        self.state().authorization = Some(format!("Basic {login}"));
    }

    /// From now on, requests for `path` get this response, with or without a login.
    pub fn set_response(&self, path: &str, response: FixedResponse) {
        self.state().fixed.insert(path.to_owned(), response);
    }

    /// Serves `path` from the folder again.
    pub fn reset_response(&self, path: &str) {
        self.state().fixed.remove(path);
    }

    /// The number of responses to requests for `path`, with any status.
    pub fn requests(&self, path: &str) -> u64 {
        let state = self.state();
        let of_path = state
            .responses
            .iter()
            .filter(|((requested, _), _)| requested == path);
        of_path.map(|(_, count)| count).sum()
    }

    /// The number of responses to requests for `path` with this status.
    pub fn responses(&self, path: &str, status: StatusCode) -> u64 {
        let key = (path.to_owned(), status);
        self.state().responses.get(&key).copied().unwrap_or_default()
    }

    /// Closes all connections and refuses new ones.
    pub async fn close(&mut self) {
        self.tasks.shutdown().await;
    }

    /// Accepts connections again after [`ChartServer::close`], at the same address.
    pub async fn reopen(&mut self) -> Result<()> {
        let listener = TcpListener::bind(self.address).await;
        self.accept(listener.with_context(|| format!("cannot listen on {} again", self.address))?);
        Ok(())
    }

    fn accept(&mut self, listener: TcpListener) {
        let acceptor = self.tls.as_ref().map(|tls| tls.acceptor.clone());
        let router = Router::new().fallback(handle).with_state(Arc::clone(&self.state));
        self.tasks.spawn(https::serve(listener, acceptor, router));
    }

    fn state(&self) -> MutexGuard<'_, ServerState> {
        lock(&self.state)
    }
}

impl Tls {
    fn new(name: &str) -> Result<Self> {
        let ca = PrivateCa::new("helmops test charts")?;
        Ok(Self {
            ca: ca.pem().to_owned(),
            acceptor: https::acceptor(&ca, &["127.0.0.1", name])?,
        })
    }
}

/// A test that panicked while it held the lock has failed already.
fn lock(state: &Mutex<ServerState>) -> MutexGuard<'_, ServerState> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn handle(State(state): State<Arc<Mutex<ServerState>>>, request: Request) -> Response<Body> {
    let path = request.uri().path().to_owned();
    let mut state = lock(&state);
    let response = state.respond(&path, &request);
    *state.responses.entry((path, response.status())).or_default() += 1;
    response
}

impl ServerState {
    fn respond(&self, path: &str, request: &Request) -> Response<Body> {
        let header = |name| request.headers().get(name).and_then(|value| value.to_str().ok());
        if let Some(fixed) = self.fixed.get(path) {
            return respond(
                fixed.status,
                (header::CONTENT_TYPE, fixed.content_type),
                fixed.body.clone(),
            );
        }
        if self.authorization.is_some() && header(header::AUTHORIZATION) != self.authorization.as_deref() {
            let challenge = (header::WWW_AUTHENTICATE, "Basic realm=\"charts\"");
            return respond(StatusCode::UNAUTHORIZED, challenge, "login required\n");
        }
        let Some(content) = self.read(path) else {
            let content_type = (header::CONTENT_TYPE, "text/html");
            return respond(
                StatusCode::NOT_FOUND,
                content_type,
                "<html><h1>404 Not Found</h1></html>\n",
            );
        };
        let tag = entity_tag(&content);
        if header(header::IF_NONE_MATCH) == Some(tag.as_str()) {
            return respond(StatusCode::NOT_MODIFIED, (header::ETAG, &tag), Body::empty());
        }
        respond(StatusCode::OK, (header::ETAG, &tag), content)
    }

    fn read(&self, path: &str) -> Option<Vec<u8>> {
        let inside = !path.split('/').any(|part| part == "..");
        let file = self.folder.join(path.trim_start_matches('/'));
        inside.then(|| std::fs::read(file).ok()).flatten()
    }
}

fn respond(
    status: StatusCode,
    (name, value): (header::HeaderName, &str),
    body: impl Into<Body>,
) -> Response<Body> {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    if let Ok(value) = value.parse() {
        response.headers_mut().insert(name, value);
    }
    response
}

fn entity_tag(content: &[u8]) -> String {
    let mut hasher = DefaultHasher::new();
    content.hash(&mut hasher);
    format!("\"{:016x}\"", hasher.finish())
}
