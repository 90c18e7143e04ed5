//! The functional core of helmops: values in, values out.
//!
//! | module | content |
//! |---|---|
//! | [`api`] | the wire types of Fleet's API |
//! | [`chart`] | sources, versions, indexes and registries of charts, and the selection of a version |
//! | [`poll`] | when a poll for a newer version is due |
//! | [`admit`] | whether a HelmOp is valid |
//! | [`policy`] | whether the Policies of its namespace allow it |
//! | [`bundle`] | from a HelmOp and the resolved versions to a Bundle |
//! | [`targeting`] | from a Bundle to the BundleDeployments and copies for each cluster |
//! | [`status`] | what the status of each object reports |
//! | [`reason`], [`text`] | reasons, and truncated texts, for all of them |
//!
//! Each module uses only modules above it, except that `bundle` and `targeting` do not use each other, and that `admit` and
//! `targeting` do: `admit` warns about targets without criteria (`targeting::has_criteria`), and `targeting` validates label
//! selectors with `admit`.
//!
//! No module except `runtime` depends on a client, a clock, a socket or a file: the current time and names are parameters.
//! `runtime` has helpers for processes, behind a feature of that name.

pub mod api;
pub mod chart;
pub mod poll;
pub mod admit;
pub mod policy;
pub mod bundle;
pub mod targeting;
pub mod status;

pub mod reason;
pub mod text;

#[cfg(feature = "runtime")]
pub mod runtime;
