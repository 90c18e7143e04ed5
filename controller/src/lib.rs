//! The controller: it turns HelmOps into Bundles.
//!
//! ```text
//!              ┌──────────── helmop ────────────┐
//! HelmOps ───► │ observe ─► resolve ─► plan ─► apply │ ───► Bundles, status of HelmOps
//! Bundles ───► │     (reads)  (HTTP)   (pure)  (writes) │
//!              └────────────────────────────────┘
//! ```
//!
//! It watches HelmOps, their Bundles, BundleDeployments, Secrets and Policies, and writes Bundles, the status of HelmOps and
//! events. Of several replicas one does so, which holds a Lease; the others watch, and are ready to take its place.

mod args;
mod backoff;
mod bundle;
mod client;
mod cluster;
mod context;
mod error;
mod events;
mod fleet_metrics;
mod helmop;
mod lease;
mod loops;
mod memory;
mod metrics;
mod queue;
mod resolve;
mod run;
mod watch;
mod work;
mod workers;
mod written;

pub use args::Args;
pub use run::run;
