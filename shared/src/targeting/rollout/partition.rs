//! Which clusters are updated together.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::{
    limit::{InvalidAmount, limit},
    plan::PlanError,
};
use crate::{
    api::rollout::RolloutStrategy,
    targeting::{criteria::Criteria, index::Index, target::Target},
};

/// Number of clusters from which on partitions are made automatically.
const AUTO_THRESHOLD: i64 = 200;
/// Size of such partitions, in percent.
const AUTO_SIZE: &str = "25%";
/// How many clusters of a partition may be unavailable unless it is said. Descriptions of the API elsewhere speak of
/// 10%, but this is what holds.
const MAX_UNAVAILABLE: &str = "100%";

/// Clusters that are updated together, by their place among the targets.
#[derive(Debug, PartialEq, Eq)]
pub struct Partition {
    pub name: String,
    pub members: Vec<usize>,
    pub max_unavailable: usize,
}

/// Divides the targets of a Bundle into partitions.
pub fn partitions(strategy: &RolloutStrategy, targets: &[Target<'_>]) -> Result<Vec<Partition>, PlanError> {
    if strategy.partitions.is_empty() {
        return Ok(automatic(strategy, targets.len())?);
    }
    let criteria: Index<'_> = strategy
        .partitions
        .iter()
        .enumerate()
        .map(|(index, partition)| {
            let path = format!("spec.rolloutStrategy.partitions[{index}]");
            Criteria::new(&path, &partition.criteria)
        })
        .collect::<Result<_, _>>()?;
    let mut members = vec![Vec::new(); strategy.partitions.len()];
    for (place, target) in targets.iter().enumerate() {
        // A cluster counts in the first partition that it belongs to, and there alone.
        let first = criteria.matching(&target.member).next();
        if let Some(members) = first.and_then(|first| members.get_mut(first)) {
            members.push(place);
        }
    }
    let partitions = strategy.partitions.iter().zip(members);
    partitions
        .map(|(partition, members)| {
            let amount = partition
                .max_unavailable
                .as_ref()
                .or(strategy.max_unavailable.as_ref());
            Ok(Partition {
                name: partition.name.clone(),
                max_unavailable: amount_of(members.len(), amount, MAX_UNAVAILABLE)?,
                members,
            })
        })
        .collect()
}

fn automatic(strategy: &RolloutStrategy, count: usize) -> Result<Vec<Partition>, InvalidAmount> {
    let threshold = strategy.auto_partition_threshold.unwrap_or(AUTO_THRESHOLD);
    let is_off = matches!(strategy.auto_partition_size, Some(IntOrString::Int(..=0))) || threshold <= 0;
    let is_small = usize::try_from(threshold).is_ok_and(|threshold| count < threshold);
    let partition = |name: String, members: Vec<usize>| {
        Ok(Partition {
            name,
            max_unavailable: amount_of(members.len(), strategy.max_unavailable.as_ref(), MAX_UNAVAILABLE)?,
            members,
        })
    };
    if is_off || is_small {
        return Ok(vec![partition("All".to_owned(), (0..count).collect())?]);
    }
    // A size of 0 would never end.
    let size = amount_of(count, strategy.auto_partition_size.as_ref(), AUTO_SIZE)?.max(1);
    (0..count)
        .step_by(size)
        .map(|start| {
            let end = count.min(start.saturating_add(size));
            partition(format!("Partition {start} - {end}"), (start..end).collect())
        })
        .collect()
}

/// How many of `count` an amount is, or the one that holds where none is given.
pub fn amount_of(
    count: usize,
    amount: Option<&IntOrString>,
    otherwise: &str,
) -> Result<usize, InvalidAmount> {
    match amount {
        Some(amount) => limit(count, amount),
        None => limit(count, &IntOrString::String(otherwise.to_owned())),
    }
}
