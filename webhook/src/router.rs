//! The two endpoints.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{
    Router,
    extract::{Request as HttpRequest, State},
    http::{
        HeaderValue, StatusCode,
        header::{CONNECTION, CONTENT_TYPE},
    },
    middleware::map_response_with_state,
    response::{IntoResponse, Response},
    routing::post,
};
use helmops_shared::{
    api::limits,
    runtime::{Health, Throttle, kube_client::PolicyCache},
    text::cut,
};
use serde::Deserialize;
use tower_http::catch_panic::CatchPanicLayer;

use crate::{
    body::{Bodies, Refusal},
    decide,
    metrics::{AdmissionResult, Metrics, Webhook},
    review::{AdmissionResponse, Request},
};

/// A warning that any peer can cause is written at most this often.
const WARN_EVERY: Duration = Duration::from_secs(30);

/// What is said of request body is not an AdmissionReview.
const ERROR_BYTES: usize = 1 << 10;

/// Longest message in the log: what an API server passes of warnings.
const MESSAGE_BYTES: usize = 4 << 10;

/// What requests are answered with.
#[derive(Clone, Debug)]
pub struct AppState {
    /// What Prometheus sees.
    pub metrics: Metrics,
    /// Whether the process is about to end.
    pub health: Health,
    /// What HelmOps may use. While that is unknown, nothing is held against them.
    pub policies: PolicyCache,
    /// The bodies in memory, and what is logged about those that are refused.
    pub bodies: Arc<Guard>,
}

/// What keeps a flood of requests from memory and log.
#[derive(Debug)]
pub struct Guard {
    bodies: Bodies,
    warnings: Throttle,
}

impl Default for Guard {
    fn default() -> Self {
        Self {
            bodies: Bodies::default(),
            warnings: Throttle::new(WARN_EVERY),
        }
    }
}

/// Makes the router.
pub fn router(shared: AppState) -> Router {
    Router::new()
        .route("/mutate", post(mutate))
        .route("/validate", post(validate))
        .fallback(|| async {
            (
                StatusCode::NOT_FOUND,
                "this webhook serves /mutate and /validate\n",
            )
        })
        .layer(CatchPanicLayer::new())
        .layer(map_response_with_state(shared.health.clone(), close_on_shutdown))
        .with_state(shared)
}

/// Sends callers elsewhere while the process is about to end. An API server keeps its connections and sends the next request
/// on one; where that is closed at this very moment, the request has failed. So it is told beforehand to open another.
async fn close_on_shutdown(State(health): State<Health>, mut response: Response) -> Response {
    if health.is_stopping() {
        response
            .headers_mut()
            .insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

async fn mutate(State(AppState { metrics, bodies, .. }): State<AppState>, request: HttpRequest) -> Response {
    let body = match bodies.bodies.read(request).await {
        Ok(body) => body,
        Err(refusal) => return refused(&metrics, &bodies.warnings, refusal),
    };
    answer(
        &metrics,
        &bodies.warnings,
        Webhook::Mutate,
        body.as_ref(),
        |request| {
            let answer = decide::mutate(request);
            let verdict = if answer.patch.is_some() {
                AdmissionResult::Patched
            } else {
                AdmissionResult::Allowed
            };
            (answer, verdict)
        },
    )
}

async fn validate(
    State(AppState {
        metrics,
        policies,
        bodies,
        ..
    }): State<AppState>,
    request: HttpRequest,
) -> Response {
    let body = match bodies.bodies.read(request).await {
        Ok(body) => body,
        Err(refusal) => return refused(&metrics, &bodies.warnings, refusal),
    };
    answer(
        &metrics,
        &bodies.warnings,
        Webhook::Validate,
        body.as_ref(),
        |request| {
            let policies = policies.of(&request.subject.namespace).unwrap_or_default();
            let (answer, reason) = decide::validate(request, &policies);
            let verdict = match reason {
                Some(reason) => {
                    metrics.denied(reason);
                    tracing::info!(
                        namespace = up_to(&request.subject.namespace, limits::NAMESPACE),
                        name = up_to(&request.subject.name, limits::NAME),
                        reason = reason.as_str(),
                        message = answer
                            .denial
                            .as_ref()
                            .map(|status| up_to(&status.message, MESSAGE_BYTES)),
                        "denied"
                    );
                    AdmissionResult::Denied
                }
                None if answer.warnings.is_empty() => AdmissionResult::Allowed,
                None => AdmissionResult::Warned,
            };
            (answer, verdict)
        },
    )
}

fn refused(metrics: &Metrics, warnings: &Throttle, refusal: Refusal) -> Response {
    metrics.refused(refusal.reason());
    if let Some(held_back) = warnings.pass(tokio::time::Instant::now()) {
        tracing::warn!(
            reason = refusal.reason(),
            held_back,
            "rejected a request body: {refusal}"
        );
    }
    refusal.into_response()
}

fn answer<'b, T: Deserialize<'b>>(
    metrics: &Metrics,
    warnings: &Throttle,
    webhook: Webhook,
    body: &'b [u8],
    decide: impl FnOnce(&Request<'b, T>) -> (AdmissionResponse, AdmissionResult),
) -> Response {
    let started = Instant::now();
    let request = match Request::read(body) {
        Ok(request) => request,
        Err(error) => {
            metrics.answered(webhook, None, AdmissionResult::Malformed, started);
            if let Some(held_back) = warnings.pass(tokio::time::Instant::now()) {
                let error = cut(error.to_string(), ERROR_BYTES);
                tracing::warn!(error, held_back, "request body is not an AdmissionReview");
            }
            return (
                StatusCode::BAD_REQUEST,
                format!("{}\n", cut(error.to_string(), ERROR_BYTES)),
            )
                .into_response();
        }
    };
    let (answer, verdict) = decide(&request);
    let response = match answer.write(&request.subject.uid) {
        Ok(reply) => ([(CONTENT_TYPE, "application/json")], reply).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    };
    metrics.answered(webhook, Some(request.subject.operation), verdict, started);
    response
}

/// The beginning of a text, cut between characters. Nothing else bounds a name in a request that the API server did not
/// send.
fn up_to(text: &str, longest: usize) -> &str {
    text.get(..text.floor_char_boundary(longest)).unwrap_or(text)
}

#[cfg(test)]
mod tests;
