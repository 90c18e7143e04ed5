//! A Git server over HTTP for one repository, which counts requests.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Result;
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{Response, StatusCode, header};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use helmops_git::ObjectId;
use helmops_git::testing::{Repository, Server};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::https;

/// The path of the repository.
const PATH: &str = "/team/charts.git/";
/// The largest request of a client, in bytes.
const MAX_REQUEST: usize = 1 << 20;

/// A server on a free port of 127.0.0.1; it stops when dropped.
pub struct GitServer {
    address: SocketAddr,
    state: Arc<Mutex<ServerState>>,
    _tasks: JoinSet<()>,
}

struct ServerState {
    server: Server,
    /// The `Authorization` header that requests must have.
    authorization: Option<String>,
    requests: u64,
}

impl GitServer {
    /// Serves an empty repository over plain HTTP.
    ///
    /// # Errors
    /// If there is no free port.
    pub async fn start() -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let state = Arc::new(Mutex::new(ServerState {
            server: Server::new(Repository::default()),
            authorization: None,
            requests: 0,
        }));
        let mut tasks = JoinSet::new();
        let router = Router::new().fallback(handle).with_state(Arc::clone(&state));
        tasks.spawn(https::serve(listener, None, router));
        Ok(Self {
            address,
            state,
            _tasks: tasks,
        })
    }

    /// The URL of the repository.
    pub fn url(&self) -> String {
        format!("http://{}{}", self.address, PATH.trim_end_matches('/'))
    }

    /// Commits these files, by their paths, as all that is in a branch.
    pub fn commit(&self, branch: &str, files: &[(&str, &str)]) -> ObjectId {
        lock(&self.state).server.repository.commit(branch, files)
    }

    /// Sets a tag.
    pub fn tag(&self, name: &str, commit: ObjectId) {
        lock(&self.state).server.repository.tag(name, commit);
    }

    /// From now on, requests without this name and password get a 401 response.
    pub fn require_login(&self, name: &str, password: &str) {
        let login = STANDARD.encode(format!("{name}:{password}"));
        lock(&self.state).authorization = Some(format!("Basic {login}"));
    }

    /// The number of requests so far.
    pub fn requests(&self) -> u64 {
        lock(&self.state).requests
    }
}

/// A test that panicked while it held the lock has failed already.
fn lock(state: &Mutex<ServerState>) -> MutexGuard<'_, ServerState> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn handle(State(state): State<Arc<Mutex<ServerState>>>, request: Request) -> Response<Body> {
    let (head, body) = request.into_parts();
    let Ok(body) = to_bytes(body, MAX_REQUEST).await else {
        return status(StatusCode::PAYLOAD_TOO_LARGE);
    };
    let header = |name: &str| head.headers.get(name).and_then(|value| value.to_str().ok());
    let mut state = lock(&state);
    state.requests += 1;
    if state.authorization.is_some() && header("authorization") != state.authorization.as_deref() {
        let mut response = status(StatusCode::UNAUTHORIZED);
        let challenge = header::HeaderValue::from_static("Basic realm=\"git\"");
        response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
        return response;
    }
    let target = head.uri.path_and_query().map_or("", |target| target.as_str());
    let protocol = header("git-protocol").unwrap_or_default();
    let target = target.strip_prefix(PATH).unwrap_or_default();
    match state.server.respond(target, protocol, &body) {
        Some(body) => Response::new(body.into()),
        None => status(StatusCode::NOT_FOUND),
    }
}

fn status(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}
