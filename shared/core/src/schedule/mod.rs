//! Schedules: when the clusters that they select may be changed.
//!
//! ```text
//! spec ─► cron ─► window: of one Schedule ─┐
//!                                          ├─► cluster: all that select it, Deny wins ─► status of the Cluster
//! targets ─► which clusters ───────────────┘
//! ```
//!
//! `docs/schedules.md` has the rules, and what is different from Fleet.

mod cluster;
pub mod cron;
mod status;
mod window;

pub use self::{
    cluster::{ClusterWindows, Schedules},
    status::{Waiting, next_status},
    window::{WindowState, Windows, errors},
};
