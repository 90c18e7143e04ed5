//! Computes statuses, conditions and events.
//!
//! The status of a HelmOp depends on whether it is accepted, and on the state of its Bundle on each cluster. The
//! BundleDeployments, one for each cluster, report the latter:
//!
//! ```text
//! deployments ─► state ─► summary ─► ready_message ─► ready ─► condition
//! sorted by               display    one line         status
//! cluster     ─► objects ─► resources and counts, within a budget
//! ```

mod budget;
mod bundle;
mod cluster;
mod deployments;
mod events;
#[cfg(test)]
mod fixture;
mod helmop;
mod lifecycle;
mod no_clusters;
mod non_ready;
mod notices;
pub mod objects;
mod polling;
mod ready;
mod ready_message;
mod resources;
mod rollup;
mod summary;
mod wait;

pub use helmops_api::{merge_patch::change, timestamp::timestamp};

pub use self::{
    bundle::{RolloutRound, TargetStatus, bundle},
    cluster::{cluster, is_refused, is_silent, last_seen, refused_cluster},
    deployments::{Deployment, DeploymentName, ObservedDeployment, by_cluster, helmop_of},
    events::{bundle_events, events, lifecycle_unsupported, unusable},
    helmop::{ReconcileOutcome, next, without_extras},
    notices::{Notices, notices},
    polling::{PollAttempt, PollFailure, Polling, is_recorded_later},
    rollup::BundleState,
};
