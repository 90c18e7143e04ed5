//! The server: requests that [`super::access`] allows, to responses.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{
    Router,
    body::{Body, to_bytes},
    extract::Request,
    http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header},
    response::IntoResponse,
    routing::any,
};
use helmops_process::{Accept, Limits, ServeMetrics, Transport};
use prometheus::Registry;
use serde_json::json;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::{
    access::{self, Target},
    assets::{self, Asset},
    hub::Hub,
    session::Session,
    stream::{self, LIFETIME},
};
use crate::failure::Failure;

/// The key of a link, with room to spare.
const MAX_BODY: usize = 1 << 10;
/// How long a body may take.
const BODY_TIMEOUT: Duration = Duration::from_secs(5);

/// What only a page of this server may do with what it gets: run its scripts, and read from here.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; \
                      form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

/// The headers of every response.
const HEADERS: [(HeaderName, &str); 8] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::CACHE_CONTROL, "no-store"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        "same-origin",
    ),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
    (
        HeaderName::from_static("permissions-policy"),
        "camera=(), geolocation=(), microphone=()",
    ),
];

/// The limits of connections, for the browsers of one person.
const LIMITS: Limits = Limits {
    connections: 48,
    handshake: Duration::from_secs(5),
    first_request: Duration::from_secs(10),
    idle: Duration::from_secs(30),
    // A stream is one request.
    request: LIFETIME.saturating_add(Duration::from_mins(1)),
    drain: Duration::from_millis(200),
};

/// Serves the pages until `stop`.
///
/// # Errors
/// None in practice: the metrics of the server have a registry of their own.
pub async fn serve(
    listener: impl Accept,
    session: Arc<Session>,
    hub: Hub,
    stop: CancellationToken,
) -> Result<(), Failure> {
    let metrics = ServeMetrics::register(&Registry::new(), "ui")
        .map_err(|error| Failure::because("cannot start the server", &error))?;
    let app = Router::new().fallback(any(move |request: Request| {
        respond(request, Arc::clone(&session), hub.clone())
    }));
    helmops_process::serve(listener, Transport::Plain, app, LIMITS, metrics, stop).await;
    Ok(())
}

async fn respond(request: Request, session: Arc<Session>, hub: Hub) -> Response<Body> {
    let (head, body) = request.into_parts();
    let mut response = match access::check(&head, &session) {
        Err(denied) => text(denied.status(), denied.text()),
        Ok(Target::Page) => file(&assets::PAGE),
        Ok(Target::Asset) => assets::find(head.uri.path())
            .map_or_else(|| text(StatusCode::NOT_FOUND, "There is no such file.\n"), file),
        Ok(Target::Session) => exchange(body, &session).await,
        Ok(Target::Stream(topic)) => match hub.subscribe(topic) {
            Ok(subscription) => (
                [(header::CONTENT_TYPE, "text/event-stream")],
                Body::from_stream(stream::events(subscription)),
            )
                .into_response(),
            Err(_) => text(
                StatusCode::SERVICE_UNAVAILABLE,
                "Too many pages are open. Close some of them.\n",
            ),
        },
    };
    secure(response.headers_mut());
    response
}

fn secure(headers: &mut HeaderMap) {
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
}

fn text(status: StatusCode, text: &'static str) -> Response<Body> {
    (
        status,
        [(header::CONTENT_TYPE, "text/plain; charset=utf-8")],
        text,
    )
        .into_response()
}

fn file(asset: &'static Asset) -> Response<Body> {
    ([(header::CONTENT_TYPE, asset.content_type)], asset.content).into_response()
}

/// Exchanges the key of a link, which is the whole body.
async fn exchange(body: Body, session: &Session) -> Response<Body> {
    let Ok(body) = timeout(BODY_TIMEOUT, to_bytes(body, MAX_BODY)).await else {
        return text(StatusCode::REQUEST_TIMEOUT, "The body took too long.\n");
    };
    let Ok(body) = body else {
        return text(StatusCode::PAYLOAD_TOO_LARGE, "The body is too large.\n");
    };
    let key = std::str::from_utf8(&body).unwrap_or_default();
    let Some(exchanged) = session.exchange(key, Instant::now()) else {
        return text(
            StatusCode::UNAUTHORIZED,
            "This key is not valid, or not any more. Open the address that kubectl helmop ui printed.\n",
        );
    };
    let page_key = json!({ "pageKey": exchanged.page_key }).to_string();
    let headers = [
        (header::CONTENT_TYPE, "application/json"),
        (header::SET_COOKIE, &*exchanged.set_cookie),
    ];
    (headers, page_key).into_response()
}

#[cfg(test)]
mod tests;
