//! A release has succeeded when its objects are ready, if its policy waits for that. One that is not ready in time has failed.
//!
//! Helm is never asked to wait: that would occupy a process, and nothing would be known of what is late. The deadline counts from the
//! time in the record, so that it is the same after a restart of the agent.

use std::time::Duration;

use helmops_api::{BundleDeployment, timestamp::timestamp};
use helmops_release::{health::Readiness, object::ObjectId};
use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::deployed::Deployed;
use crate::monitor::Installed;

/// What a wait has led to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Nothing is waited for, or everything is ready.
    Over,
    /// Something is late.
    Waiting {
        /// How long the wait lasts at most.
        remaining: Duration,
        /// What is late, and why.
        late: String,
    },
    /// The release failed, with the reason.
    Failed(String),
}

/// Whether a revision has to become ready before it counts as deployed. Once the status shows it as deployed, it has been ready.
pub fn is_awaited(deployment: &BundleDeployment, deployed: &Deployed) -> bool {
    let status = &deployment.status;
    status.applied_deployment_id != deployment.spec.deployment_id || status.release != deployed.to_string()
}

/// Whether the wait for the objects of a release is over. `readiness` has those that are observed; the others do not exist yet.
pub fn state<'o>(
    timeout: Duration,
    installed: &Installed,
    readiness: impl Fn(&ObjectId) -> Option<&'o Readiness>,
    now: Timestamp,
) -> Wait {
    let unready = || {
        installed.desired.iter().filter_map(|object| {
            let readiness = readiness(&object.id);
            let is_ready = matches!(readiness, Some(Readiness::Ready));
            let may_be_gone = readiness.is_none() && object.is_temporary;
            (!is_ready && !may_be_gone).then_some((&object.id, readiness))
        })
    };
    // What failed is the cause; what is late may only be waiting for it.
    let failed = unready().find_map(|(id, readiness)| match readiness {
        Some(Readiness::Failed(reason)) => Some(format!("{id} failed: {reason}")),
        _ => None,
    });
    if let Some(failed) = failed {
        return Wait::Failed(failed);
    }
    let Some((id, readiness)) = unready().next() else {
        return Wait::Over;
    };
    let late = match readiness {
        Some(Readiness::Waiting(reason)) => format!("{id} is not ready: {reason}"),
        _ => format!("{id} does not exist"),
    };
    let since = installed.deployed_at.unwrap_or(Timestamp::UNIX_EPOCH);
    let timeout = SignedDuration::try_from(timeout).unwrap_or(SignedDuration::MAX);
    let until = since.saturating_add(timeout).unwrap_or(Timestamp::MAX);
    match Duration::try_from(until.duration_since(now)) {
        Ok(remaining) if !remaining.is_zero() => Wait::Waiting {
            remaining,
            late: format!("{late} (since {}, until {})", timestamp(since), timestamp(until)),
        },
        _ => Wait::Failed(format!("{late} (after {} s)", timeout.as_secs())),
    }
}
