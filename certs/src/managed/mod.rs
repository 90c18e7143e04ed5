//! A webhook that manages its own certificate: issued in the process, shared by all replicas, trusted before it is served.
//!
//! ```text
//!                    ┌──────────── watch ────────────┐
//! Secret ──watch──► Observed ─► plan ──► Step ─► changes ─► Secret (create, or update of the observed version)
//! configurations ──► │           ├────► caBundle ─────────► both webhook configurations (server-side apply)
//!                    │           └────► CertResolver ─────► TLS handshakes
//!             state, and since when
//! ```
//!
//! `observed`, `plan` and `changes` do no I/O: the observed objects and both clocks are parameters. Every replica runs the same
//! loop. The first replica changes the Secret, and the API server rejects the updates of all others by the resource version.
//! The content of the Secret shows the progress of a rotation, so that any replica continues where another was killed.

mod api;
mod args;
mod bundle;
mod inject;
mod lifetimes;
mod metrics;
mod changes;
mod rate_limiter;
mod plan;
mod run;
mod observed;
#[cfg(test)]
mod simulation;
mod store;
mod stored;
mod transition_log;
#[cfg(test)]
mod tests;

pub use args::{ManagedArgs, Settings, SettingsError};
pub use lifetimes::LifetimeError;
pub use metrics::ManagedMetrics;
pub use run::CertificateManager;
