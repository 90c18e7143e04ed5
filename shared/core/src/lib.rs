//! The functional core of helmops: values in, values out.
//!
//! | module | content |
//! |---|---|
//! | [`validation`] | errors of fields, names and label selectors |
//! | [`expression`] | CEL expressions: whether they are valid, and their evaluation within limits |
//! | [`chart`] | where a chart comes from, the protocol of registries, and which versions are requested |
//! | [`poll`] | when a poll for a newer version is due |
//! | [`targeting`] | from a Bundle to the BundleDeployments and copies for each cluster |
//! | [`agents`] | the accounts of the agents of clusters, and whether they still report |
//! | [`admit`] | whether a HelmOp is valid |
//! | [`policy`] | whether the Policies of its namespace allow it |
//! | [`bundle`] | from a HelmOp and the resolved versions to a Bundle |
//! | [`status`] | what the status of each object reports |
//! | [`reason`] | the closed list of reasons, for all of them |
//!
//! Each module uses only modules above it, and [`reason`]. A lint checks that.
//!
//! Nothing here depends on a client, a clock, a socket or a file: the current time and names are parameters.

#![warn(missing_docs)]

pub mod validation;
pub mod expression;
pub mod chart;
pub mod poll;
pub mod targeting;
pub mod agents;
pub mod admit;
pub mod policy;
pub mod bundle;
pub mod status;

pub mod reason;
