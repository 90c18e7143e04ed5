//! What a rollout waits for.

use helmops_api::bundle::BundleStatus;
use helmops_model::reason::Reason;

/// What partitions wait for that have not started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait<'s> {
    /// What they wait for, and what ends that.
    pub message: &'s str,
    /// The reason for conditions.
    pub reason: Reason,
    /// Whether they wait until a user does something.
    pub is_final: bool,
}

impl<'s> Wait<'s> {
    /// What the rollout in this status waits for, if anything.
    pub fn of(status: &'s BundleStatus) -> Option<Self> {
        let rollout = status.rollout.as_ref()?;
        if rollout.waits_for.is_empty() {
            return None;
        }
        Some(Self {
            message: &rollout.message,
            reason: Reason::NotReady,
            is_final: false,
        })
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
