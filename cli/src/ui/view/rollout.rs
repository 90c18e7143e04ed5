//! The picture of a roll-out: clusters by state and version, and the partitions in their order.

use std::collections::BTreeMap;

use helmops_api::{Bundle, BundleDeployment, Decoded, status::BundleSummary};
use helmops_core::bundle::rollout_status;
use serde::Serialize;

use super::parts::{Part, parts};
use crate::state::clusters::{ClusterReport, running};

/// A roll-out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Rollout {
    /// Clusters by state.
    pub by_state: Vec<Part>,
    /// Clusters by the version that runs.
    pub by_version: Vec<VersionPart>,
    /// The partitions, in the order in which they are updated.
    pub partitions: Vec<Partition>,
    /// Whether `spec.paused` keeps all clusters as they are.
    pub paused: bool,
    /// How many clusters may be unavailable, if it is known.
    pub max_unavailable: Option<i64>,
    /// How many are.
    pub unavailable: Option<i64>,
    /// How many clusters get it for the first time in a round.
    pub max_new: Option<i64>,
    /// How many did in the last one.
    pub newly_created: i64,
    /// What the next partition waits for, and what ends that; empty if it waits for nothing, or for another partition.
    pub waits: String,
}

/// The clusters that run one version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct VersionPart {
    /// The version; empty if it is not known, or nothing runs.
    pub version: String,
    /// Whether it is the one that is rolled out.
    pub is_desired: bool,
    /// The number of clusters.
    pub count: i64,
    /// How many of them are ready.
    pub ready: i64,
}

/// A partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Partition {
    /// Its name.
    pub name: String,
    /// The number of its clusters.
    pub count: i64,
    /// How many of them may be unavailable.
    pub max_unavailable: i64,
    /// How many are.
    pub unavailable: i64,
    /// Its clusters by state.
    pub parts: Vec<Part>,
    /// Where it is.
    pub phase: Phase,
    /// The partition that it waits for, or `soak`, `gate` or `approval`; empty if it does not wait.
    pub waits_for: String,
}

/// Where a partition is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Phase {
    /// All its clusters are up to date and available.
    Done,
    /// Its clusters are updated.
    Active,
    /// A partition before it has to become available first, or has to soak, or its gate is closed, or an approval is missing.
    Waiting,
}

impl Rollout {
    /// The roll-out. `clusters` and `deployments` are the same clusters; without the latter, versions are not known.
    pub fn of(
        bundle: Option<&Bundle>,
        summary: Option<&BundleSummary>,
        desired: &str,
        clusters: &[ClusterReport],
        deployments: &[Decoded<BundleDeployment>],
    ) -> Self {
        let rollout = Self {
            by_state: parts(summary),
            by_version: by_version(desired, clusters, deployments),
            paused: bundle.is_some_and(|bundle| bundle.spec.paused),
            ..Self::default()
        };
        let Some(status) = bundle.and_then(|bundle| bundle.status.as_deref()) else {
            return rollout;
        };
        Self {
            partitions: partitions(status),
            max_unavailable: status.max_unavailable,
            unavailable: status.unavailable,
            max_new: status.max_new,
            newly_created: status.newly_created,
            waits: bundle
                .and_then(rollout_status)
                .map_or_else(String::new, |rollout| rollout.message),
            ..rollout
        }
    }

    /// The first partition that keeps others waiting.
    pub fn blocking(&self) -> Option<&str> {
        let waiting = self
            .partitions
            .iter()
            .find(|partition| partition.phase == Phase::Waiting);
        waiting.map(|partition| &*partition.waits_for)
    }
}

/// The partitions, as the controller reports them. Those after too many that are not available wait, and those from the one on that
/// has to wait for a soak, its gate or an approval.
pub fn partitions(status: &helmops_api::bundle::BundleStatus) -> Vec<Partition> {
    let allowed = status.max_unavailable_partitions.unwrap_or_default();
    let mut unavailable = Vec::new();
    let gated = status
        .rollout
        .as_ref()
        .filter(|rollout| !rollout.waits_for.is_empty());
    let mut is_gated = false;
    let partitions = status.partitions.iter().map(|partition| {
        let exceeding = usize::try_from(allowed)
            .ok()
            .and_then(|allowed| unavailable.get(allowed))
            .copied();
        let gate = gated.and_then(|rollout| {
            let is_first = !is_gated && rollout.partition == partition.name;
            is_gated |= is_first;
            if is_first {
                Some(rollout.waits_for.to_lowercase())
            } else {
                is_gated.then(|| rollout.partition.clone())
            }
        });
        let blocking = gate.or_else(|| exceeding.map(str::to_owned));
        let phase = if blocking.is_some() {
            Phase::Waiting
        } else if partition.unavailable > 0 {
            Phase::Active
        } else {
            Phase::Done
        };
        if partition.unavailable > partition.max_unavailable {
            unavailable.push(&*partition.name);
        }
        Partition {
            name: partition.name.clone(),
            count: partition.count,
            max_unavailable: partition.max_unavailable,
            unavailable: partition.unavailable,
            parts: parts(partition.summary.as_ref()),
            phase,
            waits_for: blocking.unwrap_or_default(),
        }
    });
    partitions.collect()
}

