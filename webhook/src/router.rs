//! The HTTP endpoints `/mutate`, `/validate` and `/validate-others`.

use std::{
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use axum::{
    Router,
    extract::{Request, State},
    http::{StatusCode, header::CONTENT_TYPE},
    middleware::map_response_with_state,
    response::{IntoResponse, Response},
    routing::post,
};
use bounded_text::cut;
use helmops_api::limits;
use helmops_model::reason::Reason;
use helmops_policies::PolicyCache;
use helmops_process::{Bodies, Health, RequestBody, Throttle, close_on_shutdown};
use helmops_trace::Tracer;
use k8s_openapi::jiff::Timestamp;
use serde::Deserialize;
use tower_http::catch_panic::CatchPanicLayer;

use crate::{
    body::LIMITS,
    cycles::Cycles,
    decide::{self, MAX_ERROR},
    metrics::{AdmissionResult, Metrics, Webhook},
    review::{AdmissionRequest, AdmissionResponse},
    trace,
};

/// Minimum interval between warnings that any peer can cause.
const WARN_INTERVAL: Duration = Duration::from_secs(30);

/// Maximum length of a message in the log, in bytes: the API server truncates warnings to the same length.
const MAX_MESSAGE: usize = 4 << 10;

/// The state of the router.
#[derive(Clone, Debug)]
pub struct AppState {
    pub metrics: Metrics,
    /// Whether the process is shutting down.
    pub health: Health,
    /// The cache of Policies. Until it is synced, no Policy is enforced.
    pub policies: PolicyCache,
    /// Finds HelmOps that wait for each other, if the API server can be called.
    pub cycles: Option<Cycles>,
    /// The limits that protect against too many requests.
    pub overload: Arc<OverloadProtection>,
    pub tracer: Tracer,
}

/// Limits the memory for bodies, and the rate of log lines about invalid requests.
#[derive(Debug)]
pub struct OverloadProtection {
    bodies: Bodies,
    warnings: Throttle,
}

impl Default for OverloadProtection {
    fn default() -> Self {
        Self {
            bodies: Bodies::new(LIMITS),
            warnings: Throttle::new(WARN_INTERVAL),
        }
    }
}

pub fn router(state: AppState) -> Router {
    Router::new()
        .route("/mutate", post(mutate))
        .route("/validate", post(validate))
        .route("/validate-others", post(validate_others))
        .fallback(|| async {
            (
                StatusCode::NOT_FOUND,
                "this webhook serves /mutate, /validate and /validate-others\n",
            )
        })
        .layer(CatchPanicLayer::new())
        .layer(map_response_with_state(state.health.clone(), close_on_shutdown))
        .with_state(state)
}

async fn mutate(State(state): State<AppState>, request: Request) -> Result<Response, Response> {
    let body = state.read(request).await?;
    Ok(state.respond(Webhook::Mutate, body.as_ref(), |request| {
        let response = decide::mutate(request);
        let result = if response.patch.is_some() {
            AdmissionResult::Patched
        } else {
            AdmissionResult::Allowed
        };
        (response, result)
    }))
}

async fn validate(State(state): State<AppState>, request: Request) -> Result<Response, Response> {
    let body = state.read(request).await?;
    let (begin, started) = (Instant::now(), SystemTime::now());
    let request = match AdmissionRequest::decode(body.as_ref()) {
        Ok(request) => request,
        Err(error) => return Ok(state.malformed(Webhook::Validate, &error, begin)),
    };
    let policies = state.policies.of(&request.info.namespace).unwrap_or_default();
    let mut decision = decide::validate(&request, &policies);
    if let (Some(cycles), None) = (&state.cycles, &decision.1) {
        match decide::with_cycle(&request, cycles, &decision.0.warnings).await {
            Ok(Some(found)) => decision = found,
            Ok(None) => {}
            Err(error) => state.warn(|suppressed| {
                tracing::warn!(
                    suppressed,
                    "HelmOps that wait for each other may be stored: {error}"
                );
            }),
        }
    }
    if let Some(span) = trace::admission(&state.tracer, &request, &decision.0, started) {
        state.tracer.record(span);
    }
    let decided = decided(&state.metrics, &request, decision);
    Ok(state.encoded(Webhook::Validate, &request, decided, begin))
}

async fn validate_others(State(state): State<AppState>, request: Request) -> Result<Response, Response> {
    let body = state.read(request).await?;
    Ok(state.respond(Webhook::ValidateOthers, body.as_ref(), |request| {
        let decision = decide::validate_other(request, Timestamp::now());
        decided(&state.metrics, request, decision)
    }))
}

/// Counts and logs a denial.
fn decided<T>(
    metrics: &Metrics,
    request: &AdmissionRequest<'_, T>,
    (response, reason): (AdmissionResponse, Option<Reason>),
) -> (AdmissionResponse, AdmissionResult) {
    let result = match reason {
        Some(reason) => {
            metrics.denied(reason);
            tracing::info!(
                resource = truncated(&request.info.resource.resource, limits::NAME),
                namespace = truncated(&request.info.namespace, limits::LABEL),
                name = truncated(&request.info.name, limits::NAME),
                reason = reason.as_str(),
                message = response
                    .denial
                    .as_ref()
                    .map(|status| truncated(&status.message, MAX_MESSAGE)),
                "denied"
            );
            AdmissionResult::Denied
        }
        None if response.warnings.is_empty() => AdmissionResult::Allowed,
        None => AdmissionResult::Warned,
    };
    (response, result)
}

impl AppState {
    /// The body of a request, or the response to one that is rejected.
    async fn read(&self, request: Request) -> Result<RequestBody<'_>, Response> {
        self.overload.bodies.read(request).await.map_err(|error| {
            self.metrics.body_rejected(error.reason());
            self.warn(|suppressed| {
                tracing::warn!(
                    reason = error.reason(),
                    suppressed,
                    "rejected a request body: {error}"
                );
            });
            error.into_response()
        })
    }

    fn respond<'b, T: Deserialize<'b>>(
        &self,
        webhook: Webhook,
        body: &'b [u8],
        decide: impl FnOnce(&AdmissionRequest<'b, T>) -> (AdmissionResponse, AdmissionResult),
    ) -> Response {
        let started = Instant::now();
        let request = match AdmissionRequest::decode(body) {
            Ok(request) => request,
            Err(error) => return self.malformed(webhook, &error, started),
        };
        self.encoded(webhook, &request, decide(&request), started)
    }

    fn encoded<T>(
        &self,
        webhook: Webhook,
        request: &AdmissionRequest<'_, T>,
        (admission, result): (AdmissionResponse, AdmissionResult),
        started: Instant,
    ) -> Response {
        let response = match admission.encode(&request.info.uid) {
            Ok(review) => ([(CONTENT_TYPE, "application/json")], review).into_response(),
            Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
        };
        let operation = Some(request.info.operation);
        self.metrics.observe_request(webhook, operation, result, started);
        response
    }

    /// The response to a body that is not an AdmissionReview.
    fn malformed(&self, webhook: Webhook, error: &impl ToString, started: Instant) -> Response {
        let error = cut(error.to_string(), MAX_ERROR);
        self.metrics
            .observe_request(webhook, None, AdmissionResult::Malformed, started);
        self.warn(|suppressed| tracing::warn!(error, suppressed, "request body is not an AdmissionReview"));
        (StatusCode::BAD_REQUEST, format!("{error}\n")).into_response()
    }

    /// Warns with the number of warnings that were suppressed, unless there was one a moment ago.
    fn warn(&self, warn: impl FnOnce(u64)) {
        if let Some(suppressed) = self.overload.warnings.allow(tokio::time::Instant::now()) {
            warn(suppressed);
        }
    }
}

/// The beginning of a text, truncated between characters. Nothing else limits the length of a name in a request of a client
/// other than the API server.
fn truncated(text: &str, max_bytes: usize) -> &str {
    text.get(..text.floor_char_boundary(max_bytes)).unwrap_or(text)
}

#[cfg(test)]
mod tests;
