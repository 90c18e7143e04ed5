//! helmops on a real API server, with its manifests and permissions as shipped. All tests share one control plane; each has
//! a namespace of its own.

#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test fails where something is not as expected"
)]

mod admit;
mod fleet;
mod policies;
mod polling;
mod reconcile;
mod registry;
mod resolve;
mod suite;
