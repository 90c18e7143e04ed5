//! The agent of a cluster.
//!
//! It reads the BundleDeployments of its cluster's namespace in the management cluster, keeps the Helm releases that they
//! describe, and reports their state.

pub mod helm;
pub mod post_render;
