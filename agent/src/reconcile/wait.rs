//! `atomic`: a release that does not become ready in time is rolled back, or uninstalled if there was none before.
//!
//! Helm is never asked to wait: that would occupy a process, and nothing would be known of what is late. The deadline counts from the
//! time in the record, so that it is the same after a restart of the agent.

use std::time::Duration;

use helmops_api::BundleDeployment;
use helmops_release::{health::Readiness, object::ObjectId};
use k8s_openapi::jiff::Timestamp;

use crate::{helm::request::DEFAULT_HOOK_TIMEOUT, monitor::Installed};

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

/// Whether a deployment has to become ready before it counts as deployed. Once the status shows it as deployed, it has been ready.
pub fn is_awaited(deployment: &BundleDeployment) -> bool {
    let helm = deployment.spec.options.helm.as_ref();
    helm.is_some_and(|helm| helm.atomic)
        && deployment.status.applied_deployment_id != deployment.spec.deployment_id
}

/// Whether the wait for the objects of a release is over. `readiness` has those that are observed; the others do not exist yet.
pub fn state<'o>(
    deployment: &BundleDeployment,
    installed: &Installed,
    readiness: impl Fn(&ObjectId) -> Option<&'o Readiness>,
    now: Timestamp,
) -> Wait {
    let late = installed
        .desired
        .iter()
        .find_map(|object| match readiness(&object.id) {
            Some(Readiness::Ready) => None,
            None if object.is_temporary => None,
            Some(Readiness::Failed(reason)) => Some((format!("{} failed: {reason}", object.id), true)),
            Some(Readiness::Waiting(reason)) => {
                Some((format!("{} is not ready: {reason}", object.id), false))
            }
            None => Some((format!("{} does not exist", object.id), false)),
        });
    let Some((late, has_failed)) = late else {
        return Wait::Over;
    };
    if has_failed {
        return Wait::Failed(late);
    }
    let timeout = timeout(deployment);
    let elapsed = installed
        .deployed_at
        .map(|deployed_at| now.duration_since(deployed_at));
    let elapsed = elapsed.map_or(timeout, |elapsed| Duration::try_from(elapsed).unwrap_or_default());
    match timeout
        .checked_sub(elapsed)
        .filter(|remaining| !remaining.is_zero())
    {
        Some(remaining) => Wait::Waiting { remaining, late },
        None => Wait::Failed(format!("{late} (after {} s)", timeout.as_secs())),
    }
}

fn timeout(deployment: &BundleDeployment) -> Duration {
    let helm = deployment.spec.options.helm.as_ref();
    let seconds = helm.and_then(|helm| u64::try_from(helm.timeout_seconds).ok());
    seconds
        .filter(|seconds| *seconds > 0)
        .map_or(DEFAULT_HOOK_TIMEOUT, Duration::from_secs)
}
