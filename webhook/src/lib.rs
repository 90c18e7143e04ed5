//! The admission webhook: sets defaults of HelmOps, and denies HelmOps that can never work.
//!
//! ```text
//! API server ──HTTPS──► router ──► body ──► review (wire) ──► decide ──► helmops_core::{admit, policy} (the rules)
//! API server ◄──watch── PolicyCache ──────────────────┤
//! API server ◄──reads─── cycles: other HelmOps that one waits for
//! API server ◄────────── certificate: the Secret and the caBundle that make the API server trust the webhook
//! ```
//!
//! It writes only these two. What it needs besides the request is in memory, except for the HelmOps that one waits for: these are read during
//! an admission request that changes what it waits for, and without them it is allowed.

mod args;
mod body;
mod bounded_json;
mod certificate;
mod cycles;
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
