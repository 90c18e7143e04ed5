//! Which clusters are updated together.

use helmops_api::{limits::GATES, rollout::RolloutStrategy};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::{
    error::PlanError,
    limit::{InvalidAmount, limit},
    partition_gate::Gate,
    waits::Soak,
};
use crate::targeting::{criteria::Criteria, index::Index, target::Target};

/// Number of clusters from which partitions are created automatically.
const AUTO_THRESHOLD: i64 = 200;
/// Size of such partitions, in percent.
const AUTO_SIZE: &str = "25%";
/// How many clusters of a partition may be unavailable by default. Other descriptions of the API name 10%, but this is the
/// effective default.
const MAX_UNAVAILABLE: &str = "100%";

/// Clusters that are updated together, by index of the target.
#[derive(Debug, PartialEq)]
pub struct Partition {
    pub name: String,
    pub members: Vec<usize>,
    pub max_unavailable: usize,
    /// How long it has to be complete before the next one begins.
    pub soak: Option<Soak>,
    /// Whether it begins only with an approval.
    pub needs_approval: bool,
    /// What has to be true before it begins.
    pub gate: Option<Gate>,
}

/// Divides the targets of a Bundle into partitions.
pub fn partitions(strategy: &RolloutStrategy, targets: &[Target<'_>]) -> Result<Vec<Partition>, PlanError> {
    if strategy.partitions.is_empty() {
        return automatic(strategy, targets.len());
    }
    if strategy.gates().count() > GATES {
        return Err(PlanError::ManyGates);
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
    for (index, target) in targets.iter().enumerate() {
        // A cluster belongs only to the first partition that matches it.
        let first = criteria.matching(&target.member).next();
        if let Some(members) = first.and_then(|first| members.get_mut(first)) {
            members.push(index);
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
                soak: Soak::parse(partition.soak.as_deref().or(strategy.soak.as_deref()))?,
                needs_approval: partition.needs_approval(),
                gate: partition.gate.as_ref().map(Gate::parse).transpose()?,
                members,
            })
        })
        .collect()
}

fn automatic(strategy: &RolloutStrategy, count: usize) -> Result<Vec<Partition>, PlanError> {
    let soak = Soak::parse(strategy.soak.as_deref())?;
    let threshold = strategy.auto_partition_threshold.unwrap_or(AUTO_THRESHOLD);
    let is_off = matches!(strategy.auto_partition_size, Some(IntOrString::Int(..=0))) || threshold <= 0;
    let is_small = usize::try_from(threshold).is_ok_and(|threshold| count < threshold);
    let partition = |name: String, members: Vec<usize>| {
        Ok(Partition {
            name,
            max_unavailable: amount_of(members.len(), strategy.max_unavailable.as_ref(), MAX_UNAVAILABLE)?,
            soak: soak.clone(),
            needs_approval: false,
            gate: None,
            members,
        })
    };
    if is_off || is_small {
        return Ok(vec![partition("All".to_owned(), (0..count).collect())?]);
    }
    // A size of 0 would loop forever.
    let size = amount_of(count, strategy.auto_partition_size.as_ref(), AUTO_SIZE)?.max(1);
    (0..count)
        .step_by(size)
        .map(|start| {
            let end = count.min(start.saturating_add(size));
            partition(automatic_name(start, end), (start..end).collect())
        })
        .collect()
}

/// The name of an automatic partition, as in Fleet.
pub fn automatic_name(start: usize, end: usize) -> String {
    format!("Partition {start} - {end}")
}

/// Resolves an amount, or the default if none is set, to a number of `count` items.
pub fn amount_of(count: usize, amount: Option<&IntOrString>, default: &str) -> Result<usize, InvalidAmount> {
    match amount {
        Some(amount) => limit(count, amount),
        None => limit(count, &IntOrString::String(default.to_owned())),
    }
}
