//! A web server that records requests: an endpoint that messages are sent to.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Result, ensure};
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Response, StatusCode};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::wait::eventually;

/// Far above the size of any message.
const MAX_BODY: usize = 16 << 20;
/// Messages are collected for seconds.
const SOON: Duration = Duration::from_mins(1);

/// A server on a free port of 127.0.0.1; it stops when dropped.
#[derive(Debug)]
pub struct Sink {
    address: SocketAddr,
    state: Arc<Mutex<SinkState>>,
    _tasks: JoinSet<()>,
}

/// A request that the server has got.
#[derive(Clone, Debug)]
pub struct Received {
    /// Path and query.
    pub path: String,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

impl Received {
    /// The body as JSON; null if it is not.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// A header; empty if it is missing.
    pub fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
    }
}

/// How the server responds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behavior {
    Status(u16),
    /// Never.
    Hang,
}

#[derive(Debug)]
struct SinkState {
    behavior: Behavior,
    received: Vec<Received>,
}

impl Sink {
    /// Starts a server that accepts everything.
    ///
    /// # Errors
    /// If there is no free port.
    pub async fn start() -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let state = Arc::new(Mutex::new(SinkState {
            behavior: Behavior::Status(200),
            received: Vec::new(),
        }));
        let router = Router::new().fallback(receive).with_state(Arc::clone(&state));
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            // It ends with the task.
            let _ = axum::serve(listener, router).await;
        });
        Ok(Self {
            address,
            state,
            _tasks: tasks,
        })
    }

    /// Its base URL, without a trailing slash.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// From now on, it responds like this.
    pub fn behave(&self, behavior: Behavior) {
        self.state().behavior = behavior;
    }

    /// The requests so far, in the order of their arrival, those that were rejected included.
    pub fn received(&self) -> Vec<Received> {
        self.state().received.clone()
    }

    /// Waits until there are at least this many requests, and returns all of them.
    ///
    /// # Errors
    /// If there are fewer after a minute.
    pub async fn until(&self, number: usize) -> Result<Vec<Received>> {
        eventually("messages", SOON, async || {
            let received = self.received();
            ensure!(received.len() >= number, "{} of {number}", received.len());
            Ok(received)
        })
        .await
    }

    fn state(&self) -> MutexGuard<'_, SinkState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn receive(State(state): State<Arc<Mutex<SinkState>>>, request: Request) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let body = to_bytes(body, MAX_BODY).await.unwrap_or_default().to_vec();
    let behavior = {
        let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
        let path = parts.uri.path_and_query().map(ToString::to_string);
        state.received.push(Received {
            path: path.unwrap_or_default(),
            headers: parts.headers,
            body,
        });
        state.behavior
    };
    let status = match behavior {
        Behavior::Status(status) => status,
        Behavior::Hang => std::future::pending().await,
    };
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::OK);
    response
}
