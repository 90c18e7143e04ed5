//! The functional core of helmops: values in, values out.
//!
//! | module | content |
//! |---|---|
//! | [`poll`] | when a poll for a newer version is due |
//! | [`targeting`] | from a Bundle to the BundleDeployments and copies for each cluster |
//! | [`schedule`] | when the clusters that Schedules select may be changed |
//! | [`agents`] | the accounts of the agents of clusters, and whether they still report |
//! | [`admit`] | whether a HelmOp is valid |
//! | [`policy`] | whether the Policies of its namespace allow it |
//! | [`bundle`] | from a HelmOp and the resolved versions to a Bundle |
//! | [`status`] | what the status of each object reports |
//! | [`content`] | which Contents nothing refers to any more |
//! | [`registration`] | which clusters may register themselves, and what their agents get |
//!
//! Each module uses only modules above it, and `helmops_model`.
//!
//! Nothing here depends on a client, a clock, a socket or a file: the current time and names are parameters.

#![warn(missing_docs)]

pub mod poll;
pub mod targeting;
pub mod schedule;
pub mod agents;
pub mod admit;
pub mod policy;
pub mod bundle;
pub mod status;
pub mod content;
pub mod registration;
