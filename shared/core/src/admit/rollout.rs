//! Numbers, percentages, durations and gates of the rollout.

use std::time::Duration;

use helmops_api::{
    limits,
    rollout::{HALT, MANUAL, Partition, ROLLBACK, RolloutStrategy},
};
use helmops_model::{
    reason::Reason,
    validation::{ErrorType, FieldErrors, Path, selector},
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::targeting::rollout::{Gate, GateFacts, InvalidGate};

/// The longest time between two partitions: a month, as a longer one is more likely a mistake.
const MAX_SOAK: Duration = Duration::from_hours(720);

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
    check_soak(errors, &path.field("soak"), rollout.soak.as_deref());
    if let Some(policy) = &rollout.on_failure {
        let path = path.field("onFailure");
        check_amount(errors, &path.field("maxFailed"), policy.max_failed.as_ref());
        if !matches!(&*policy.action, "" | HALT | ROLLBACK) {
            let detail = "supported values: Halt, Rollback";
            errors.invalid(
                &path.field("action"),
                Reason::InvalidRollout,
                &policy.action,
                detail,
            );
        }
    }
    let path = path.field("partitions");
    for (index, partition) in rollout.partitions.iter().enumerate() {
        check_partition(errors, &path.index(index), partition);
        check_approval(errors, &path.index(index), partition, &rollout.partitions);
    }
    check_gates(errors, &path, rollout);
}

/// Each gate is valid, and an expression makes true or false of examples of its partition.
fn check_gates(errors: &mut FieldErrors, path: &Path<'_>, rollout: &RolloutStrategy) {
    let gates: Vec<_> = rollout.gates().collect();
    if gates.len() > limits::GATES {
        let detail = format!(
            "{} partitions have a gate; at most {} are allowed; remove some",
            gates.len(),
            limits::GATES
        );
        errors.add(path, Reason::LimitExceeded, ErrorType::TooMany, "", detail);
        return;
    }
    let names: Vec<_> = rollout
        .partitions
        .iter()
        .map(|partition| &*partition.name)
        .collect();
    for (index, gate) in gates {
        let checked = Gate::parse(gate).and_then(|gate| gate.try_out(&GateFacts::examples(&names, index)));
        if let Err(InvalidGate { field, text, problem }) = checked {
            let path = path.index(index);
            let path = path.field("gate");
            let detail = problem.to_string();
            errors.invalid(&path.field(field), Reason::InvalidRollout, &text, detail);
        }
    }
}

/// An approval names its partition.
fn check_approval(errors: &mut FieldErrors, path: &Path<'_>, partition: &Partition, all: &[Partition]) {
    const REASON: Reason = Reason::InvalidRollout;
    if !matches!(&*partition.approval, "" | MANUAL) {
        let detail = "supported values: Manual";
        errors.invalid(&path.field("approval"), REASON, &partition.approval, detail);
    }
    if !partition.needs_approval() {
        return;
    }
    let name = &*partition.name;
    if name.is_empty() {
        let detail = "must be set with approval: Manual: kubectl helmop approve names the partition";
        errors.required(&path.field("name"), REASON, detail);
    } else if all.iter().filter(|other| other.name == name).count() > 1 {
        let detail = "must be unique with approval: Manual: kubectl helmop approve names the partition";
        errors.invalid(&path.field("name"), REASON, name, detail);
    }
}

fn check_partition(errors: &mut FieldErrors, path: &Path<'_>, partition: &Partition) {
    check_amount(
        errors,
        &path.field("maxUnavailable"),
        partition.max_unavailable.as_ref(),
    );
    check_soak(errors, &path.field("soak"), partition.soak.as_deref());
    selector::check_criteria(errors, path, &partition.criteria);
}

fn check_soak(errors: &mut FieldErrors, path: &Path<'_>, text: Option<&str>) {
    let Some(text) = text else { return };
    let problem = match go_formats::duration::parse(text) {
        Err(error) => error.to_string(),
        Ok(duration) if duration > MAX_SOAK => "must be at most 720h".to_owned(),
        Ok(_) => return,
    };
    let detail = format!("{problem}; use a Go duration such as 30m, 4h or 24h");
    errors.invalid(path, Reason::InvalidRollout, text, detail);
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
