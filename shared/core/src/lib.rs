//! The functional core of helmops: values in, values out.
//!
//! | module | content |
//! |---|---|
//! | [`chart`] | where a chart comes from, the protocol of registries, and which versions are requested |
//! | [`poll`] | when a poll for a newer version is due |
//! | [`admit`] | whether a HelmOp is valid |
//! | [`policy`] | whether the Policies of its namespace allow it |
//! | [`bundle`] | from a HelmOp and the resolved versions to a Bundle |
//! | [`targeting`] | from a Bundle to the BundleDeployments and copies for each cluster |
//! | [`status`] | what the status of each object reports |
//! | [`reason`] | the closed list of reasons, for all of them |
//!
//! Each module uses only modules above it, except that `bundle` and `targeting` do not use each other, and that `admit` and
//! `targeting` do: `admit` warns about targets without criteria (`targeting::has_criteria`), and `targeting` validates label
//! selectors with `admit`.
//!
//! Nothing here depends on a client, a clock, a socket or a file: the current time and names are parameters.

pub mod chart;
pub mod poll;
pub mod admit;
pub mod policy;
pub mod bundle;
pub mod targeting;
pub mod status;

pub mod reason;
