//! Schedules: when the clusters that they select may be changed.
//!
//! ```text
//! spec ─► cron ─► window: of one Schedule ─┐
//!                                          ├─► cluster: all that select it, Deny wins ─► status of the Cluster
//! targets ─► which clusters ───────────────┘
//! ```
//!
//! What was read and decided is remembered (`known`): thousands of clusters have few Schedules.
//!
//! `docs/schedules.md` has the rules, and what is different from Fleet.

mod cluster;
pub mod cron;
mod known;
mod status;
mod window;

pub use self::{
    cluster::{ClusterWindows, ScheduleIndex},
    known::KnownWindows,
    status::{Waiting, next_status},
    window::{WindowState, Windows, errors},
};
