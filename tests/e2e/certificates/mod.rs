//! The webhook manages its own certificate, with its own ServiceAccount, on a real API server that calls it through a load
//! balancer. Each test has its own control plane.
//!
//! `HELMOPS_SOAK_SECONDS` is the duration of the soak test.

mod balancer;
mod bed;
mod repair;
mod rotation;
mod soak;
mod startup;
