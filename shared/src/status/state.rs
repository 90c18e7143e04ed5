//! The state of a deployment: one Bundle on one cluster.

use crate::api::{BundleDeployment, Condition};

/// The state of a deployment, the best first. The order is Fleet's rank: the worst state of any deployment is shown
/// for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DeploymentState {
    /// Deployed and ready.
    Ready,
    /// Deployed, but some objects are not ready.
    NotReady,
    /// The cluster is targeted, and the roll-out has not got to it for the first time.
    Pending,
    /// Held back by the roll-out: the cluster is ready with what it had before.
    OutOfSync,
    /// Deployed, and changed on the cluster since.
    Modified,
    /// Waiting to be deployed by the agent.
    WaitApplied,
    /// Could not be deployed.
    ErrApplied,
}

impl DeploymentState {
    /// Every state, the best first.
    pub const ALL: [Self; 7] = [
        Self::Ready,
        Self::NotReady,
        Self::Pending,
        Self::OutOfSync,
        Self::Modified,
        Self::WaitApplied,
        Self::ErrApplied,
    ];

    /// Fleet's word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "Ready",
            Self::NotReady => "NotReady",
            Self::Pending => "Pending",
            Self::OutOfSync => "OutOfSync",
            Self::Modified => "Modified",
            Self::WaitApplied => "WaitApplied",
            Self::ErrApplied => "ErrApplied",
        }
    }

    /// The state of a deployment that exists.
    pub fn of(deployment: &BundleDeployment) -> Self {
        let (spec, status) = (&deployment.spec, &deployment.status);
        if spec.deployment_id.is_empty() && !spec.staged_deployment_id.is_empty() {
            // It knows what comes first, and waits for its turn. Fleet calls it `WaitApplied`, as if its agent were at work.
            Self::Pending
        } else if status.applied_deployment_id != spec.deployment_id {
            let deployed = find(deployment, "Deployed").map(|deployed| &*deployed.status);
            if deployed == Some("False") {
                Self::ErrApplied
            } else {
                Self::WaitApplied
            }
        } else if !status.ready {
            Self::NotReady
        } else if spec.deployment_id != spec.staged_deployment_id {
            Self::OutOfSync
        } else if !status.non_modified {
            Self::Modified
        } else {
            Self::Ready
        }
    }
}

/// What the agent says of a deployment; empty where it says nothing.
///
/// `Installed` speaks of what was deployed last, so it counts only where that is what should be deployed.
pub fn message(deployment: &BundleDeployment) -> &str {
    let is_applied = deployment.status.applied_deployment_id == deployment.spec.deployment_id;
    [("Deployed", true), ("Installed", is_applied), ("Monitored", true)]
        .into_iter()
        .filter_map(|(r#type, counts)| find(deployment, r#type).filter(|_| counts))
        .map(|condition| &*condition.message)
        .find(|message| !message.is_empty())
        .unwrap_or_default()
}

fn find<'d>(deployment: &'d BundleDeployment, r#type: &str) -> Option<&'d Condition> {
    let conditions = &deployment.status.conditions;
    conditions.iter().find(|condition| condition.r#type == r#type)
}

#[cfg(test)]
mod tests;
