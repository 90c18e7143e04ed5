//! In which order clusters get what is new, and how many at once.

mod limit;
mod partition;
mod plan;

pub use self::{
    limit::{InvalidAmount, limit},
    plan::{PartitionRound, PlanError, Rollout, RolloutStep, plan},
};

use crate::api::BundleDeployment;

/// Whether a deployment does not do its work: what the agent is to deploy is not deployed, or not ready.
pub fn is_unavailable(deployment: &BundleDeployment) -> bool {
    let (spec, status) = (&deployment.spec, &deployment.status);
    status.applied_deployment_id != spec.deployment_id || !status.ready
}
