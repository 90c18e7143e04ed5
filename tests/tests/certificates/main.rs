//! The webhook keeps its own certificate, as its own ServiceAccount, on a real API server that asks it through a balancer.
//! Each test has a control plane of its own.
//!
//! `HELMOPS_SOAK_SECONDS` says how long the soak takes.

#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test fails where something is not as told"
)]

mod balancer;
mod bed;
mod damage;
mod first;
mod rotation;
mod soak;
