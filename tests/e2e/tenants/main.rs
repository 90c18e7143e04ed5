//! One tenant attacks while another creates HelmOps: nothing that a tenant, a repository, a registry or a downstream cluster
//! sends may delay the other tenant, exceed the memory limit of the pod, or show the other tenant's secrets.
//!
//! The suite starts one control plane for each mode and runs one attack at a time in it. During an attack it measures three things:
//! the time until a HelmOp of the other tenant is deployed, the responses of `/livez`, and the peak memory of both processes.
//! The memory limits and the probes are those of the manifests. A process that exceeds its limit is killed, as the kernel does.
//! Afterwards the suite searches logs, objects, events and metrics for the secrets of the other tenant.
//!
//! `cargo test --workspace --test tenants -- --nocapture` prints one line of figures for each attack.

#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test fails where something is not as expected"
)]

mod attack;
mod cleanup;
mod environment;
mod hostile_server;
mod leaks;
mod limits;
mod neighbour;
mod watchdog;
mod write_latency;

mod addresses;
mod admission_reviews;
mod clusters;
mod metadata;
mod metrics;
mod objects;
mod policies;
mod ports;
mod registries;
mod repositories;
mod targets;
mod templates;
