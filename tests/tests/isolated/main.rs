//! Tests that need a control plane of their own: the controller without a webhook in front of it, counts of the API server's
//! requests, other CRDs. They run one at a time, since each starts a whole control plane.

#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test fails where something is not as expected"
)]

mod admit;
mod crds;
mod fixture;
mod namespaced;
mod newer_crds;
mod policies;
mod polling;
mod rancher;
mod shards;
mod status;
mod writes;
