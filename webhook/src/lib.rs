//! The admission webhook: it fills in defaults of HelmOps and denies what could never work.
//!
//! ```text
//! API server ──HTTPS──► router ──► body ──► review (wire) ──► decide ──► helmops_shared::{admit, policy} (the rules)
//! API server ◄──watch── policies ─────────────────────┘
//! API server ◄────────── certificate: the Secret and caBundle that make it trust the first line
//! ```
//!
//! It writes nothing but those two, and reaches out to nobody while it answers: what it needs beside the request is in
//! memory.

mod args;
mod body;
mod certificate;
mod kube_client;
mod counted;
mod decide;
mod metrics;
mod policies;
mod reference;
mod review;
mod router;
mod run;

pub use args::Args;
pub use reference::reference;
pub use run::run;
