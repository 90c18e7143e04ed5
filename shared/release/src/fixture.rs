//! Revisions for tests.

use crate::{
    history::{Chart, Origin, Owner, Revision},
    record::{Attempt, AttemptAction, Cause, Status},
};

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
