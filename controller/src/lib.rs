//! The controller: it turns HelmOps into Bundles, and Bundles into BundleDeployments for each cluster.
//!
//! ```text
//!            ┌─────────────── helmop ────────────────┐
//! HelmOps ─► │ observe ─► resolve ─► plan ─► apply   │ ─► Bundles, status of HelmOps
//!            │ (reads)    (HTTP)     (pure)  (writes)│
//!            └───────────────────────────────────────┘
//!            ┌─────────────── bundle ────────────────┐
//! Bundles ─► │ observe ─► rollout ─► deliver         │ ─► BundleDeployments and copies, status of Bundles
//!            │ (reads)    (pure)     observe, plan,  │
//!            │                       apply, for each │
//!            │                       cluster         │
//!            └───────────────────────────────────────┘
//! ```
//!
//! It watches these resources and all that they depend on. Of several replicas, only the leader reconciles: it holds a Lease. The
//! others fill their caches and are ready to take over.

mod args;
mod backoff;
mod bundle;
mod client;
mod cluster;
mod compute;
mod context;
mod decode_error;
mod error_class;
mod events;
mod fleet_metrics;
mod helmop;
mod lease_name;
mod loops;
mod memory_limit;
mod metrics;
mod pending_writes;
mod pruned;
mod queue;
mod rate;
mod reconciler;
mod reference;
mod resolve;
mod retry_state;
mod run;
mod shares;
mod watch;
mod work;
mod workers;
mod writes;

pub use args::Args;
pub use reference::reference;
pub use run::run;
