//! The HTTP endpoint.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use axum::{
    Router,
    extract::{ConnectInfo, Request, State},
    http::{
        HeaderMap, HeaderValue, Method, StatusCode,
        header::{ALLOW, CONNECTION, RETRY_AFTER},
    },
    middleware::map_response_with_state,
    response::{IntoResponse, Response},
};
use helmops_notify::push::{Headers, digest_in};
use helmops_process::{Bodies, BodyError, Health, close_on_shutdown};
use k8s_openapi::jiff::Timestamp;
use tokio::time::Instant;
use tower_http::catch_panic::CatchPanicLayer;

use crate::{
    gate::{Gate, Incoming, Passed, Refused},
    limits::BODIES,
    metrics::{Metrics, Outcome},
    recorder::{RecordError, Recorder},
    table::{Hook, SharedTable, Table},
};

/// The state of the router.
#[derive(Clone)]
pub struct AppState {
    table: SharedTable,
    recorder: Recorder,
    metrics: Metrics,
    health: Health,
    bodies: Arc<Bodies>,
    gate: Arc<Gate>,
    started: Instant,
}

impl AppState {
    /// The state at the start of the process.
    pub fn new(table: SharedTable, recorder: Recorder, metrics: Metrics, health: Health) -> Self {
        Self {
            table,
            recorder,
            metrics,
            health,
            bodies: Arc::new(Bodies::new(BODIES)),
            gate: Arc::default(),
            started: Instant::now(),
        }
    }
}

pub fn router(state: AppState) -> Router {
    Router::new()
        .fallback(receive)
        .layer(CatchPanicLayer::new())
        .layer(map_response_with_state(state.health.clone(), close_on_shutdown))
        .with_state(state)
}

/// What is sent back.
struct Reply {
    status: StatusCode,
    text: String,
    retry_after: Option<Duration>,
}

impl Reply {
    fn new(status: StatusCode, text: impl Into<String>) -> Self {
        Self {
            status,
            text: text.into(),
            retry_after: None,
        }
    }

    fn later(self, retry_after: Duration) -> Self {
        Self {
            retry_after: Some(retry_after),
            ..self
        }
    }
}

impl IntoResponse for Reply {
    fn into_response(self) -> Response {
        let mut response = (self.status, self.text + "\n").into_response();
        if let Some(time) = self.retry_after {
            let seconds = time.as_secs() + u64::from(time.subsec_nanos() > 0);
            response.headers_mut().insert(RETRY_AFTER, seconds.max(1).into());
        }
        response
    }
}

async fn receive(State(state): State<AppState>, request: Request) -> Response {
    let started = Instant::now();
    if request.method() != Method::POST {
        state.metrics.request(None, Outcome::Method);
        let mut response = Reply::new(StatusCode::METHOD_NOT_ALLOWED, "send POST").into_response();
        response
            .headers_mut()
            .insert(ALLOW, HeaderValue::from_static("POST"));
        return response;
    }
    let Some(table) = state.table.borrow().clone() else {
        state.metrics.request(None, Outcome::Starting);
        let reply = Reply::new(StatusCode::SERVICE_UNAVAILABLE, "the Receivers are not known yet");
        return reply.later(Duration::from_secs(1)).into_response();
    };
    let path_digest = digest_in(request.uri().path()).map(str::to_owned);
    let found = path_digest.as_deref().and_then(|digest| table.get(digest));
    let (Some(path_digest), Some(hook)) = (&path_digest, found) else {
        state.metrics.request(None, Outcome::UnknownPath);
        return Reply::new(StatusCode::NOT_FOUND, "not found").into_response();
    };
    let (outcome, response) = handle(&state, &table, hook, path_digest, request).await;
    state.metrics.request(Some(hook.receiver_type), outcome);
    if outcome == Outcome::Accepted {
        state.metrics.accepted_after(started.elapsed());
    }
    response
}

