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
    /// When a rollout is halted: no further cluster is updated, until something else is rolled out or a user resumes it. With `action: Rollback`
    /// its clusters go back as well.
    pub struct FailurePolicy: [unknown: UnknownFields] {
        /// On how many clusters it may have failed, as a number or a percentage. 0 by default.
        "maxFailed" | nullable => max_failed: Option<IntOrString>,
        /// What happens then: nothing more (`Halt`, the default), or all clusters go back to the last version with its options that was completed
        /// on them (`Rollback`). What has failed is not tried again until there is another version or change, or a user resumes the rollout.
        #[schemars(extend("enum" = ["", HALT, ROLLBACK]))]
        "action" | nullable => action: String,
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
        /// What has to be true before the partition begins, in addition to that. It is evaluated when all earlier partitions are complete and
        /// their soak is over, and an approval does not replace it.
        "gate" | nullable => gate: Option<PartitionGate>,
    }
}

wire! {
    /// What has to be true before a partition begins. Once it has let the partition begin, it is passed for what is rolled out.
    pub struct PartitionGate: [unknown: UnknownFields] {
        /// A CEL expression over the state of the rollout that is true when the partition may begin, such as
        /// `previous.all(p, p.failed == 0 && now - p.since >= 3600)`.
        "expression" | nullable => expression: String,
        /// In place of an expression: the HTTPS URL of an endpoint that decides. It gets a POST request with the state of the rollout as JSON,
        /// and responds with JSON such as `{"open": false, "message": "the error rate is 2%"}`.
        "url" | nullable => url: String,
        /// With `url`: a Secret in the same namespace with `username` and `password`, `cacerts` with certificates to trust (PEM), and the
        /// other keys that the Secret of a repository may have.
        "secretName" | nullable => secret_name: String,
        /// With `url`: how often the endpoint is requested while the partition waits, as a duration. 1m by default.
        "interval" | nullable => interval: Option<String>,
        /// With `url`: how long to wait for the response, as a duration. 5s by default.
        "timeout" | nullable => timeout: Option<String>,
    }
}

/// The value of `approval` with which a partition waits for a person.
pub const MANUAL: &str = "Manual";

/// The value of `action` with which a rollout that fails is only halted.
pub const HALT: &str = "Halt";
/// The value of `action` with which a rollout that fails goes back.
pub const ROLLBACK: &str = "Rollback";

impl FailurePolicy {
    /// Whether the clusters go back.
    pub fn rolls_back(&self) -> bool {
        self.action == ROLLBACK
    }
}

impl RolloutStrategy {
    /// The gates of partitions, with the index of the partition.
    pub fn gates(&self) -> impl Iterator<Item = (usize, &PartitionGate)> {
        let gates = self.partitions.iter().map(|partition| partition.gate.as_ref());
        gates.enumerate().filter_map(|(index, gate)| Some((index, gate?)))
    }

    /// Whether the clusters go back when a rollout fails.
    pub fn rolls_back(&self) -> bool {
        self.on_failure.as_ref().is_some_and(FailurePolicy::rolls_back)
    }
}

impl Partition {
    /// Whether it begins only with an approval.
    pub fn needs_approval(&self) -> bool {
        self.approval == MANUAL
    }
}
