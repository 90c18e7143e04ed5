//! `status`, `tree`, `history` and `events`: the state of HelmOps, and why it is so.
//!
//! Objects are read, a report is computed from them, and the report is printed. The states of clusters and objects, the times of
//! polls and the remedies are those of the controller's functions.
//!
//! ```text
//! read ─► Observed ─┬► summary ────────────────────────────────┬► status (a list, or a page for one)
//! live (--watch) ───┤  conditions, clusters, event_log ─► page ┘
//!                   ├► tree
//!                   └► history
//! ```

pub mod clusters;
mod conditions;
mod event_log;
pub mod events;
#[cfg(test)]
pub mod fixture;
pub mod history;
pub mod live;
pub mod next_command;
pub mod page;
mod polling;
pub mod read;
pub mod revisions;
pub mod status;
pub mod style;
pub mod summary;
mod times;
pub mod tree;