/// Handles a request to a Receiver.
async fn handle(
    state: &AppState,
    table: &Table,
    hook: &Hook,
    path_digest: &str,
    request: Request,
) -> (Outcome, Response) {
    if hook.is_suspended {
        let reply = Reply::new(StatusCode::SERVICE_UNAVAILABLE, "the Receiver is suspended");
        return (
            Outcome::Suspended,
            reply.later(Duration::from_mins(1)).into_response(),
        );
    }
    let peer = request
        .extensions()
        .get::<ConnectInfo<SocketAddr>>()
        .map(|peer| peer.0);
    let headers = request.headers().clone();
    let body = match state.bodies.read(request).await {
        Ok(body) => body,
        Err(error) => {
            refused(hook, peer, &error);
            return body_refused(error);
        }
    };
    let headers = headers_of(&headers);
    let now = state.started.elapsed();
    let incoming = Incoming {
        path_digest,
        headers: &headers,
        body: body.as_ref(),
        time: Timestamp::now(),
        now,
    };
    let (announcements, request) = match state.gate.pass(hook, &table.keys, incoming) {
        Ok(Passed::Pushed {
            announcements,
            request,
        }) => (announcements, request),
        Ok(Passed::Ignored) => {
            let reply = Reply::new(StatusCode::OK, "nothing was pushed");
            return (Outcome::Ignored, reply.into_response());
        }
        Ok(Passed::Replayed) => {
            let reply = Reply::new(StatusCode::OK, "already handled");
            return (Outcome::Replayed, reply.into_response());
        }
        Err(error) => {
            refused(hook, peer, &error);
            return reply_to(&error);
        }
    };
    // The write may take a second, and needs nothing of the body.
    drop(body);
    match state.recorder.record(hook.receiver.clone(), announcements).await {
        Ok(()) => {
            if let Some(request) = request {
                state.gate.handled(hook, request, now);
            }
            let reply = Reply::new(StatusCode::ACCEPTED, "accepted");
            (Outcome::Accepted, reply.into_response())
        }
        Err(error) => {
            refused(hook, peer, &error);
            not_recorded(&error)
        }
    }
}

fn not_recorded(error: &RecordError) -> (Outcome, Response) {
    let (outcome, text) = match error {
        RecordError::Busy => (
            Outcome::Busy,
            "too many pushes wait; this one is recorded with them, repeat it to be sure",
        ),
        RecordError::Full | RecordError::Gone | RecordError::Timeout | RecordError::Failed(_) => {
            (Outcome::Failed, "the push was not recorded; repeat it later")
        }
    };
    let reply = Reply::new(StatusCode::SERVICE_UNAVAILABLE, text);
    (outcome, reply.later(Duration::from_secs(5)).into_response())
}

fn headers_of(headers: &HeaderMap) -> Headers<'_> {
    headers
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_bytes()))
        .collect()
}

fn body_refused(error: BodyError) -> (Outcome, Response) {
    let outcome = Outcome::Body(error.reason());
    let is_rest_expected = matches!(error, BodyError::TooLarge(_) | BodyError::Slow { .. });
    let mut response = error.into_response();
    if is_rest_expected {
        // The rest of the body is not read.
        response
            .headers_mut()
            .insert(CONNECTION, HeaderValue::from_static("close"));
    }
    (outcome, response)
}

fn reply_to(error: &Refused) -> (Outcome, Response) {
    let text = error.to_string();
    let (outcome, reply) = match error {
        Refused::Unauthorized(_) => (Outcome::Unauthorized, Reply::new(StatusCode::UNAUTHORIZED, text)),
        Refused::Malformed(_) => (Outcome::Malformed, Reply::new(StatusCode::BAD_REQUEST, text)),
    };
    (outcome, reply.into_response())
}

/// Logs why a request was refused, at most twice a minute for each Receiver. Nothing of the request is logged: its path, headers and body
/// are secrets, or chosen by anyone.
fn refused(hook: &Hook, peer: Option<SocketAddr>, error: &dyn std::error::Error) {
    if let Some(suppressed) = hook.log.allow(Instant::now()) {
        let peer = peer.map(|peer| peer.ip());
        tracing::warn!(receiver = %hook.receiver, peer = ?peer, suppressed, "refused a request: {error}");
    }
}

#[cfg(test)]
mod tests;
