//! What to report.
//!
//! A HelmOp's status comes of two things: whether it is accepted, and what became of its Bundle on each cluster. The
//! second is told by the BundleDeployments, one for each cluster:
//!
//! ```text
//! deployments ─► state ─► summary ─► ready_message ─► ready ─► condition
//! in the order            display    one line         true?
//! of clusters ─► objects ─► resources and counts, within a budget
//! ```

mod budget;
mod bundle;
mod cluster;
mod condition;
mod deployments;
mod events;
#[cfg(test)]
mod fixture;
mod helmop;
mod non_ready;
mod objects;
mod patch;
mod polling;
mod ready;
mod ready_message;
mod resources;
mod rollup;
mod state;
mod summary;

pub use self::{
    bundle::{RolloutRound, TargetStatus, bundle},
    cluster::{cluster, is_refused, refused_cluster},
    condition::{ConditionType, State},
    deployments::helmop_of,
    events::{Event, bundle_events, events, unreadable},
    helmop::{Outcome, next, without_extras},
    patch::change,
    polling::{Failure, PollAttempt, Polling},
    rollup::BundleState,
    state::DeploymentState,
};
