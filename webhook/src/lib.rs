//! The admission webhook: it fills in defaults of HelmOps and denies what could never work.
//!
//! ```text
//! API server ──HTTPS──► router ──► review (wire) ──► decide ──► helmops_shared::admit (the rules)
//! ```
//!
//! It reads nothing but the request and its certificate, writes nothing, and reaches out to nobody.

mod args;
mod decide;
mod metrics;
mod review;
mod router;
mod run;

pub use args::Args;
pub use run::run;
