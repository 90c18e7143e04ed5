//! The two endpoints.

use std::time::{Duration, Instant};

use axum::{
    Router,
    body::Bytes,
    extract::{DefaultBodyLimit, State},
    http::{
        HeaderValue, StatusCode,
        header::{CONNECTION, CONTENT_TYPE},
    },
    middleware::map_response_with_state,
    response::{IntoResponse, Response},
    routing::post,
};
use helmops_shared::runtime::{Health, cluster::KnownPolicies};
use serde::Deserialize;
use tower_http::{catch_panic::CatchPanicLayer, timeout::TimeoutLayer};

use crate::{
    decide,
    metrics::{Metrics, Verdict, Webhook},
    review::{Answer, Request},
};

/// Largest body: a review carries an object twice, and the API server takes objects of up to 3 MiB.
const MAX_BODY: usize = 8 << 20;

/// Longest time for a request, its body included. The shipped configurations let the API server wait 5 s.
const DEADLINE: Duration = Duration::from_secs(5);

/// What requests are answered with.
#[derive(Clone, Debug)]
pub struct Shared {
    /// What Prometheus sees.
    pub metrics: Metrics,
    /// Whether the process is about to end.
    pub health: Health,
    /// What HelmOps may use. While that is unknown, nothing is held against them.
    pub policies: KnownPolicies,
}

/// Makes the router.
pub fn router(shared: Shared) -> Router {
    Router::new()
        .route("/mutate", post(mutate))
        .route("/validate", post(validate))
        .fallback(|| async {
            (
                StatusCode::NOT_FOUND,
                "this webhook serves /mutate and /validate\n",
            )
        })
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .layer(TimeoutLayer::with_status_code(
            StatusCode::REQUEST_TIMEOUT,
            DEADLINE,
        ))
        .layer(CatchPanicLayer::new())
        .layer(map_response_with_state(shared.health.clone(), farewell))
        .with_state(shared)
}

/// Sends callers elsewhere while the process is about to end. An API server keeps its connections and sends the next request
/// on one; where that is closed at this very moment, the request has failed. So it is told beforehand to open another.
async fn farewell(State(health): State<Health>, mut response: Response) -> Response {
    if health.is_stopping() {
        response
            .headers_mut()
            .insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

async fn mutate(State(Shared { metrics, .. }): State<Shared>, body: Bytes) -> Response {
    answer(&metrics, Webhook::Mutate, &body, |request| {
        let answer = decide::mutate(request);
        let verdict = if answer.patch.is_some() {
            Verdict::Patched
        } else {
            Verdict::Allowed
        };
        (answer, verdict)
    })
}

async fn validate(
    State(Shared {
        metrics, policies, ..
    }): State<Shared>,
    body: Bytes,
) -> Response {
    answer(&metrics, Webhook::Validate, &body, |request| {
        let policies = policies.of(&request.subject.namespace).unwrap_or_default();
        let (answer, reason) = decide::validate(request, &policies);
        let verdict = match reason {
            Some(reason) => {
                metrics.denied(reason);
                tracing::info!(
                    namespace = &*request.subject.namespace,
                    name = &*request.subject.name,
                    reason = reason.as_str(),
                    message = answer.denial.as_ref().map(|status| &*status.message),
                    "denied"
                );
                Verdict::Denied
            }
            None if answer.warnings.is_empty() => Verdict::Allowed,
            None => Verdict::Warned,
        };
        (answer, verdict)
    })
}

fn answer<'b, T: Deserialize<'b>>(
    metrics: &Metrics,
    webhook: Webhook,
    body: &'b [u8],
    decide: impl FnOnce(&Request<'b, T>) -> (Answer, Verdict),
) -> Response {
    let started = Instant::now();
    let request = match Request::read(body) {
        Ok(request) => request,
        Err(error) => {
            metrics.answered(webhook, None, Verdict::Malformed, started);
            tracing::warn!(%error, "a body that is no review");
            return (StatusCode::BAD_REQUEST, format!("{error}\n")).into_response();
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

#[cfg(test)]
mod tests;
