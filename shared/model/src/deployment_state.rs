//! The state of a deployment: one Bundle on one cluster.

use helmops_api::{
    BundleDeployment, Condition,
    status::{BundleSummary, NonReadyResource, number},
};

/// The state of a deployment, from best to worst. The order is Fleet's rank: the worst state of any deployment is shown for
/// all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DeploymentState {
    /// Deployed and ready.
    Ready,
    /// Deployed, but some objects are not ready.
    NotReady,
    /// The cluster is targeted, but the rollout has not reached it yet.
    Pending,
    /// Held back by the rollout: the cluster is ready with the previous deployment.
    OutOfSync,
    /// Deployed, and modified on the cluster since.
    Modified,
    /// Waiting to be deployed by the agent.
    WaitApplied,
    /// Not deployed until what it depends on is in an accepted state. Fleet has it since 0.16.2 (fleet#5549).
    WaitingForDependency,
    /// The deployment failed.
    ErrApplied,
}

impl DeploymentState {
    /// Every state, from best to worst.
    pub const ALL: [Self; 8] = [
        Self::Ready,
        Self::NotReady,
        Self::Pending,
        Self::OutOfSync,
        Self::Modified,
        Self::WaitApplied,
        Self::WaitingForDependency,
        Self::ErrApplied,
    ];

    /// The state as in the API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "Ready",
            Self::NotReady => "NotReady",
            Self::Pending => "Pending",
            Self::OutOfSync => "OutOfSync",
            Self::Modified => "Modified",
            Self::WaitApplied => "WaitApplied",
            Self::WaitingForDependency => "WaitingForDependency",
            Self::ErrApplied => "ErrApplied",
        }
    }

    /// The state of an existing deployment.
    ///
    /// `Deployed` counts also if the deployment ID is applied, unlike in Fleet: the values of references and requests to deploy again are no
    /// part of that ID, so that another attempt may be awaited or have failed.
    ///
    /// The reason of `Deployed` shows whether it is a wait or a failure: an agent of an older Fleet has another one for both, and a controller of an
    /// older Fleet does not read it. Then both are `ErrApplied`, as they were before.
    pub fn of(deployment: &BundleDeployment) -> Self {
        let (spec, status) = (&deployment.spec, &deployment.status);
        let deployed = find(deployment, "Deployed");
        let reason = deployed.map_or("", |deployed| &deployed.reason);
        let deployed = deployed.map_or("", |deployed| &deployed.status);
        if spec.deployment_id.is_empty() && !spec.staged_deployment_id.is_empty() {
            // It is staged, but not promoted yet. Fleet reports `WaitApplied`, as if its agent were deploying.
            Self::Pending
        } else if deployed == "False" && reason == Self::WaitingForDependency.as_str() {
            Self::WaitingForDependency
        } else if deployed == "False" {
            Self::ErrApplied
        } else if status.applied_deployment_id != spec.deployment_id || deployed == "Unknown" {
            Self::WaitApplied
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

/// Number of deployments in a state.
///
/// CRDs of a Fleet before 0.16.2 drop the number of those that wait for dependencies. The examples show at least one of them.
pub fn count(summary: &BundleSummary, state: DeploymentState) -> i64 {
    match state {
        DeploymentState::Ready => summary.ready.unwrap_or_default(),
        DeploymentState::NotReady => summary.not_ready,
        DeploymentState::Pending => summary.pending,
        DeploymentState::OutOfSync => summary.out_of_sync,
        DeploymentState::Modified => summary.modified,
        DeploymentState::WaitApplied => summary.wait_applied,
        DeploymentState::WaitingForDependency => {
            let examples = &summary.non_ready_resources;
            let is_one = |one: &&NonReadyResource| one.bundle_state == state.as_str();
            let shown = number(examples.iter().filter(is_one).count());
            summary.waiting_for_dependency.max(shown)
        }
        DeploymentState::ErrApplied => summary.err_applied,
    }
}

/// The message of the agent about a deployment; may be empty.
///
/// `Installed` is about the last applied deployment, so it is used only if that is the desired one.
pub fn message(deployment: &BundleDeployment) -> &str {
    let is_applied = deployment.status.applied_deployment_id == deployment.spec.deployment_id;
    [("Deployed", true), ("Installed", is_applied), ("Monitored", true)]
        .into_iter()
        .filter_map(|(r#type, is_used)| find(deployment, r#type).filter(|_| is_used))
        .map(|condition| &*condition.message)
        .find(|message| !message.is_empty())
        .unwrap_or_default()
}

/// Whether what is wanted is deployed and ready, and no other attempt with it has failed or is awaited.
pub fn is_up_to_date(deployment: &BundleDeployment) -> bool {
    has_deployed(deployment, &deployment.spec.deployment_id)
}

/// Whether this deployment ID is deployed and ready, and no other attempt with it has failed or is awaited.
pub fn has_deployed(deployment: &BundleDeployment, id: &str) -> bool {
    let status = &deployment.status;
    status.applied_deployment_id == id && status.ready && !has_open_attempt(deployment)
}

/// Whether an attempt to deploy what is wanted has failed, or has not ended: with an applied deployment ID that is another attempt, as in
/// [`DeploymentState::of`].
fn has_open_attempt(deployment: &BundleDeployment) -> bool {
    find(deployment, "Deployed").is_some_and(|deployed| matches!(&*deployed.status, "False" | "Unknown"))
}

fn find<'d>(deployment: &'d BundleDeployment, r#type: &str) -> Option<&'d Condition> {
    Condition::find(&deployment.status.conditions, r#type)
}

#[cfg(test)]
mod tests;
