//! The status of a BundleDeployment.
//!
//! It is a function of the previous status, the spec, the outcome of the deployment step, and what the monitor observed. It is a
//! report only: no decision depends on it that could not be made again from Helm's records and the live objects.
//!
//! ```text
//! previous status ─► outcome ─► observation, if the desired deployment is applied ─► life cycle ─► status
//! ```

mod blocked;
mod conditions;
mod counts;
mod lifecycle;
mod monitored;
mod observation;
mod outcome;

use bounded_text::excerpt;
use helmops_api::{
    bundle_deployment::{BundleDeploymentSpec, BundleDeploymentStatus},
    timestamp::timestamp,
};
use jiff::Timestamp;

use self::conditions::{ConditionType, Conditions};
pub use self::{
    blocked::Blocked,
    lifecycle::{Progress, TestResult, attempt},
    monitored::{MAX_LISTED, MAX_RESOURCES},
    observation::{Observation, ObservedObject, ReleaseObjects},
    outcome::{Conflict, ConflictingField, DeployOutcome},
};

/// Maximum length of the message of a condition, in bytes. Errors of Helm can list every object of a chart.
const MAX_MESSAGE: usize = 8_192;

/// What a status is computed from.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a> {
    /// The status so far.
    pub previous: &'a BundleDeploymentStatus,
    /// The desired deployment.
    pub spec: &'a BundleDeploymentSpec,
    /// The outcome of the deployment step.
    pub outcome: &'a DeployOutcome,
    /// What the monitor observed. It is used only if [`is_monitored`].
    pub observation: &'a Observation,
    /// The revisions of the release, and its life cycle if the spec has one.
    pub progress: &'a Progress<'a>,
}

/// The new status. Fields that the agent does not write, such as `display`, and conditions of others stay.
pub fn next(inputs: Inputs<'_>, now: Timestamp) -> BundleDeploymentStatus {
    let mut status = inputs.previous.clone();
    let now = timestamp(now);
    if let DeployOutcome::Held(held) = inputs.outcome {
        lifecycle::hold(&mut status, *held, &now);
        return status;
    }
    // Its `downstreamResources` were copied before.
    if matches!(inputs.outcome, DeployOutcome::Deployed { .. }) {
        status.downstream_resources_generation = inputs.spec.downstream_resources_generation;
    }
    outcome::apply(&mut status, inputs.spec, inputs.outcome, inputs.progress, &now);
    if let (DeployOutcome::Unchanged, Some(waiting)) = (inputs.outcome, &inputs.progress.waiting) {
        outcome::awaited(&mut status, waiting, &now);
    }
    let is_restored = matches!(inputs.outcome, DeployOutcome::RolledBack { .. });
    if is_restored || is_monitored(&status, inputs.spec) {
        monitored::apply(&mut status, inputs.spec, inputs.observation, &now);
    }
    lifecycle::apply(&mut status, inputs.spec, inputs.outcome, inputs.progress, &now);
    status
}

/// Whether the objects of the release are those that the spec desires, so that their state is to be reported: the desired deployment
/// is applied, and its installation did not fail.
///
/// Otherwise the status keeps the state of the last good deployment, which is still in place.
pub fn is_monitored(status: &BundleDeploymentStatus, spec: &BundleDeploymentSpec) -> bool {
    status.applied_deployment_id == spec.deployment_id
        && !conditions::is_false(&status.conditions, ConditionType::Installed)
}

/// The condition is `False` with this message.
fn set_false(conditions: &mut Conditions<'_>, r#type: ConditionType, message: impl AsRef<str>) {
    conditions.set(r#type, Some(excerpt(message.as_ref(), MAX_MESSAGE)));
}

#[cfg(test)]
mod tests;
