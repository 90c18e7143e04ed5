//! Evaluates the gates of a rollout, as far as a plan needs them: observe, plan, and observe again.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use helmops_api::Bundle;
use helmops_core::targeting::{
    self, GateRequest, GateState, GateStates, Rollout, Target,
    rollout::{EndpointFailure, Gate, GateEndpoint, PlanError, Verdict},
};
use helmops_fetch::{AccessSource, EndpointError, EndpointRequest};
use helmops_runtime::{
    error_class::{Class, ClassifiedError},
    workers::{Interrupted, WorkerPermit},
};
use k8s_openapi::jiff::Timestamp;

use crate::{context::Context, work::BundleKey};

/// A round that is planned, as far as its gates are known.
pub enum Planned {
    /// The round.
    Round(Box<Rollout>),
    /// An endpoint has to be requested before. That takes time, so the round begins again then, with what has changed meanwhile.
    Requires(Box<GateRequest>),
}

/// The last responses of endpoints, at most one for each Bundle: only one partition waits for its gate.
#[derive(Debug, Default)]
pub struct GateResponses(Mutex<HashMap<BundleKey, GateResponse>>);

/// What an endpoint has decided.
#[derive(Clone, Debug)]
struct GateResponse {
    rollout: String,
    partition: usize,
    endpoint: GateEndpoint,
    state: GateState,
    /// How many requests have failed one after the other.
    failures: usize,
}

impl GateResponse {
    fn is_of(&self, request: &GateRequest, endpoint: &GateEndpoint) -> bool {
        (&self.rollout, self.partition, &self.endpoint)
            == (&request.facts.rollout, request.partition, endpoint)
    }
}

impl GateResponses {
    /// The last decision about a gate, if it counts at a time; at any time without one.
    fn get(
        &self,
        key: &BundleKey,
        request: &GateRequest,
        endpoint: &GateEndpoint,
        at: Option<Timestamp>,
    ) -> Option<GateState> {
        let responses = self.lock();
        let known = responses.get(key)?;
        let counts = at.is_none_or(|at| known.state.again.is_some_and(|again| again > at));
        (counts && known.is_of(request, endpoint)).then(|| known.state.clone())
    }

    /// How many requests for a gate have failed one after the other.
    fn failures(&self, key: &BundleKey, request: &GateRequest, endpoint: &GateEndpoint) -> usize {
        let responses = self.lock();
        let known = responses.get(key).filter(|known| known.is_of(request, endpoint));
        known.map_or(0, |known| known.failures)
    }

    fn add(
        &self,
        key: &BundleKey,
        request: &GateRequest,
        endpoint: &GateEndpoint,
        state: GateState,
        failures: usize,
    ) {
        let response = GateResponse {
            rollout: request.facts.rollout.clone(),
            partition: request.partition,
            endpoint: endpoint.clone(),
            state,
            failures,
        };
        self.lock().insert(key.clone(), response);
    }

