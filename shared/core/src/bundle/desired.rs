//! The desired Bundle of a HelmOp.

use std::collections::BTreeMap;

use helmops_api::{BundleSpec, BundleTarget, bundle::BundleHelmOptions, labels, target::ClusterCriteria};
use helmops_model::chart::{request::or_inherited, source::is_oci};
use thiserror::Error;

use super::{Lookup, RequestedChart, RequestedCharts, requests};
use crate::admit::ValidHelmOp;

/// The version of a chart is not resolved.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("chart {:?} of {} has no version yet for {:?}", .0.chart, .0.repo, .0.constraint)]
pub struct MissingVersion(pub Lookup);

/// The spec of the Bundle: that of the HelmOp, with resolved versions instead of constraints. Unknown fields of the HelmOp's spec
/// are passed on, because its spec embeds that of the Bundle; the API server drops those that Bundles do not have.
pub fn spec(
    valid: &ValidHelmOp<'_>,
    charts: &RequestedCharts<'_, '_>,
    ca_bundle: &str,
) -> Result<BundleSpec, MissingVersion> {
    let mut spec = valid.helmop.spec.bundle.clone();
    if let Some(packed) = &valid.chart.packed {
        let helm = spec.options.helm.get_or_insert_default();
        helm.repo.clone_from(&packed.repo);
        packed.source.path().clone_into(&mut helm.chart);
        helm.version = version(charts.main())?;
    } else if let Some(helm) = &mut spec.options.helm {
        helm.version = version(charts.main())?;
        helm.repo = with_lowercase_scheme(&helm.repo);
    }
    for (index, target) in spec.targets.iter_mut().enumerate() {
        set_chart(valid, target, index, charts)?;
    }
    if spec.targets.is_empty() {
        spec.targets.push(default_target());
    }
    if spec.target_customization_mode.is_empty() {
        // Otherwise the API server sets the default, and the Bundle would always differ from the desired one.
        "FirstMatch".clone_into(&mut spec.target_customization_mode);
    }
    spec.helm_op_options = Some(BundleHelmOptions {
        secret_name: valid.helmop.spec.helm_secret_name.clone(),
        insecure_skip_tls_verify: valid.helmop.spec.insecure_skip_tls_verify,
        ca_bundle: or_inherited(&valid.helmop.spec.ca_bundle, ca_bundle).to_owned(),
        ..BundleHelmOptions::default()
    });
    requests::set(&mut spec, &valid.helmop.metadata);
    // These are internal to Bundles of other origin. In a HelmOp they could only refer to content that does not exist.
    spec.resources = Vec::new();
    spec.contents_id = String::new();
    spec.values_hash = String::new();
    Ok(spec)
}

/// The labels of the Bundle.
pub fn bundle_labels(valid: &ValidHelmOp<'_>) -> BTreeMap<String, String> {
    let mut map = valid.helmop.spec.labels.clone();
    if let Some(shard) = valid
        .helmop
        .metadata
        .labels
        .as_ref()
        .and_then(|labels| labels.get(labels::SHARD))
    {
        map.insert(labels::SHARD.to_owned(), shard.clone());
    }
    map.insert(
        labels::HELM_NAME.to_owned(),
        valid.helmop.metadata.name.clone().unwrap_or_default(),
    );
    map
}

/// Sets the name of a target, and the inherited chart and the version in its `helm` block.
fn set_chart(
    valid: &ValidHelmOp<'_>,
    target: &mut BundleTarget,
    index: usize,
    charts: &RequestedCharts<'_, '_>,
) -> Result<(), MissingVersion> {
    if target.name.is_empty() {
        target.name = format!("target{index:03}");
    }
    let request = valid.targets.get(index).and_then(Option::as_ref);
    let (Some(helm), Some(request)) = (&mut target.options.helm, request) else {
        return Ok(());
    };
    helm.repo = with_lowercase_scheme(request.repo);
    request.chart.clone_into(&mut helm.chart);
    let is_of_same_chart = (request.repo, request.chart) == (valid.chart.repo, valid.chart.chart);
    // An empty version of the same chart is inherited when the options are merged for a cluster.
    if !(is_of_same_chart && request.version.text().is_empty()) {
        helm.version = version(charts.of_target(index))?;
    }
    Ok(())
}

/// Fleet's agents recognize a registry only by `oci://` in lower case.
fn with_lowercase_scheme(repo: &str) -> String {
    match repo.split_once("://") {
        Some((_, rest)) if is_oci(repo) => format!("oci://{rest}"),
        _ => repo.to_owned(),
    }
}

/// The version of a chart; empty for an archive.
fn version(chart: Option<&RequestedChart<'_, '_>>) -> Result<String, MissingVersion> {
    let Some(chart) = chart else {
        return Ok(String::new());
    };
    match &chart.version {
        Some(version) => Ok(version.version.clone()),
        None => Err(MissingVersion(chart.lookup.clone())),
    }
}

fn default_target() -> BundleTarget {
    let criteria = ClusterCriteria {
        cluster_group: "default".to_owned(),
        ..ClusterCriteria::default()
    };
    BundleTarget {
        name: "default".to_owned(),
        criteria,
        ..BundleTarget::default()
    }
}
