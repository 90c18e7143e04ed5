//! Revisions for tests.

use crate::{
    history::{Chart, Origin, Owner, Revision},
    lifecycle::{ActionPolicy, Policy, Remediation, Schedule},
    record::{Attempt, AttemptAction, Cause, OnDelete, Status},
};

/// A policy for both actions, which waits for nothing and tests nothing.
pub fn policy(schedule: Schedule, remediation: Remediation) -> Policy {
    let action = ActionPolicy {
        schedule,
        remediation,
        remediates_last: true,
        crds: None,
        wait: None,
    };
    Policy {
        install: action,
        upgrade: action,
        test: None,
        history: 5,
        on_delete: OnDelete::default(),
    }
}

/// A revision of BundleDeployment `web`, made by an attempt; `None` for one of another agent.
pub fn revision(number: u64, status: Status, attempt: Option<Attempt>) -> Revision {
    Revision {
        number,
        status,
        origin: Origin {
            owner: Owner::BundleDeployment("web".to_owned()),
            attempt,
        },
        is_replaced: false,
        is_rollback: false,
        is_interrupted: false,
        acceptance: None,
        failure: None,
        copies: None,
        forced_by: None,
        keeps_objects: false,
        made_at: None,
        changed_at: None,
        chart: Chart::default(),
    }
}

/// An attempt, because of a change.
pub fn attempt(action: AttemptAction, deployment_id: &str, number: u32) -> Attempt {
    Attempt {
        action,
        deployment_id: deployment_id.to_owned(),
        cause: Cause::Change,
        number,
    }
}
