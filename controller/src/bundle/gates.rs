//! Evaluates the gates of a rollout, as far as a plan needs them.

use helmops_api::Bundle;
use helmops_core::targeting::{self, GateStates, Rollout, Target, rollout::PlanError};
use helmops_runtime::{
    compute,
    workers::{Interrupted, WorkerPermit},
};
use k8s_openapi::jiff::Timestamp;

use crate::context::Context;

/// Plans a round: again, as long as it depends on a gate that is not evaluated yet.
///
/// # Errors
/// If the process stops or loses leadership meanwhile.
pub async fn plan(
    context: &Context,
    bundle: &Bundle,
    targets: &[Target<'_>],
    permit: &mut WorkerPermit,
) -> Result<Result<Rollout, PlanError>, Interrupted> {
    let mut gates = GateStates::default();
    loop {
        let rollout = match targeting::plan(bundle, targets, &gates, Timestamp::now()) {
            Ok(rollout) => rollout,
            Err(error) => return Ok(Err(error)),
        };
        let Some(request) = &rollout.required_gate else {
            return Ok(Ok(rollout));
        };
        let compute_permit = context.compute.permit(permit).await?;
        let state = compute::run(&compute_permit, || request.evaluate(Timestamp::now()));
        gates.add(request.partition, state);
    }
}
