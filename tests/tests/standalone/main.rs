//! helmops without Fleet: Bundles are brought to clusters. No agents run; the tests play their part. All tests share one
//! control plane; each has a namespace and clusters of its own.

#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test fails where something is not as told"
)]

mod bed;
mod clusters;
mod rollout;
mod secrets;
mod targets;
