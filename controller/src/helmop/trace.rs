//! The trace of a HelmOp: from a change until all clusters are ready.
//!
//! A generation has one trace, whose ID follows from the object, so that the webhook knows it too. Each further change of the Bundle in
//! the same generation, such as a newer version that a poll finds, has another one.
//!
//! A trace starts with the change that it is about. Conditions do not have the time of it: `Ready` stays as it is for weeks if a change
//! rolls nothing out, or if it fixes what has failed for weeks. The API server records who has changed which fields and when, and neither a
//! restart nor another leader forgets that.

use std::time::SystemTime;

use helmops_api::{Bundle, Condition, HelmOp, HelmOpStatus, MetadataWithManagers, NamespacedName, labels};
use helmops_runtime::client::{ApiError, bounded};
use helmops_trace::{Attribute, SpanRecord, TraceContext, Tracer};
use k8s_openapi::{
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
    jiff::{SignedDuration, Timestamp},
};
use kube::{Api, Client, Resource, api::ListParams};

/// The name of the root span.
const ROOT: &str = "rollout";
/// How long after a change a HelmOp stops being ready because of it, at most. One that stops later was ready meanwhile: what follows is no
/// part of the trace of the change.
const ROLLOUT: SignedDuration = SignedDuration::from_hours(1);

/// A rollout that ends: the HelmOp becomes ready with its next status.
pub struct Ending {
    trace: TraceContext,
    /// The change that it started with.
    change: Change,
    /// Since when the HelmOp was not ready; `None` if it was all the time.
    not_ready_since: Option<Timestamp>,
    attributes: Vec<Attribute>,
}

/// What a trace starts with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    /// The creation of the HelmOp.
    Creation(Timestamp),
    /// A change of its spec.
    HelmOp,
    /// A change of the Bundle in the same generation of the HelmOp.
    Bundle,
}

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
    let is_later = of_bundle(tracer, helmop, bundle).is_some() || is_untraced(helmop, bundle);
    let rollout = if is_later { generation(bundle) + 1 } else { 0 };
    Some(root(tracer, helmop, rollout)?.to_string())
}

/// The current rollout, if the HelmOp becomes ready with this status.
pub fn ending(
    tracer: &Tracer,
    helmop: &HelmOp,
    bundle: Option<&Bundle>,
    next: &HelmOpStatus,
) -> Option<Ending> {
    let ready_now = ready(next).filter(|ready| ready.status == "True")?;
    if !tracer.is_enabled() || is_ready(helmop) {
        return None;
    }
    let trace = current(tracer, helmop, bundle)?;
    let metadata = &helmop.metadata;
    let created = metadata.creation_timestamp.as_ref().map(|time| time.0);
    let change = match created {
        _ if root(tracer, helmop, 0) != Some(trace) => Change::Bundle,
        Some(created) if metadata.generation == Some(1) => Change::Creation(created),
        _ => Change::HelmOp,
    };
    let before = helmop.status.as_ref().and_then(ready);
    let before = before.filter(|before| before.status != "True");
    let name = |text: &Option<String>| text.clone().unwrap_or_default().into();
    let attributes = vec![
        Attribute {
            key: "helmops.namespace",
            value: name(&metadata.namespace),
        },
        Attribute {
            key: "helmops.name",
            value: name(&metadata.name),
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
    Some(Ending {
        trace,
        change,
        not_ready_since: before.and_then(|before| before.last_transition_time.parse().ok()),
        attributes,
    })
}

impl Ending {
    /// The root span. `None` if the HelmOp is ready again, with no change since it was ready before: the trace has its root.
    ///
    /// # Errors
    /// If the API server does not respond with the time of the change.
    pub async fn root_span(
        self,
        client: &Client,
        name: &NamespacedName,
    ) -> Result<Option<SpanRecord>, ApiError> {
        let changed = match self.change {
            Change::Creation(time) => Some(time),
            Change::HelmOp => spec_changed::<HelmOp>(client, name).await?,
            Change::Bundle => spec_changed::<Bundle>(client, name).await?,
        };
        Ok(self.started_at(changed, Timestamp::now()))
    }

    /// The root span of a change at this time. If no client has left the time, it is that at which the rollout was seen to end: a root that
    /// is too short misleads less than one of weeks.
    fn started_at(self, changed: Option<Timestamp>, now: Timestamp) -> Option<SpanRecord> {
        let start = changed.unwrap_or(now).min(now);
        let was_ready_since = self
            .not_ready_since
            .is_some_and(|since| since.duration_since(start) > ROLLOUT);
        (!was_ready_since).then(|| SpanRecord {
            context: self.trace,
            parent: None,
            name: ROOT,
            start: start.into(),
            end: SystemTime::now(),
            attributes: self.attributes,
            error: None,
        })
    }
}

/// When a client has changed the spec of an object last; `None` if it does not exist any more, or has no record of its clients. The caches
/// do not have it.
async fn spec_changed<K>(client: &Client, name: &NamespacedName) -> Result<Option<Timestamp>, ApiError>
where
    K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + Send
        + Sync
        + 'static,
{
    let api =
        Api::<MetadataWithManagers<K>>::namespaced(helmops_kube::with_managers(client), &name.namespace);
    let one = ListParams::default()
        .fields(&format!("metadata.name={}", name.name))
        .limit(1);
    let found = bounded(api.list(&one)).await?;
    let object = found.items.first();
    Ok(object.and_then(|object| last_change_of_spec(object.meta())))
}

/// The last time at which a client has changed the fields of the spec that it has set.
fn last_change_of_spec(metadata: &ObjectMeta) -> Option<Timestamp> {
    let of_spec = metadata.managed_fields.iter().flatten().filter(|entry| {
        let fields = entry.fields_v1.as_ref();
        let has_spec = fields.is_some_and(|fields| fields.0.get("f:spec").is_some());
        has_spec && entry.subresource.as_deref().unwrap_or_default().is_empty()
    });
    of_spec
        .filter_map(|entry| entry.time.as_ref())
        .map(|time| time.0)
        .max()
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

/// Whether the current generation has a Bundle that was written without traces: a change of it is not the one of the HelmOp.
fn is_untraced(helmop: &HelmOp, bundle: Option<&Bundle>) -> bool {
    let Some(bundle) = bundle else {
        return false;
    };
    let annotations = bundle.metadata.annotations.as_ref();
    let is_traced = annotations.is_some_and(|annotations| annotations.contains_key(labels::TRACEPARENT));
    let observed = helmop
        .status
        .as_ref()
        .and_then(|status| status.observed_generation);
    !is_traced && observed.is_some() && observed == helmop.metadata.generation
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
    Condition::find(&status.base.conditions, "Ready")
}

#[cfg(test)]
mod tests;
