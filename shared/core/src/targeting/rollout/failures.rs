//! Whether a rollout is halted because it has failed on too many clusters.

use bounded_text::numbered;
use helmops_api::{Bundle, labels, rollout::FailurePolicy, status::number};

use super::{approval::command_of, error::PlanError, limit::at_most};
use crate::targeting::target::Target;

/// How far a rollout has failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Failures {
    /// On how many clusters it has failed at most. It never decreases: a cluster that recovers shows nothing about the next ones.
    pub failed: usize,
    /// On how many it may.
    pub allowed: usize,
}

impl Failures {
    /// The failures of a rollout with this ID. `known` is their number in earlier rounds.
    ///
    /// # Errors
    /// If the policy has an amount that is neither a number nor a percentage.
    pub fn of(
        bundle: &Bundle,
        id: &str,
        policy: &FailurePolicy,
        targets: &[Target<'_>],
        known: usize,
    ) -> Result<Self, PlanError> {
        let allowed = match &policy.max_failed {
            Some(amount) => at_most(targets.len(), amount)?,
            None => 0,
        };
        Ok(Self {
            failed: targets
                .iter()
                .filter(|target| has_failed(target))
                .count()
                .max(known),
            allowed: allowed.max(resumed(bundle, id)),
        })
    }

    /// Whether no further cluster is updated.
    pub const fn are_too_many(self) -> bool {
        self.failed > self.allowed
    }

    /// Why nothing goes on, what follows from that, and what ends it.
    pub fn message(self, bundle: &Bundle, id: &str, consequence: &str) -> String {
        let Self { failed, allowed } = self;
        let command = resume_command(bundle, id, number(failed));
        format!(
            "the rollout is halted: it has failed on {}, of at most {allowed} (spec.rolloutStrategy.onFailure.maxFailed){consequence}; correct the \
             chart or its values, or go on with: {command}",
            numbered(failed, "cluster")
        )
    }
}

/// Whether the desired deployment of a cluster has failed there. One that failed before is another one, and what is ready was deployed: a
/// later attempt, such as with other values of references, is no part of the rollout.
pub fn has_failed(target: &Target<'_>) -> bool {
    let Some((desired, existing)) = target.desired.as_ref().ok().zip(target.existing) else {
        return false;
    };
    let status = &existing.status;
    let is_deployed = status.applied_deployment_id == desired.id && status.ready;
    existing.spec.deployment_id == desired.id && status.failed_deployment_id == desired.id && !is_deployed
}

/// The command with which a user accepts that a rollout has failed on so many clusters: [`resumed`] reads what it writes.
pub fn resume_command(bundle: &Bundle, id: &str, failed: i64) -> String {
    let value = format!("{id}/{failed}");
    command_of(bundle, "rollout resume", labels::RESUMED_ROLLOUT, &value)
}

/// The number of failed clusters with which a user has resumed the rollout.
pub fn resumed(bundle: &Bundle, id: &str) -> usize {
    let number = labels::annotation(&bundle.metadata, labels::RESUMED_ROLLOUT)
        .and_then(|value| value.split_once('/'))
        .filter(|(resumed, _)| *resumed == id)
        .and_then(|(_, number)| number.parse().ok());
    number.unwrap_or_default()
}
