//! The agent of a cluster.
//!
//! It reads the BundleDeployments of its cluster's namespace in the management cluster, keeps the Helm releases that they
//! describe, and reports their state.
//!
//! ```text
//! upstream: BundleDeployments ─┐                        ┌─► inputs, charts ─► helm (child process)
//! records of releases ─────────┼─► triggers ─► reconcile ┼─► monitor: live objects against the manifest
//! live objects ────────────────┘                        └─► the status of the BundleDeployment
//! ```

pub mod args;
pub mod charts;
mod collect;
mod context;
pub mod crds;
mod deployments;
mod error;
mod events;
mod folders;
pub mod helm;
mod inputs;
mod live;
mod memory;
mod metrics;
mod monitor;
mod operations;
mod owned;
mod pods;
pub mod post_render;
mod reconcile;
pub mod records;
mod reference;
pub mod release_tests;
mod removal;
mod reports;
mod rules;
mod run;
mod running;
mod session;
#[cfg(test)]
mod testing;
mod triggers;
mod upstream;

pub use self::{args::RunArgs, reference::reference, run::run};
