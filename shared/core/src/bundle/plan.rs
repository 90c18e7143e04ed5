//! Compares the desired and the existing Bundle of a HelmOp.

use std::collections::BTreeSet;

use bounded_text::cut;
use helmops_api::{Bundle, PrunedFields, ResolvedChart, labels, limits};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_core::Resource;

use super::{
    RequestedCharts,
    desired::{self, MissingVersion},
    owner::{belongs_to, is_helmop},
    withheld::withhold,
};
use crate::admit::ValidHelmOp;

/// What to do with the Bundle.
#[derive(Clone, Debug, PartialEq)]
pub enum Plan {
    /// The Bundle is up to date.
    Nothing,
    /// The Bundle does not exist.
    Create(Box<Bundle>),
    /// It differs. The resource version in its metadata is the observed one, so that the write fails with a conflict if another
    /// client has changed the Bundle.
    Replace(Box<Bundle>),
}

/// Inputs of the desired Bundle besides the HelmOp.
#[derive(Clone, Copy, Debug)]
pub struct BundleInputs<'a> {
    /// The charts of the HelmOp, with their versions.
    pub charts: &'a RequestedCharts<'a, 'a>,
    /// The token of the last requested poll that is done, see [`labels::LAST_HANDLED_POLL`].
    pub handled_poll: Option<&'a str>,
    /// The certificate authorities that agents trust in addition to their own, as PEM in Base64.
    pub ca_bundle: &'a str,
    /// The unknown fields that the API server does not store in Bundles.
    pub pruned: &'a PrunedFields,
    /// The trace of the roll-out that a write starts, see [`labels::TRACEPARENT`]. It is no reason for a write.
    pub traceparent: Option<&'a str>,
}

/// Decides what to write.
///
/// # Errors
/// If a version is not resolved.
pub fn plan(
    valid: &ValidHelmOp<'_>,
    existing: Option<&Bundle>,
    inputs: BundleInputs<'_>,
) -> Result<Plan, MissingVersion> {
    let spec = desired::spec(valid, inputs.charts, inputs.ca_bundle)?;
    let metadata = metadata(valid, existing.map(|bundle| &*bundle.metadata), inputs);
    let mut bundle = Bundle {
        metadata: metadata.into(),
        spec,
        ..Bundle::default()
    };
    let Some(existing) = existing else {
        set_trace(&mut bundle, inputs.traceparent);
        return Ok(Plan::Create(Box::new(bundle)));
    };
    keep_unknown(&mut bundle, existing);
    if belongs_to(existing, valid.helmop) {
        withhold(&mut bundle, existing, inputs.pruned);
    }
    let is_same_spec = inputs.pruned.are_equal(&bundle.spec, &existing.spec);
    if is_same_spec && existing.metadata == bundle.metadata {
        return Ok(Plan::Nothing);
    }
    if !is_same_spec {
        set_trace(&mut bundle, inputs.traceparent);
    }
    Ok(Plan::Replace(Box::new(bundle)))
}

/// Sets the trace of the roll-out that the new spec starts. Without traces, that of an earlier roll-out is removed.
fn set_trace(bundle: &mut Bundle, traceparent: Option<&str>) {
    let annotations = bundle.metadata.annotations.get_or_insert_default();
    match traceparent {
        Some(traceparent) => annotations.insert(labels::TRACEPARENT.to_owned(), traceparent.to_owned()),
        None => annotations.remove(labels::TRACEPARENT),
    };
}

/// Keeps the unknown fields of the existing Bundle that do not follow from the HelmOp: a newer bundle controller or a user has set
/// them. The blocks of the spec, such as `helm` and `targets`, are those of the HelmOp as a whole.
fn keep_unknown(bundle: &mut Bundle, existing: &Bundle) {
    bundle.unknown.clone_from(&existing.unknown);
    let passed = passed_fields(&existing.metadata);
    let mut unknown = existing.spec.options.unknown.clone();
    unknown.retain(|name| !passed.contains(name));
    unknown.add(&bundle.spec.options.unknown);
    bundle.spec.options.unknown = unknown;
    // The options that are known are computed from other fields of the HelmOp.
    if let (Some(options), Some(existing)) =
        (&mut bundle.spec.helm_op_options, &existing.spec.helm_op_options)
    {
        options.unknown.clone_from(&existing.unknown);
    }
}

/// The unknown fields of the HelmOp's spec that were last passed on to a Bundle.
fn passed_fields(metadata: &ObjectMeta) -> BTreeSet<String> {
    labels::annotation(metadata, labels::PASSED_FIELDS)
        .and_then(|names| serde_json::from_str(names).ok())
        .unwrap_or_default()
}

/// The Bundle's metadata: the desired metadata merged into the existing one. Labels are replaced; annotations and finalizers of
/// other owners are kept.
fn metadata(valid: &ValidHelmOp<'_>, existing: Option<&ObjectMeta>, inputs: BundleInputs<'_>) -> ObjectMeta {
    let mut metadata = existing.cloned().unwrap_or_default();
    metadata.name.clone_from(&valid.helmop.metadata.name);
    metadata.namespace.clone_from(&valid.helmop.metadata.namespace);
    metadata.labels = Some(desired::bundle_labels(valid));
    let annotations = metadata.annotations.get_or_insert_default();
    annotations.insert(labels::RESOLVED.to_owned(), record(&inputs.charts.records()));
    match inputs.handled_poll {
        Some(token) => annotations.insert(labels::LAST_HANDLED_POLL.to_owned(), token.to_owned()),
        None => annotations.remove(labels::LAST_HANDLED_POLL),
    };
    for name in [labels::APPROVED_ROLLOUT, labels::RESUMED_ROLLOUT] {
        match rollout_annotation(&valid.helmop.metadata, name) {
            Some(value) => annotations.insert(name.to_owned(), value),
            None => annotations.remove(name),
        };
    }
    let passed: Vec<_> = valid.helmop.spec.bundle.options.unknown.names().collect();
    if passed.is_empty() {
        annotations.remove(labels::PASSED_FIELDS);
    } else {
        // Strings always serialize.
        let names = serde_json::to_string(&passed).unwrap_or_default();
        annotations.insert(labels::PASSED_FIELDS.to_owned(), names);
    }
    if let Some(owner) = valid.helmop.controller_owner_ref(&()) {
        let others = metadata.owner_references.take().unwrap_or_default();
        let others = others.into_iter().filter(|other| !is_helmop(other));
        metadata.owner_references = Some(others.chain([owner]).collect());
    }
    metadata
}

/// What a person has decided about the rollout of a HelmOp, which is that of its Bundle.
fn rollout_annotation(helmop: &ObjectMeta, name: &str) -> Option<String> {
    let value = helmop.annotations.as_ref()?.get(name)?;
    // The ID, a slash and the name of a partition.
    Some(cut(value.clone(), 2 * limits::NAME))
}

fn record(resolved: &[ResolvedChart]) -> String {
    // A record contains only strings, which always serialize.
    serde_json::to_string(resolved).unwrap_or_default()
}
