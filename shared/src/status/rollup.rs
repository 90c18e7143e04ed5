//! From the deployments of a HelmOp to its status.

use super::{deployments, resources, summary};
use crate::api::{Bundle, BundleDeployment, Decoded, bundle::BundleStatus, status::StatusBase};

/// What is seen of a HelmOp's Bundle.
#[derive(Clone, Copy, Debug, Default)]
pub struct BundleState<'a> {
    /// The Bundle as it is now.
    pub bundle: Option<&'a Bundle>,
    /// Its BundleDeployments, in any order; `None` where nobody looks at them, as in a controller that may only see
    /// some namespaces. None of them hides others: one that does not decode is told of.
    pub deployments: Option<&'a [&'a Decoded<BundleDeployment>]>,
}

impl<'a> From<Option<&'a Bundle>> for BundleState<'a> {
    fn from(bundle: Option<&'a Bundle>) -> Self {
        Self {
            bundle,
            deployments: None,
        }
    }
}

impl<'a> BundleState<'a> {
    /// What came of the Bundle.
    pub fn status(&self) -> Option<&'a BundleStatus> {
        self.bundle.and_then(|bundle| bundle.status.as_deref())
    }
}

/// Sets everything in a status that follows from deployments. Where nobody looks at them, the Bundle's own summary
/// gives the numbers and single objects are not told of; where it has none either, all stays as it is.
pub fn fill(base: &mut StatusBase, seen: BundleState<'_>) {
    let counted = seen.status().and_then(|status| status.summary.as_ref());
    match (seen.deployments, counted) {
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
