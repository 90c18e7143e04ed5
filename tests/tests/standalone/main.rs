//! helmops without Fleet: Bundles are delivered to clusters. No agents run; the tests act as agents. All tests share one
//! control plane; each has a namespace and clusters of its own.

#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test fails where something is not as expected"
)]

mod clusters;
mod fixture;
mod rollout;
mod secrets;
mod targets;
