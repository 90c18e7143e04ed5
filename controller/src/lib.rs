//! The controller: it turns HelmOps into Bundles, and Bundles into what is deployed on each cluster.
//!
//! ```text
//!            ┌────────────── helmop ───────────────┐
//! HelmOps ─► │ observe ─► resolve ─► plan ─► apply │ ─► Bundles, status of HelmOps
//!            │ (reads)    (HTTP)    (pure)  (writes) │
//!            └─────────────────────────────────────┘
//!            ┌────────────── bundle ───────────────┐
//! Bundles ─► │ observe ─► roll-out ─► deliver      │ ─► BundleDeployments and copies, status of Bundles
//!            │ (reads)     (pure)    (writes)      │
//!            └─────────────────────────────────────┘
//! ```
//!
//! It watches them and what concerns them. Of several replicas one works, which holds a Lease; the others watch, and are ready
//! to take its place.

mod args;
mod backoff;
mod bundle;
mod client;
mod cluster;
mod compute;
mod context;
mod error;
mod events;
mod fleet_metrics;
mod helmop;
mod lease;
mod loops;
mod memory;
mod memory_limit;
mod metrics;
mod queue;
mod rate;
mod reference;
mod resolve;
mod run;
mod shares;
mod watch;
mod work;
mod workers;
mod writes;
mod written;

pub use args::Args;
pub use reference::reference;
pub use run::run;
