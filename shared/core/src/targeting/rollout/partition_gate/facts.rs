//! What a gate decides on.

use helmops_api::{Bundle, bundle::PartitionStatus, status::number};
use helmops_model::deployment_state::DeploymentState;
use k8s_openapi::jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use crate::targeting::{
    chart_record::recorded_in,
    rollout::{failures::has_failed, partition::Partition},
    target::Target,
};

/// The variables of an expression: the fields of [`GateFacts`].
pub const VARIABLES: &[&str] = &["digest", "now", "partition", "previous", "rollout", "version"];

/// The fields of partitions in an expression: those of [`PartitionFacts`].
pub const FIELDS: &[&str] = &[
    "clusters", "failed", "modified", "name", "ready", "since", "waiting",
];

/// What is rolled out, and how far it is. Times are Unix times in seconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GateFacts {
    /// The ID of the rollout.
    pub rollout: String,
    /// The version of the chart in `spec.helm`.
    pub version: String,
    /// The digest of its archive; empty if it is not known.
    pub digest: String,
    /// Now.
    pub now: i64,
    /// The partition that waits. Its time is since when it waits for the gate.
    pub partition: PartitionFacts,
    /// Those before it, in their order. Their time is since when they are complete.
    pub previous: Vec<PartitionFacts>,
}

/// A partition, with the number of its clusters in each state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PartitionFacts {
    /// Its name.
    pub name: String,
    /// Number of all clusters.
    pub clusters: i64,
    /// Up to date and ready.
    pub ready: i64,
    /// What is rolled out has failed there, or cannot be delivered.
    pub failed: i64,
    /// Up to date, with objects that were changed.
    pub modified: i64,
    /// All others: the rollout has not reached them, or their agents deploy, or objects are not ready.
    pub waiting: i64,
    /// Since when it is complete or waits for the gate; 0 if it has no clusters.
    pub since: i64,
}

impl GateFacts {
    /// Those of a partition with the ones before it: the last of `partitions`, which have these statuses in a rollout with this ID.
    pub(crate) fn new(
        bundle: &Bundle,
        rollout: &str,
        partitions: &[(&Partition, &PartitionStatus)],
        targets: &[Target<'_>],
        now: Timestamp,
    ) -> Option<Self> {
        let ((waiting, status), previous) = partitions.split_last()?;
        let facts =
            |partition: &Partition, since: &str| PartitionFacts::of(partition, targets, seconds(since));
        let helm = bundle.spec.options.helm.as_ref();
        let (chart, version) = helm.map_or(("", ""), |helm| (&helm.chart, &helm.version));
        let mut charts = recorded_in(bundle).unwrap_or_default().into_iter();
        let chart = charts.find(|one| one.chart == chart && one.version == version);
        Some(Self {
            rollout: rollout.to_owned(),
            version: version.to_owned(),
            digest: chart.map(|chart| chart.digest).unwrap_or_default(),
            now: now.as_second(),
            partition: facts(waiting, &status.gate_since),
            previous: previous
                .iter()
                .map(|(partition, status)| facts(partition, &status.completed_at))
                .collect(),
        })
    }

    /// Examples for the partition with this index of those with these names: one with which a gate usually is evaluated, in which those
    /// before it are ready, and one with clusters in each state. Both are needed, as `&&` and `||` skip what the other one reaches.
    pub fn examples(names: &[&str], index: usize) -> [Self; 2] {
        let example = |partition: [i64; 4], previous: [i64; 4]| Self {
            rollout: "3f1c0a7be25d9a10".to_owned(),
            version: "1.2.3".to_owned(),
            digest: format!("sha256:{}", "0".repeat(64)),
            now: 1_800_000_000,
            partition: names
                .get(index)
                .map(|name| PartitionFacts::example(name, partition))
                .unwrap_or_default(),
            previous: names
                .iter()
                .take(index)
                .map(|name| PartitionFacts::example(name, previous))
                .collect(),
        };
        let mixed = [4, 3, 2, 1];
        [example([0, 0, 0, 10], [10, 0, 0, 0]), example(mixed, mixed)]
    }

    /// Calls `evaluate` with the variables of an expression.
    pub fn with_variables<T>(&self, evaluate: impl FnOnce(&[(&str, &Value)]) -> T) -> T {
        // Strings and numbers always serialize.
        let facts = serde_json::to_value(self).unwrap_or_default();
        let fields = facts.as_object().into_iter().flatten();
        let variables: Vec<_> = fields.map(|(name, value)| (&**name, value)).collect();
        evaluate(&variables)
    }
}

impl PartitionFacts {
    /// One with these numbers of clusters that are ready, failed, modified and waiting.
    fn example(name: &str, [ready, failed, modified, waiting]: [i64; 4]) -> Self {
        Self {
            name: name.to_owned(),
            clusters: 10,
            ready,
            failed,
            modified,
            waiting,
            since: 1_790_000_000,
        }
    }

    fn of(partition: &Partition, targets: &[Target<'_>], since: i64) -> Self {
        let mut facts = Self {
            name: partition.name.clone(),
            clusters: number(partition.members.len()),
            since,
            ..Self::default()
        };
        for target in partition.members.iter().filter_map(|index| targets.get(*index)) {
            match state(target) {
                DeploymentState::Ready => facts.ready += 1,
                DeploymentState::ErrApplied => facts.failed += 1,
                DeploymentState::Modified => facts.modified += 1,
                _ => facts.waiting += 1,
            }
        }
        facts
    }
}

/// The state of a cluster, as far as it is about what is rolled out.
fn state(target: &Target<'_>) -> DeploymentState {
    match (&target.desired, target.existing) {
        (Err(_), _) => DeploymentState::ErrApplied,
        _ if has_failed(target) => DeploymentState::ErrApplied,
        (Ok(_), None) => DeploymentState::Pending,
        (Ok(desired), Some(existing)) if existing.spec.deployment_id != desired.id => {
            DeploymentState::OutOfSync
        }
        (Ok(_), Some(existing)) => DeploymentState::of(existing),
    }
}

fn seconds(time: &str) -> i64 {
    time.parse::<Timestamp>().map_or(0, Timestamp::as_second)
}
