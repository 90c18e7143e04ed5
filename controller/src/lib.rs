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
mod helmop;
mod metrics;
mod policies;
mod rancher_ca;
mod resolve;
mod run;
mod workers;

pub use args::Args;
pub use run::run;
