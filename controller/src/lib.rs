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
//! Charts with `deliver: Content` ─► Contents, which agents read; and their collection
//! Clusters ─► namespace and account of each, its status: counts, and whether its Schedules let it be changed now
//! Clusters with a kubeconfig ─► the agent on the cluster that it opens
//! Schedules ─► their status
//! ClusterRegistrationTokens, ClusterRegistrations ─► Clusters of agents that register themselves, if enabled
//! ```
//!
//! It watches these resources and all that they depend on. Of several replicas, only the leader reconciles: it holds a Lease. The
//! others fill their caches and are ready to take over.

mod api_server;
mod args;
mod bundle;
mod cluster;
mod content;
mod context;
mod debounce;
mod fleet_metrics;
mod helmop;
mod import;
mod loops;
mod memory;
mod metrics;
mod notice_metrics;
mod own_status;
mod parts;
mod pruned;
mod reference;
mod registration;
mod run;
mod schedule;
mod watch;
mod work;
mod writes;

pub use args::Args;
pub use reference::reference;
pub use run::run;
