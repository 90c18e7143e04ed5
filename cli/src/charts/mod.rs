//! `resolve`, `versions` and `outdated`: which versions of its charts a HelmOp gets, and why.
//!
//! Versions are resolved by the resolver of the controller, with the Secret and the Policies of the HelmOp.
//!
//! ```text
//! flags, file, cluster ─► subject (a HelmOp) ─► fetcher (the controller's resolver) ─► explanation ─► candidates ─► table
//!                            └─► recorded versions, polls ─► uptake (when the controller takes it)
//! ```

pub mod candidates;
pub mod fetcher;
pub mod listing;
pub mod outdated;
pub mod report;
pub mod resolve;
pub mod subject;
pub mod uptake;
pub mod versions;

#[cfg(test)]
mod tests;
