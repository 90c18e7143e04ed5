//! The trace of a HelmOp: from a change until all clusters are ready.
//!
//! A generation has one trace, whose ID follows from the object, so that the webhook knows it too. Each further change of the Bundle in
//! the same generation, such as a newer version that a poll finds, has another one.

use std::time::SystemTime;

use helmops_api::{Bundle, Condition, HelmOp, HelmOpStatus, labels};
use helmops_trace::{Attribute, SpanRecord, TraceContext, Tracer};
use k8s_openapi::jiff::Timestamp;

/// The name of the root span.
const ROOT: &str = "rollout";

/// Whether the current generation is ready on all clusters.
pub fn is_ready(helmop: &HelmOp) -> bool {
    let Some(status) = &helmop.status else {
        return false;
    };
    // Fleet's CRD lacks `observedGeneration`.
    let is_current =
        status.observed_generation.is_none() || status.observed_generation == helmop.metadata.generation;
    is_current && Condition::is_true(&status.base.conditions, "Ready")
}

/// The trace that reconciliations belong to.
pub fn current(tracer: &Tracer, helmop: &HelmOp, bundle: Option<&Bundle>) -> Option<TraceContext> {
    of_bundle(tracer, helmop, bundle).or_else(|| root(tracer, helmop, 0))
}

/// The `traceparent` for the next change of the Bundle.
pub fn next(tracer: &Tracer, helmop: &HelmOp, bundle: Option<&Bundle>) -> Option<String> {
    let rollout = match of_bundle(tracer, helmop, bundle) {
        Some(_) => generation(bundle) + 1,
        None => 0,
    };
    Some(root(tracer, helmop, rollout)?.to_string())
}

/// The root span of the current trace, if the HelmOp becomes ready with this status. It started when the HelmOp was created or was not
/// ready any more.
pub fn root_span(
    tracer: &Tracer,
    helmop: &HelmOp,
    bundle: Option<&Bundle>,
    next: &HelmOpStatus,
) -> Option<SpanRecord> {
    let ready_now = ready(next).filter(|ready| ready.status == "True")?;
    if !tracer.is_enabled() || is_ready(helmop) {
        return None;
    }
    let before = helmop.status.as_ref().and_then(ready);
    let created = helmop.metadata.creation_timestamp.as_ref().map(|time| time.0);
    // The first condition is written after the creation.
    let is_first = helmop.metadata.generation == Some(1) && generation(bundle) <= 1;
    let changed = before.and_then(|before| before.last_transition_time.parse::<Timestamp>().ok());
    let start = if is_first { created } else { changed.or(created) };
    let name = |text: &Option<String>| text.clone().unwrap_or_default().into();
    let attributes = vec![
        Attribute {
            key: "helmops.namespace",
            value: name(&helmop.metadata.namespace),
        },
        Attribute {
            key: "helmops.name",
            value: name(&helmop.metadata.name),
        },
        Attribute {
            key: "helmops.version",
            value: next.version.clone().into(),
        },
        Attribute {
            key: "helmops.message",
            value: ready_now.message.clone().into(),
        },
    ];
    Some(SpanRecord {
        context: current(tracer, helmop, bundle)?,
        parent: None,
        name: ROOT,
        start: start?.into(),
        end: SystemTime::now(),
        attributes,
        error: None,
    })
}

/// The trace of the Bundle, if it belongs to the current generation.
fn of_bundle(tracer: &Tracer, helmop: &HelmOp, bundle: Option<&Bundle>) -> Option<TraceContext> {
    let annotations = bundle?.metadata.annotations.as_ref()?;
    let found = tracer.parent(annotations.get(labels::TRACEPARENT).map(String::as_str))?;
    [0, generation(bundle)]
        .into_iter()
        .filter_map(|rollout| root(tracer, helmop, rollout))
        .find(|root| *root == found)
}

fn root(tracer: &Tracer, helmop: &HelmOp, rollout: i64) -> Option<TraceContext> {
    let metadata = &helmop.metadata;
    tracer.root(metadata.uid.as_deref()?, metadata.generation?, rollout)
}

fn generation(bundle: Option<&Bundle>) -> i64 {
    bundle
        .and_then(|bundle| bundle.metadata.generation)
        .unwrap_or_default()
}

fn ready(status: &HelmOpStatus) -> Option<&Condition> {
    let conditions = &status.base.conditions;
    conditions.iter().find(|condition| condition.r#type == "Ready")
}

#[cfg(test)]
mod tests;
