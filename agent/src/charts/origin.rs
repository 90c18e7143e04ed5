//! Where the chart of a deployment comes from.

use helmops_api::{BundleDeployment, labels};
use helmops_release::marks;

/// Where a chart comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChartOrigin {
    /// A repository, a registry or a URL, which the options name.
    Repository,
    /// The files of a Bundle, in Contents of the management cluster.
    Content,
    /// The files of a Bundle, in a registry that a Secret beside the BundleDeployment names.
    Storage,
}

impl ChartOrigin {
    /// Where the chart of a deployment comes from, by the rule of Fleet's agent.
    pub const fn of(deployment: &BundleDeployment) -> Self {
        let spec = &deployment.spec;
        if spec.oci_contents {
            Self::Storage
        } else if spec.helm_chart_options.is_some() {
            Self::Repository
        } else {
            Self::Content
        }
    }

    /// Whether it is made of the files of a Bundle.
    pub const fn is_content(self) -> bool {
        matches!(self, Self::Content | Self::Storage)
    }
}

/// The commit of the files of a deployment, from its label; empty for none. The chart of its release has it as an annotation of the same name.
pub fn commit(deployment: &BundleDeployment) -> &str {
    labels::of(&deployment.metadata, marks::COMMIT).unwrap_or_default()
}
