//! What to deploy to a cluster.

use std::sync::Arc;

use helmops_api::{BundleDeploymentOptions, Lifecycle};

/// What to deploy to a cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct DesiredTarget {
    /// The options, without Helm values, and of the life cycle only what the key of the release has. Clusters with the same options share them.
    pub options: Arc<BundleDeploymentOptions>,
    /// The Helm values as they are in the Secret; empty if there are none. Clusters with the same values share them.
    pub values: Arc<str>,
    /// The life cycle of the release. It is not staged: it changes how a cluster is deployed to, not what is deployed.
    pub lifecycle: Option<Arc<Lifecycle>>,
    /// Identifies the options, values and content.
    pub id: String,
}