fn by_version(
    desired: &str,
    clusters: &[ClusterReport],
    deployments: &[Decoded<BundleDeployment>],
) -> Vec<VersionPart> {
    let valid = deployments.iter().filter_map(Decoded::valid);
    let versions: BTreeMap<_, _> = valid
        .map(|object| (crate::state::clusters::name(object), running(object)))
        .collect();
    let mut parts: Vec<VersionPart> = Vec::new();
    for cluster in clusters {
        let running = versions.get(&cluster.deployment).and_then(Option::as_ref);
        let version = running.map(|running| running.version).unwrap_or_default();
        let ready = i64::from(cluster.is_ready());
        match parts.iter_mut().find(|part| part.version == version) {
            Some(part) => {
                part.count += 1;
                part.ready += ready;
            }
            None => parts.push(VersionPart {
                version: version.to_owned(),
                is_desired: !version.is_empty() && version == desired,
                count: 1,
                ready,
            }),
        }
    }
    // The desired one first, what is not known last.
    let rank = |part: &VersionPart| (!part.is_desired, part.version.is_empty(), -part.count);
    parts.sort_by(|one, other| (rank(one), &one.version).cmp(&(rank(other), &other.version)));
    parts
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn phases(allowed: i64, partitions: &[(&str, i64, i64)]) -> Vec<(Phase, String)> {
        let partition = |(name, max, unavailable): &(&str, i64, i64)| -> Value {
            json!({ "name": name, "count": 4, "maxUnavailable": max, "unavailable": unavailable })
        };
        let status = json!({
            "maxUnavailablePartitions": allowed,
            "partitions": partitions.iter().map(partition).collect::<Vec<_>>()
        });
        let partitions = super::partitions(&serde_json::from_value(status).unwrap());
        partitions
            .into_iter()
            .map(|partition| (partition.phase, partition.waits_for))
            .collect()
    }

    #[test]
    fn partitions_wait_for_the_one_that_exceeds_what_is_allowed() {
        let (done, active) = ((Phase::Done, String::new()), (Phase::Active, String::new()));
        let waiting = |name: &str| (Phase::Waiting, name.to_owned());
        for (allowed, partitions, expected) in [
            (
                0,
                [("a", 1, 0), ("b", 1, 0), ("c", 1, 0)],
                [done.clone(), done.clone(), done.clone()],
            ),
            (
                0,
                [("a", 1, 2), ("b", 1, 4), ("c", 1, 0)],
                [active.clone(), waiting("a"), waiting("a")],
            ),
            (
                0,
                [("a", 1, 1), ("b", 1, 4), ("c", 1, 0)],
                [active.clone(), active.clone(), waiting("b")],
            ),
            (
                1,
                [("a", 1, 2), ("b", 1, 4), ("c", 1, 0)],
                [active.clone(), active.clone(), waiting("b")],
            ),
            (
                2,
                [("a", 1, 2), ("b", 1, 4), ("c", 1, 0)],
                [active.clone(), active, done],
            ),
        ] {
            assert_eq!(phases(allowed, &partitions), expected, "{allowed} {partitions:?}");
        }
    }

    #[test]
    fn partitions_wait_from_the_one_on_that_needs_an_approval() {
        let names = ["a", "b", "c"].map(|name| json!({ "name": name, "count": 4, "maxUnavailable": 4 }));
        let status = json!({ "partitions": names, "rollout": { "waitsFor": "Approval", "partition": "b" } });
        let partitions = partitions(&serde_json::from_value(status).unwrap());
        let waits: Vec<_> = partitions
            .iter()
            .map(|one| (one.phase, &*one.waits_for))
            .collect();
        assert_eq!(
            waits,
            [
                (Phase::Done, ""),
                (Phase::Waiting, "approval"),
                (Phase::Waiting, "b")
            ]
        );
    }
}
