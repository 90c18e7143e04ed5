//! What a rollout waits for.

use helmops_api::bundle::{APPROVAL, BundleStatus, HALT};
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
    /// What the rollout in this status waits for, if anything.
    pub fn of(status: &'s BundleStatus) -> Option<Self> {
        let rollout = status.rollout.as_ref()?;
        let final_reason = match &*rollout.waits_for {
            "" => return None,
            APPROVAL => Some(Reason::AwaitingApproval),
            HALT => Some(Reason::RolloutHalted),
            _ => None,
        };
        Some(Self {
            message: &rollout.message,
            final_reason,
        })
    }

    /// The reason for a condition. Nothing is to be approved while clusters are being updated.
    pub fn reason(self, is_updating: bool) -> Option<Reason> {
        self.final_reason
            .filter(|reason| !is_updating || *reason == Reason::RolloutHalted)
    }

    /// The message, before another one that may be empty.
    pub fn before(self, message: &str) -> String {
        if message.is_empty() {
            self.message.to_owned()
        } else {
            format!("{}; {message}", self.message)
        }
    }
}
