//! helmops on a real API server, with its manifests and permissions as shipped.
//!
//! Each module tests what its name says. Its tests use one of these:
//!
//! - [`harness::beside_fleet`]: a control plane that tests share, with the webhook and the default controllers; each test has a
//!   namespace of its own.
//! - [`harness::standalone`]: another one that tests share, with all controllers; each test has a namespace and clusters of its
//!   own.
//! - [`harness::whole`]: one with everything: webhook, controllers and the agent of the cluster itself.
//! - [`harness::own`]: a control plane for one test, which needs other CRDs or flags, counts requests, restarts the controller or
//!   changes objects of the whole cluster.
//!
//! `cargo test --workspace --test e2e -- polling::` runs the tests of one module.

#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test fails where something is not as expected"
)]

mod harness;

mod admission;
mod policies;

mod oci;
mod polling;
mod rancher_ca;
mod reconcile;
mod repositories;

mod agents;
mod delivery;

mod leader;
mod outage;
mod namespaced;
mod shards;

mod agent;

mod cli;

mod certificates;
mod install;
mod monitoring;
mod notifications;
mod traces;

mod chaos;
