//! Numbers and percentages of the rollout.

use helmops_api::rollout::{Partition, RolloutStrategy};
use helmops_model::{
    reason::Reason,
    validation::{FieldErrors, Path, selector},
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// Checks a rollout strategy.
pub fn check(errors: &mut FieldErrors, path: &Path<'_>, rollout: &RolloutStrategy) {
    check_amount(
        errors,
        &path.field("maxUnavailable"),
        rollout.max_unavailable.as_ref(),
    );
    check_amount(
        errors,
        &path.field("maxUnavailablePartitions"),
        rollout.max_unavailable_partitions.as_ref(),
    );
    check_amount(
        errors,
        &path.field("autoPartitionSize"),
        rollout.auto_partition_size.as_ref(),
    );
    let path = path.field("partitions");
    for (index, partition) in rollout.partitions.iter().enumerate() {
        check_partition(errors, &path.index(index), partition);
    }
}

fn check_partition(errors: &mut FieldErrors, path: &Path<'_>, partition: &Partition) {
    check_amount(
        errors,
        &path.field("maxUnavailable"),
        partition.max_unavailable.as_ref(),
    );
    selector::check_criteria(errors, path, &partition.criteria);
}

/// The forms that Fleet's rollout accepts: a number, also in quotes, or a whole number of percent.
fn check_amount(errors: &mut FieldErrors, path: &Path<'_>, amount: Option<&IntOrString>) {
    let Some(IntOrString::String(text)) = amount else {
        return;
    };
    let is_valid = match text.strip_suffix('%') {
        Some(percent) => percent.parse::<i64>().is_ok(),
        None => text.parse::<u64>().is_ok(),
    };
    if !is_valid {
        errors.invalid(
            path,
            Reason::InvalidRollout,
            text,
            "must be a number or a percentage, such as 3 or 25%",
        );
    }
}
