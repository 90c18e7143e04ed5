//! The order in which clusters are updated, and how many at a time.

mod approval;
pub mod completed;
mod error;
mod failures;
mod id;
mod limit;
mod partition;
mod partition_gate;
mod plan;
mod waits;

use helmops_api::BundleDeployment;
use helmops_model::deployment_state::is_up_to_date;

pub use self::{
    error::PlanError,
    limit::{InvalidAmount, limit},
    partition_gate::{
        EndpointFailure, Gate, GateEndpoint, GateFacts, GateProblem, GateRequest, GateState, GateStates,
        InvalidGate, PartitionFacts, Verdict,
    },
    plan::{PartitionRound, Rollout, RolloutStep, plan},
};
pub(crate) use self::{
    failures::{resume_command, resumed},
    id::rollout_id,
};

/// Whether a deployment is unavailable: its deployment ID is not applied, another attempt with it has failed or is awaited, or it is not
/// ready.
pub fn is_unavailable(deployment: &BundleDeployment) -> bool {
    !is_up_to_date(deployment)
}
