//! The admission webhook: sets defaults of HelmOps, and denies HelmOps that can never work.
//!
//! ```text
//! API server ──HTTPS──► router ──► body ──► review (wire) ──► decide ──► helmops_core::{admit, policy} (the rules)
//! API server ◄──watch── PolicyCache ──────────────────┘
//! API server ◄────────── certificate: the Secret and the caBundle that make the API server trust the webhook
//! ```
//!
//! It writes only these two, and sends no request during an admission request: what it needs besides the request is in memory.

mod args;
mod body;
mod bounded_json;
mod certificate;
mod decide;
mod kube_client;
mod metrics;
mod reference;
mod review;
mod router;
mod run;
mod trace;

pub use args::Args;
pub use reference::reference;
pub use run::run;
