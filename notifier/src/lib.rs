//! The notifier: it sends the messages of Alerts, and polls HelmOps whose charts registries announce to Receivers.
//!
//! ```text
//! HelmOps, Bundles, Clusters ─► watch (their states) ─┐
//! Alerts, AlertProviders, Receivers, Secrets ─────────┴─► queue ─► alert, provider, receiver: a reconciler for each kind
//!                                                           ▲        │
//!                                                           └─ send ◄┘ messages
//! ```
//!
//! It is a process of its own, so that a dead endpoint, many messages or their credentials never touch the controller. Of several
//! replicas, only the leader works: it holds a Lease. The others fill their caches and are ready to take over.

mod alert;
mod args;
mod context;
mod failures;
mod loops;
mod memory;
mod metrics;
mod outbox;
mod permits;
mod provider;
mod published;
mod receiver;
mod reference;
mod run;
mod send;
#[cfg(test)]
mod testing;
mod watch;
mod work;

pub use args::Args;
pub use reference::reference;
pub use run::run;
