//! The last rollout that was completed: what a rollout that fails goes back to.

use helmops_api::{
    Bundle, BundleDeploymentOptions, BundleSpec, Lifecycle,
    bundle::{BundleStatus, CompletedRollout},
    labels,
    target::BundleTarget,
};
use helmops_model::chart::url;
use thiserror::Error;

/// The longest spec that is recorded, in bytes: it is in the status of the Bundle, whose size is bounded, besides the spec itself.
const MAX_SPEC: usize = 256 << 10;

/// How long the records of the charts may be, those that fail and those before, in bytes: both are annotations of the Bundle, and the API
/// server allows 256 KiB for all of them.
const MAX_RECORDS: usize = 192 << 10;

/// Why a rollout that has failed does not go back.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum NotRestorable {
    /// There is no record.
    #[error(
        "no version has been completed on these clusters since onFailure.action is Rollback, or it is larger than 256 KiB"
    )]
    NothingCompleted,
    /// What was completed last is what has failed.
    #[error("it is the last one that was completed")]
    Same,
    /// It was for other clusters: to go back would uninstall releases, or install them elsewhere.
    #[error("the last one that was completed has other targets")]
    OtherTargets,
    /// Only the controller of HelmOps goes back.
    #[error("the Bundle is not that of a HelmOp")]
    NoHelmOp,
    /// Both records would not be stored.
    #[error("the records of its charts and of those before are longer than {} KiB together; use fewer charts in targets", MAX_RECORDS >> 10)]
    ManyCharts,
}

/// What a rollout goes back to.
#[derive(Clone, Debug, PartialEq)]
pub struct Restorable {
    /// The spec, with everything of the one that has failed that deploys nothing.
    pub spec: BundleSpec,
    /// The record of its charts, see [`labels::RESOLVED`].
    pub resolved: String,
}

/// The record of a rollout that is complete; `None` if it is too large.
pub fn record(bundle: &Bundle, id: &str) -> Option<CompletedRollout> {
    let spec = BundleSpec {
        paused: false,
        rollout_strategy: None,
        depends_on: Vec::new(),
        ..bundle.spec.clone()
    };
    // Strings and maps with string keys always serialize.
    let spec = serde_json::to_string(&spec).ok()?;
    let resolved = record_of_charts(bundle).to_owned();
    (spec.len() + resolved.len() <= MAX_SPEC).then(|| CompletedRollout {
        id: id.to_owned(),
        spec,
        resolved,
    })
}

/// What the rollout of a Bundle with this ID goes back to when it fails.
///
/// # Errors
/// If there is nothing that it can go back to.
pub fn restorable(bundle: &Bundle, id: &str, status: &BundleStatus) -> Result<Restorable, NotRestorable> {
    if labels::of(&bundle.metadata, labels::HELM_NAME).is_none() {
        return Err(NotRestorable::NoHelmOp);
    }
    let completed = status.completed.as_ref().ok_or(NotRestorable::NothingCompleted)?;
    if completed.id == id {
        return Err(NotRestorable::Same);
    }
    let before: BundleSpec =
        serde_json::from_str(&completed.spec).map_err(|_| NotRestorable::NothingCompleted)?;
    in_place_of(bundle, before, &completed.resolved)
}

/// What a Bundle deploys with the spec and the charts of `before`.
///
/// # Errors
/// If it has other targets, or more charts than can be recorded.
pub fn in_place_of(bundle: &Bundle, before: BundleSpec, resolved: &str) -> Result<Restorable, NotRestorable> {
    if !have_same_clusters(&bundle.spec, &before) {
        return Err(NotRestorable::OtherTargets);
    }
    if record_of_charts(bundle).len() + resolved.len() > MAX_RECORDS {
        return Err(NotRestorable::ManyCharts);
    }
    Ok(Restorable {
        spec: with_deployed(&bundle.spec, before),
        resolved: resolved.to_owned(),
    })
}

/// The record of the charts of a Bundle; empty if there is none.
pub fn record_of_charts(bundle: &Bundle) -> &str {
    labels::annotation(&bundle.metadata, labels::RESOLVED).unwrap_or_default()
}

fn have_same_clusters(one: &BundleSpec, other: &BundleSpec) -> bool {
    let targets = |spec: &BundleSpec| -> Vec<BundleTarget> {
        let without_options = |target: &BundleTarget| BundleTarget {
            name: target.name.clone(),
            criteria: target.criteria.clone(),
            do_not_deploy: target.do_not_deploy,
            ..BundleTarget::default()
        };
        spec.targets.iter().map(without_options).collect()
    };
    targets(one) == targets(other)
        && one.target_customization_mode == other.target_customization_mode
        && one.target_restrictions == other.target_restrictions
}

/// `spec`, with what `deployed` deploys in place of its own. What changes no deployment, such as a suspension, is that of `spec`.
fn with_deployed(spec: &BundleSpec, deployed: BundleSpec) -> BundleSpec {
    let repo = |spec: &BundleSpec| {
        let helm = spec.options.helm.as_ref();
        helm.map(|helm| url::identity(&helm.repo))
    };
    let is_same_repo = repo(spec) == repo(&deployed);
    let mut targets = deployed.targets;
    for (target, own) in targets.iter_mut().zip(&spec.targets) {
        if target.options.is_boxed() || own.options.is_boxed() {
            let options = std::mem::take(&mut *target.options);
            *target.options = with_deployed_options(&own.options, options);
        }
    }
    BundleSpec {
        options: with_deployed_options(&spec.options, deployed.options),
        targets,
        helm_op_options: if is_same_repo {
            spec.helm_op_options.clone()
        } else {
            deployed.helm_op_options
        },
        ..spec.clone()
    }
}

fn with_deployed_options(
    own: &BundleDeploymentOptions,
    deployed: BundleDeploymentOptions,
) -> BundleDeploymentOptions {
    let before = deployed.lifecycle.unwrap_or_default();
    let lifecycle = Lifecycle {
        storage_namespace: before.storage_namespace,
        values_from: before.values_from,
        ignore_missing_values_files: before.ignore_missing_values_files,
        post_renderers: before.post_renderers,
        post_render_strategy: before.post_render_strategy,
        common_metadata: before.common_metadata,
        ..own.lifecycle.as_deref().cloned().unwrap_or_default()
    };
    let has_lifecycle = own.lifecycle.is_some() || lifecycle != Lifecycle::default();
    BundleDeploymentOptions {
        diff: own.diff.clone(),
        correct_drift: own.correct_drift.clone(),
        lifecycle: has_lifecycle.then(|| Box::new(lifecycle)),
        ..deployed
    }
}
