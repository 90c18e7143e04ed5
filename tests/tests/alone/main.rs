//! What needs a control plane of its own: the controller without a webhook in front of it, counts of the API server's
//! requests, other definitions of the kinds. One at a time, since each is a whole control plane.

#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test fails where something is not as told"
)]

mod admit;
mod bed;
mod definitions;
mod namespaced;
mod policies;
mod polling;
mod rancher;
mod shards;
mod telling;
mod writes;
