//! The rollout strategy: the order of clusters, and how many at the same time.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::{target::ClusterCriteria, unknown_fields::UnknownFields, wire_struct::wire};

wire! {
    /// In which order clusters are updated and how many may be unavailable meanwhile.
    pub struct RolloutStrategy: [unknown: UnknownFields] {
        /// How many clusters may be unavailable during an update, as a number or a percentage. 100% by default.
        "maxUnavailable" | nullable => max_unavailable: Option<IntOrString>,
        /// How many partitions may be unavailable before later ones wait, as a number or a percentage. 0 by default.
        "maxUnavailablePartitions" | nullable => max_unavailable_partitions: Option<IntOrString>,
        /// Size of automatic partitions, as a number or a percentage. 25% by default.
        "autoPartitionSize" | nullable => auto_partition_size: Option<IntOrString>,
        /// Minimum number of clusters for automatic partitions. 200 by default.
        "autoPartitionThreshold" | nullable => auto_partition_threshold: Option<i64>,
        /// How many clusters get the bundle for the first time in one rollout step. Not limited by default.
        "maxNew" | nullable => max_new: Option<i64>,
        /// How long a partition has to be complete before the next one begins, as a duration such as `1h`: every cluster is up to date and
        /// ready, apart from as many as `maxUnavailable` allows. Not at all by default. Partitions may have their own.
        "soak" | nullable => soak: Option<String>,
        /// What happens when a change fails on clusters. By default, the rollout goes on as far as `maxUnavailable` allows.
        "onFailure" | nullable => on_failure: Option<FailurePolicy>,
        /// Explicit partitions, in the order in which they are updated. Clusters that belong to none are not updated.
        "partitions" | nullable => partitions: Vec<Partition>,
    }
}

wire! {
    /// When a rollout is halted: no further cluster is updated, until something else is rolled out or a user resumes it.
    pub struct FailurePolicy: [unknown: UnknownFields] {
        /// On how many clusters it may have failed, as a number or a percentage. 0 by default.
        "maxFailed" | nullable => max_failed: Option<IntOrString>,
    }
}

wire! {
    /// A set of clusters that are updated together.
    pub struct Partition: [criteria: ClusterCriteria, unknown: UnknownFields] {
        /// Name of the partition, shown in the Bundle's status.
        "name" => name: String,
        /// How many of the partition's clusters may be unavailable, as a number or a percentage. By default as for the
        /// whole rollout.
        "maxUnavailable" | nullable => max_unavailable: Option<IntOrString>,
        /// How long the partition has to be complete before the next one begins, as a duration. By default as for the whole rollout.
        "soak" | nullable => soak: Option<String>,
        /// `Manual` if the partition begins only after `kubectl helmop approve`, once for each change of what is deployed. It needs a name
        /// then.
        #[schemars(extend("enum" = ["", "Manual"]))]
        "approval" | nullable => approval: String,
    }
}

/// The value of `approval` with which a partition waits for a person.
pub const MANUAL: &str = "Manual";

impl Partition {
    /// Whether it begins only with an approval.
    pub fn needs_approval(&self) -> bool {
        self.approval == MANUAL
    }
}
