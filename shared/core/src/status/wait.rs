//! What a rollout waits for, and which reason it gives a condition.

use helmops_api::{
    bundle::{APPROVAL, GATE, HALT, ROLLBACK, RolloutStatus},
    status::BundleSummary,
};
use helmops_model::reason::Reason;

/// What partitions wait for that have not started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait<'s> {
    /// What they wait for, and what ends that.
    pub message: &'s str,
    /// What a user has to do something about; `None` if the rollout goes on by itself.
    pub final_reason: Option<Reason>,
}

impl<'s> Wait<'s> {
    /// What a rollout waits for, if anything.
    pub fn of(rollout: &'s RolloutStatus) -> Option<Self> {
        let final_reason = match &*rollout.waits_for {
            "" => return None,
            HALT => Some(Reason::RolloutHalted),
            ROLLBACK => Some(Reason::RolloutRolledBack),
            // Before that, the clusters are still being updated that a person looks at.
            APPROVAL if !rollout.since.is_empty() => Some(Reason::AwaitingApproval),
            // One that is closed opens by itself.
            GATE if !rollout.since.is_empty() => Some(Reason::GateFailed),
            _ => None,
        };
        Some(Self {
            message: &rollout.message,
            final_reason,
        })
    }

    /// Whether it is the most urgent of all that keeps the rollout from going on.
    pub fn is_halted(self) -> bool {
        matches!(
            self.final_reason,
            Some(Reason::RolloutHalted | Reason::RolloutRolledBack)
        )
    }
}

/// What is known of clusters that are not ready.
#[derive(Clone, Copy, Debug)]
pub struct Unready<'s> {
    /// Their states.
    pub summary: &'s BundleSummary,
    /// What the rollout waits for.
    pub wait: Option<Wait<'s>>,
    /// Whether a setting keeps clusters from being updated, such as `spec.paused`.
    pub is_stopped: bool,
    /// Whether clusters are expected to change by themselves.
    pub is_progressing: bool,
}

impl Unready<'_> {
    /// The reason for the condition `Ready`: what a person has to do first.
    ///
    /// 1. A rollout that is halted or rolled back: it has failed, and nothing goes on.
    /// 2. Clusters that have failed: a person looks at them before anything else gets the change.
    /// 3. A setting that stops the rollout: an approval would have no effect.
    /// 4. An approval, or a gate that cannot be evaluated. A partition waits for its gate first, so never for both.
    /// 5. Whatever goes on by itself, such as a gate that is closed.
    pub fn reason(self) -> Reason {
        let progress = if self.is_progressing {
            Reason::Progressing
        } else {
            Reason::NotReady
        };
        match self.wait.and_then(|wait| wait.final_reason) {
            Some(reason @ (Reason::RolloutHalted | Reason::RolloutRolledBack)) => reason,
            _ if self.summary.err_applied > 0 => Reason::NotReady,
            Some(reason) if !self.is_stopped => reason,
            _ => progress,
        }
    }
}

/// The texts that are not empty, with `; ` between them.
pub fn joined(texts: &[&str]) -> String {
    let texts: Vec<_> = texts.iter().copied().filter(|text| !text.is_empty()).collect();
    texts.join("; ")
}
