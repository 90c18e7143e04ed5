//! A server with the protocol of S3 over HTTP for one bucket, which counts requests.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Result;
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{Response, StatusCode};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::https;

/// The name of the bucket.
pub const BUCKET: &str = "charts";
const MODIFIED: [&str; 2] = ["2026-11-30T10:00:00.000Z", "Mon, 30 Nov 2026 10:00:00 GMT"];

/// A server on a free port of 127.0.0.1; it stops when dropped.
pub struct BucketServer {
    address: SocketAddr,
    state: Arc<Mutex<ServerState>>,
    _tasks: JoinSet<()>,
}

#[derive(Default)]
struct ServerState {
    /// The objects by their names, each with how often it was written.
    objects: BTreeMap<String, (Vec<u8>, u64)>,
    /// The access key that requests must be signed with.
    access_key: Option<String>,
    requests: u64,
}

impl BucketServer {
    /// Serves an empty bucket over plain HTTP.
    ///
    /// # Errors
    /// If there is no free port.
    pub async fn start() -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let state = Arc::new(Mutex::new(ServerState::default()));
        let mut tasks = JoinSet::new();
        let router = Router::new().fallback(handle).with_state(Arc::clone(&state));
        tasks.spawn(https::serve(listener, None, router));
        Ok(Self {
            address,
            state,
            _tasks: tasks,
        })
    }

    /// Its host and port.
    pub fn endpoint(&self) -> String {
        self.address.to_string()
    }

    /// Writes an object.
    pub fn put(&self, name: &str, content: impl Into<Vec<u8>>) {
        let mut state = lock(&self.state);
        let object = state.objects.entry(name.to_owned()).or_default();
        *object = (content.into(), object.1 + 1);
    }

    /// From now on, requests that are not signed with this access key get a 403 response. The signature itself is not verified.
    pub fn require_key(&self, access_key: &str) {
        lock(&self.state).access_key = Some(access_key.to_owned());
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
    let query = request.uri().query().unwrap_or_default();
    let query: BTreeMap<_, _> = url::form_urlencoded::parse(query.as_bytes()).collect();
    let mut state = lock(&state);
    state.requests += 1;
    let authorization = request.headers().get("authorization");
    let authorization = authorization
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let signed = |key: &String| authorization.starts_with(&format!("AWS4-HMAC-SHA256 Credential={key}/"));
    if !state.access_key.as_ref().is_none_or(signed) {
        let error = "<Error><Code>InvalidAccessKeyId</Code></Error>";
        return response(StatusCode::FORBIDDEN, error.to_owned().into_bytes());
    }
    let path = request.uri().path().trim_start_matches('/');
    let Some(name) = path.strip_prefix(BUCKET).map(|name| name.trim_start_matches('/')) else {
        return response(StatusCode::NOT_FOUND, Vec::new());
    };
    if query.contains_key("list-type") {
        let prefix = query.get("prefix").map_or("", |prefix| &**prefix);
        return response(StatusCode::OK, list(&state.objects, prefix).into_bytes());
    }
    let Some((content, written)) = state.objects.get(name) else {
        return response(StatusCode::NOT_FOUND, Vec::new());
    };
    let object = Response::builder()
        .header("ETag", format!("\"{written}\""))
        .header("Last-Modified", MODIFIED[1])
        .body(content.clone().into());
    object.unwrap_or_default()
}

fn list(objects: &BTreeMap<String, (Vec<u8>, u64)>, prefix: &str) -> String {
    let mut xml = format!("<ListBucketResult><Name>{BUCKET}</Name>");
    for (name, (content, written)) in objects.iter().filter(|(name, _)| name.starts_with(prefix)) {
        // Writing to a text does not fail.
        let _ = write!(
            xml,
            "<Contents><Key>{name}</Key><LastModified>{}</LastModified><ETag>&quot;{written}&quot;</ETag><Size>{}</Size></Contents>",
            MODIFIED[0],
            content.len()
        );
    }
    xml + "</ListBucketResult>"
}

fn response(status: StatusCode, body: Vec<u8>) -> Response<Body> {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response
}