    /// No partition of the Bundle waits for an endpoint, or it is deleted.
    pub fn forget(&self, key: &BundleKey) {
        self.lock().remove(key);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<BundleKey, GateResponse>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Plans a round: again, as long as it depends on a gate whose state is known, or that an expression decides. `has_requested` is whether
/// an endpoint was requested in this reconciliation: its response counts, however long the way to here took.
pub fn plan(
    context: &Context,
    key: &BundleKey,
    bundle: &Bundle,
    targets: &[Target<'_>],
    has_requested: bool,
) -> Result<Planned, PlanError> {
    let mut gates = GateStates::default();
    let mut has_endpoint = false;
    loop {
        let now = Timestamp::now();
        let mut rollout = targeting::plan(bundle, targets, &gates, now)?;
        let Some(request) = rollout.required_gate.take() else {
            if !has_endpoint {
                context.gate_responses.forget(key);
            }
            return Ok(Planned::Round(Box::new(rollout)));
        };
        let state = match &request.gate {
            Gate::Expression(expression) => GateState::of_expression(expression, &request.facts, now),
            Gate::Endpoint(endpoint) => {
                has_endpoint = true;
                let since = (!has_requested).then_some(now);
                match context.gate_responses.get(key, &request, endpoint, since) {
                    Some(state) => state,
                    None => return Ok(Planned::Requires(request)),
                }
            }
        };
        gates.add(request.partition, state);
    }
}

/// Requests the decision of an endpoint, and remembers it. Without one, the gate stays closed until the next request.
///
/// The worker is released meanwhile, so nothing may be in memory that its permit is for.
///
/// # Errors
/// If the process stops or loses leadership meanwhile.
pub async fn request(
    context: &Context,
    key: &BundleKey,
    bundle: &Bundle,
    request: &GateRequest,
    permit: &mut WorkerPermit,
) -> Result<(), Interrupted> {
    let Gate::Endpoint(endpoint) = &request.gate else {
        return Ok(());
    };
    // Boxed, so that the futures that wait for a permit are small.
    let response = Box::pin(respond(context, bundle, request, endpoint));
    let response = permit.release_while(response).await?;
    let now = Timestamp::now();
    let (state, failures) = match response {
        Ok(response) => (endpoint.responded(&response, now), 0),
        Err(error) => {
            let failure = EndpointFailure {
                in_a_row: context.gate_responses.failures(key, request, endpoint) + 1,
                ..failure(&error)
            };
            (endpoint.failed(&failure, now), failure.in_a_row)
        }
    };
    if let Verdict::Failed(cause) = &state.verdict {
        tracing::warn!(
            partition = request.facts.partition.name,
            cause,
            "the gate stays closed"
        );
    }
    context
        .gate_responses
        .add(key, request, endpoint, state, failures);
    Ok(())
}

async fn respond(
    context: &Context,
    bundle: &Bundle,
    request: &GateRequest,
    endpoint: &GateEndpoint,
) -> Result<Vec<u8>, EndpointError> {
    let namespace = bundle.metadata.namespace.as_deref().unwrap_or_default();
    let source = AccessSource {
        namespace,
        charged_to: namespace,
        secret: &endpoint.secret_name,
        insecure_skip_tls_verify: false,
        ca_certificates: &[],
    };
    let request = EndpointRequest {
        url: endpoint.url.clone(),
        // Strings and numbers always serialize.
        body: serde_json::to_vec(&request.facts).unwrap_or_default(),
        timeout: endpoint.timeout,
    };
    context.resolver.post(&context.client, source, request).await
}

fn failure(error: &EndpointError) -> EndpointFailure {
    let class = error.class();
    EndpointFailure {
        cause: error.to_string(),
        is_transient: class.is_transient(),
        retry_after: match class {
            Class::RateLimited(after) => Some(after),
            _ => None,
        },
        in_a_row: 0,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use helmops_core::targeting::rollout::GateFacts;
    use helmops_kube::key;
    use serde_json::json;

    use super::*;

    fn request() -> (GateRequest, GateEndpoint) {
        let gate = json!({ "url": "https://gates.example.com", "interval": "10s" }).to_string();
        let gate = Gate::parse(&serde_json::from_str(&gate).unwrap()).unwrap();
        let Gate::Endpoint(endpoint) = gate.clone() else {
            panic!("{gate:?}");
        };
        let [facts, _] = GateFacts::examples(&["a", "b"], 1);
        let request = GateRequest {
            partition: 1,
            gate,
            facts,
        };
        (request, *endpoint)
    }

    #[test]
    fn a_response_counts_for_its_interval_and_in_its_reconciliation_whatever_that_takes() {
        let (request, endpoint) = request();
        let (key, now) = (key("fleet", "web"), Timestamp::UNIX_EPOCH);
        let responses = GateResponses::default();
        let open = |request, at: Option<u64>| {
            let at = at.map(|at| now + Duration::from_secs(at));
            responses.get(&key, request, &endpoint, at).is_some()
        };
        assert!(!open(&request, None), "there is none");
        let state = endpoint.responded(br#"{"open": true}"#, now);
        responses.add(&key, &request, &endpoint, state, 0);
        assert!(open(&request, Some(9)) && !open(&request, Some(10)));
        assert!(open(&request, None), "it is of this reconciliation");
        let mut other = request.clone();
        other.facts.rollout = "b".to_owned();
        assert!(!open(&other, None), "of another rollout");
        responses.forget(&key);
        assert!(!open(&request, None));
    }

    #[test]
    fn failures_in_a_row_are_those_of_the_same_gate() {
        let (request, endpoint) = request();
        let key = key("fleet", "web");
        let responses = GateResponses::default();
        assert_eq!(responses.failures(&key, &request, &endpoint), 0);
        let state = endpoint.responded(b"", Timestamp::UNIX_EPOCH);
        responses.add(&key, &request, &endpoint, state, 3);
        assert_eq!(responses.failures(&key, &request, &endpoint), 3);
        let mut corrected = endpoint.clone();
        corrected.secret_name = "gate".to_owned();
        assert_eq!(responses.failures(&key, &request, &corrected), 0);
    }
}
