//! The functional core of helmops: values in, values out.
//!
//! | module | content |
//! |---|---|
//! | [`api`] | the wire types of Fleet's API |
//! | [`validation`] | errors of fields, names and label selectors |
//! | [`chart`] | sources, versions, indexes and registries of charts, and the selection of a version |
//! | [`poll`] | when a poll for a newer version is due |
//! | [`targeting`] | from a Bundle to the BundleDeployments and copies for each cluster |
//! | [`admit`] | whether a HelmOp is valid |
//! | [`policy`] | whether the Policies of its namespace allow it |
//! | [`bundle`] | from a HelmOp and the resolved versions to a Bundle |
//! | [`status`] | what the status of each object reports |
//! | [`reason`], [`text`] | reasons, and truncated texts, for all of them |
//!
//! Each module uses only modules above it, and [`reason`] and [`text`]. A lint checks that.
//!
//! No module except `runtime` depends on a client, a clock, a socket or a file: the current time and names are parameters.
//! `runtime` has helpers for processes, behind a feature of that name.

pub mod api;
pub mod validation;
pub mod chart;
pub mod poll;
pub mod targeting;
pub mod admit;
pub mod policy;
pub mod bundle;
pub mod status;

pub mod reason;
pub mod text;

#[cfg(feature = "runtime")]
pub mod runtime;
