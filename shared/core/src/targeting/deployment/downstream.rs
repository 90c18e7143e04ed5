//! The downstream resources of a deployment, and the record of those that its agent has copied.

use std::collections::BTreeSet;

use helmops_api::{BundleDeployment, labels};

/// A downstream resource and its copy in the namespace of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DownstreamCopy {
    /// The source in its current version, as the record names it.
    pub source: String,
    /// The copy, compared with the source. `None` if [`recorded`] has this version of the source.
    pub copy: Option<CopyState>,
}

/// A copy of a downstream resource, compared with its source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CopyState {
    /// There is no copy.
    Missing,
    /// The content is the same. Only the metadata of the source changed, or another controller keeps the copy up to date, or the
    /// copy was written for another deployment of the namespace.
    Same {
        /// The version of the source that this controller copied, as the record names it; `None` if another controller wrote the
        /// copy.
        copied_from: Option<String>,
    },
    /// The content differs.
    Different,
}

impl DownstreamCopy {
    /// Whether the agent has to copy it again, and so to deploy again: the content of the copy differs from when the agent last
    /// copied it, according to the record of the deployment.
    pub(super) fn is_changed(&self, recorded: Option<&BTreeSet<&str>>) -> bool {
        match &self.copy {
            None => false,
            // Without a record, as on a deployment of Fleet's controller, the content may be the same.
            Some(CopyState::Missing) => recorded.is_some(),
            Some(CopyState::Same {
                copied_from: made_from,
            }) => made_from
                .as_deref()
                .is_some_and(|version| recorded.is_none_or(|recorded| !recorded.contains(version))),
            Some(CopyState::Different) => true,
        }
    }

    /// The version of the source that its copy has when the deployment is written.
    fn made_from(&self) -> &str {
        match &self.copy {
            // The copy stays as it is.
            Some(CopyState::Same {
                copied_from: Some(copied_from),
            }) => copied_from,
            _ => &self.source,
        }
    }
}

/// The record of a deployment: the downstream resources that were last released to its agent, in the versions that the copies
/// were made from. `None` if there is no record, as on a deployment that Fleet created.
pub fn recorded(deployment: &BundleDeployment) -> Option<BTreeSet<&str>> {
    let annotations = deployment.metadata.annotations.as_ref()?;
    let record = annotations.get(labels::COPIED_FROM)?;
    Some(record.split(", ").filter(|version| !version.is_empty()).collect())
}

/// The record of downstream resources; `None` for none.
pub(super) fn record(downstream: &[DownstreamCopy]) -> Option<String> {
    let mut versions: Vec<_> = downstream.iter().map(DownstreamCopy::made_from).collect();
    versions.sort_unstable();
    (!versions.is_empty()).then(|| versions.join(", "))
}
