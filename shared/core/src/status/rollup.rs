//! Computes the status of a HelmOp from its deployments.

use helmops_api::{
    Bundle, BundleDeployment, BundleSpec, Decoded,
    bundle::{BundleStatus, RolloutStatus},
    lifecycle::LifecycleSummary,
    status::StatusBase,
};

use super::{deployments, lifecycle, resources, summary};
use crate::{bundle::rollout_status, schedule::Waiting};

/// The observed state of a HelmOp's Bundle.
#[derive(Clone, Copy, Debug, Default)]
pub struct BundleState<'a> {
    /// The current Bundle.
    pub bundle: Option<&'a Bundle>,
    /// Its BundleDeployments, in any order; `None` if they are not watched, as in a controller that may read only some
    /// namespaces. One that does not decode does not hide the others: it is reported.
    pub deployments: Option<&'a [&'a Decoded<BundleDeployment>]>,
    /// The clusters that wait for a window of their Schedules.
    pub waiting: Option<&'a Waiting>,
}

impl<'a> From<Option<&'a Bundle>> for BundleState<'a> {
    fn from(bundle: Option<&'a Bundle>) -> Self {
        Self {
            bundle,
            ..Self::default()
        }
    }
}

impl<'a> BundleState<'a> {
    /// The status of the Bundle.
    pub fn status(&self) -> Option<&'a BundleStatus> {
        self.bundle.and_then(|bundle| bundle.status.as_deref())
    }
}

impl BundleState<'_> {
    /// What is rolled out and what it waits for.
    pub fn rollout(&self) -> Option<RolloutStatus> {
        self.bundle.and_then(rollout_status)
    }
}

/// Sets everything in a status that follows from deployments. If they are not watched, the counts are those of the Bundle's
/// summary, and objects are not reported; if it has no summary either, the status stays as it is.
pub fn fill(base: &mut StatusBase, observed: BundleState<'_>) {
    let counted = observed.status().and_then(|status| status.summary.as_ref());
    match (observed.deployments, counted) {
        (Some(deployments), _) => {
            let deployments = deployments::by_cluster(deployments);
            summary::fill(base, &deployments, counted);
            resources::fill(base, &deployments);
        }
        (None, Some(counted)) => {
            summary::fill_from_bundle(base, counted);
            resources::clear(base);
        }
        (None, None) => {}
    }
}

/// The counts of the life cycle, if the spec of the HelmOp has one. If deployments are not watched, they are those of the Bundle.
pub fn lifecycle(spec: &BundleSpec, observed: BundleState<'_>) -> Option<LifecycleSummary> {
    if let Some(deployments) = observed.deployments {
        return lifecycle::summary(spec, &deployments::by_cluster(deployments));
    }
    let counted = observed.status().and_then(|status| status.lifecycle.clone());
    counted.filter(|_| lifecycle::is_set(spec))
}
