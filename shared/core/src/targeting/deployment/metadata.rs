//! The metadata that the controller sets on a deployment, beside those of other clients.

use std::collections::BTreeMap;

use helmops_api::{Bundle, BundleDeployment, bundle_deployment::BundleDeploymentSpec, labels};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::targeting::{target::Target, values};

/// The annotations that this controller sets.
const ANNOTATIONS: [&str; 3] = [labels::COPIED_FROM, labels::RESOLVED, labels::TRACEPARENT];

/// Whether an existing deployment has the metadata that this controller sets.
pub(super) fn has_metadata(existing: &BundleDeployment, own: &ObjectMeta) -> bool {
    let records = |metadata| ANNOTATIONS.map(|name| labels::annotation(metadata, name));
    let mut finalizers = own.finalizers.iter().flatten();
    let existing = &existing.metadata;
    existing.labels == own.labels
        && records(existing) == records(own)
        && finalizers.all(|own| {
            existing
                .finalizers
                .iter()
                .flatten()
                .any(|finalizer| finalizer == own)
        })
}

/// The metadata of an existing deployment, with those that this controller sets. Annotations and finalizers of other clients stay. The
/// labels are replaced, as Fleet's controller does it: they are those of the Bundle, and `dependsOn` selects by them, so one that was
/// removed from the Bundle must not stay.
pub(super) fn merged_metadata(existing: &BundleDeployment, own: ObjectMeta) -> ObjectMeta {
    let mut metadata = (*existing.metadata).clone();
    metadata.labels = own.labels;
    let finalizers = metadata.finalizers.get_or_insert_default();
    for finalizer in own.finalizers.into_iter().flatten() {
        if !finalizers.contains(&finalizer) {
            finalizers.push(finalizer);
        }
    }
    let annotations = metadata.annotations.get_or_insert_default();
    for name in ANNOTATIONS {
        annotations.remove(name);
    }
    annotations.extend(own.annotations.unwrap_or_default());
    if annotations.is_empty() {
        metadata.annotations = None;
    }
    metadata
}

/// The metadata of a deployment. `records` are the values of [`ANNOTATIONS`].
pub(super) fn metadata(
    bundle: &Bundle,
    target: &Target<'_>,
    namespace: &str,
    records: [Option<String>; 3],
) -> ObjectMeta {
    let of_bundle = |text: &Option<String>| text.clone().unwrap_or_default();
    let (bundle_name, bundle_namespace) = (
        of_bundle(&bundle.metadata.name),
        of_bundle(&bundle.metadata.namespace),
    );
    let mut own = values::clean_except(bundle.metadata.labels.as_ref(), &["fleet.cattle.io/"]);
    own.extend(
        [
            (labels::BUNDLE_NAME, bundle_name.as_str()),
            (labels::BUNDLE_NAMESPACE, &bundle_namespace),
            (labels::MANAGED, "true"),
            (labels::CLUSTER_NAMESPACE, target.member.namespace()),
            (labels::CLUSTER, target.member.name()),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned())),
    );
    let annotations = ANNOTATIONS.into_iter().zip(records);
    let annotations: BTreeMap<_, _> = annotations
        .filter_map(|(name, value)| Some((name.to_owned(), value?)))
        .collect();
    ObjectMeta {
        name: Some(bundle_name),
        namespace: Some(namespace.to_owned()),
        labels: Some(own),
        annotations: (!annotations.is_empty()).then_some(annotations),
        finalizers: Some(vec![labels::BUNDLE_DEPLOYMENT_FINALIZER.to_owned()]),
        ..ObjectMeta::default()
    }
}

/// The trace of the roll-out that has reached a deployment: that of the Bundle if the deployment changes, and otherwise the one that it
/// has, so that it is no reason for a write.
pub(super) fn traceparent(
    bundle: &Bundle,
    spec: &BundleDeploymentSpec,
    existing: Option<&BundleDeployment>,
) -> Option<String> {
    let keeps = existing.filter(|existing| existing.spec.deployment_id == spec.deployment_id);
    let metadata = keeps.map_or(&bundle.metadata, |existing| &existing.metadata);
    metadata.annotations.as_ref()?.get(labels::TRACEPARENT).cloned()
}
