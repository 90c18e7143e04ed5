//! A webhook that keeps its own certificate: issued in the process, shared by all replicas, trusted before it is served.
//!
//! ```text
//!                    ┌──────────── watch ────────────┐
//! Secret ──watch──► Sight ──► plan ──► Step ──► mint ──► Secret (create, or update of the version that was seen)
//! configurations ──► │          ├────► caBundle ───────► both webhook configurations (server-side apply)
//!                    │          └────► HotPair ────────► TLS handshakes
//!                 what is so,
//!                 since when
//! ```
//!
//! `sight`, `plan` and `mint` reach for nothing: what is seen and both clocks are parameters. Every replica runs the same
//! loop; whoever is first changes the Secret, and the API server refuses all others by its version. What is in the Secret
//! says how far a rotation has come, so that any replica goes on where another was killed.

mod api;
mod args;
mod bundle;
mod inject;
mod lifetimes;
mod metrics;
mod mint;
mod pace;
mod plan;
mod run;
mod sight;
#[cfg(test)]
mod simulation;
mod store;
mod stored;
mod telling;
#[cfg(test)]
mod tests;

pub use args::{ManagedArgs, Settings, SettingsError};
pub use lifetimes::LifetimeError;
pub use metrics::ManagedMetrics;
pub use run::CertificateManager;
