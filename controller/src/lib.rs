//! The controller: it turns HelmOps into Bundles.
//!
//! ```text
//!              ┌──────────── helmop ────────────┐
//! HelmOps ───► │ observe ─► resolve ─► plan ─► apply │ ───► Bundles, status of HelmOps
//! Bundles ───► │     (reads)  (HTTP)   (pure)  (writes) │
//!              └────────────────────────────────┘
//! ```
//!
//! It watches HelmOps, Bundles and Policies, reads Secrets when it uses them, and writes Bundles and the status of HelmOps.

mod args;
mod backoff;
mod client;
mod context;
mod error;
mod events;
mod fleet_metrics;
mod helmop;
mod metrics;
mod resolve;
mod run;
mod watch;
mod workers;
mod written;

pub use args::Args;
pub use run::run;
