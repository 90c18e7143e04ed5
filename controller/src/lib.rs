//! The controller: it turns HelmOps into Bundles.
//!
//! ```text
//!              ┌──────────── helmop ────────────┐
//! HelmOps ───► │ observe ─► resolve ─► plan ─► apply │ ───► Bundles, status of HelmOps
//! Bundles ───► │     (reads)  (HTTP)   (pure)  (writes) │
//!              └────────────────────────────────┘
//! ```
//!
//! It watches HelmOps and Bundles, reads Secrets when it uses them, and writes Bundles and the status of HelmOps. Of several
//! replicas one does so, which holds a Lease; the others watch, and are ready to take its place.

mod args;
mod backoff;
mod client;
mod context;
mod error;
mod helmop;
mod lease;
mod metrics;
mod rancher_ca;
mod resolve;
mod run;
mod workers;

pub use args::Args;
pub use run::run;
