//! Targets: which clusters, and what is different on them.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::{target_options::TargetOptions, unknown_fields::UnknownFields, wire_struct::wire};

wire! {
    /// Criteria for a set of clusters: a cluster must fulfil every criterion that is set. Without any, no cluster matches.
    pub struct ClusterCriteria {
        /// Name of a cluster, or its display name in Rancher.
        "clusterName" | nullable => cluster_name: String,
        /// Selects clusters by their labels. `{}` selects every cluster.
        "clusterSelector" | nullable => cluster_selector: Option<LabelSelector>,
        /// Name of a ClusterGroup.
        "clusterGroup" | nullable => cluster_group: String,
        /// Selects ClusterGroups by their labels.
        "clusterGroupSelector" | nullable => cluster_group_selector: Option<LabelSelector>,
    }
}

impl ClusterCriteria {
    /// Whether there is any criterion.
    #[must_use]
    pub fn has_any(&self) -> bool {
        !self.cluster_name.is_empty()
            || self.cluster_selector.is_some()
            || !self.cluster_group.is_empty()
            || self.cluster_group_selector.is_some()
    }
}

wire! {
    /// A set of clusters and what is different on them. A cluster belongs to the target if it fulfils every criterion
    /// (`clusterName`, `clusterSelector`, `clusterGroup`, `clusterGroupSelector`) that the target has; a target
    /// without any matches no cluster.
    pub struct BundleTarget: [criteria: ClusterCriteria, options: TargetOptions] {
        /// Name of the target. Targets without one are numbered: `target000`, `target001` and so on.
        "name" => name: String,
        /// Deploy nothing to the clusters of this target, even where a later target matches them.
        "doNotDeploy" => do_not_deploy: bool,
    }
}

wire! {
    /// A limit on the clusters that targets may select: a cluster must fulfil at least one of the restrictions besides a
    /// target.
    pub struct BundleTargetRestriction: [criteria: ClusterCriteria, unknown: UnknownFields] {
        /// Name of the restriction.
        "name" | nullable => name: String,
    }
}

wire! {
    /// Bundles that must be in an accepted state on a cluster before this one is deployed there.
    pub struct BundleRef: [unknown: UnknownFields] {
        /// Name of a bundle.
        "name" | nullable => name: String,
        /// Selects bundles by their labels.
        "selector" | nullable => selector: Option<LabelSelector>,
        /// States that count as done: `Ready` (the default), `NotReady`, `Pending`, `OutOfSync`, `Modified`,
        /// `WaitApplied`, `ErrApplied`. Not `WaitingForDependency`: this one would no longer wait as soon as the other one waits itself.
        "acceptedStates" | nullable => accepted_states: Vec<String>,
    }
}
