//! The order in which clusters are updated, and how many at a time.

mod approval;
mod error;
mod failures;
mod gate;
mod id;
mod limit;
mod partition;
mod plan;

use helmops_api::BundleDeployment;

pub use self::{
    error::PlanError,
    limit::{InvalidAmount, limit},
    plan::{PartitionRound, Rollout, RolloutStep, plan},
};

/// Whether a deployment is unavailable: its deployment ID is not applied, or it is not ready.
pub fn is_unavailable(deployment: &BundleDeployment) -> bool {
    let (spec, status) = (&deployment.spec, &deployment.status);
    status.applied_deployment_id != spec.deployment_id || !status.ready
}
