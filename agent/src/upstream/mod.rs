//! The management cluster: access to it, and what the agent reads and writes there.

mod access;
mod credential;
mod find;
mod guard;
pub mod heartbeat;
mod register;
mod remembered;
mod removal_metrics;
mod token;

pub use self::{
    find::Upstream,
    guard::{Deleted, GuardError, NamespaceGuard, Refusal},
    register::Registrar,
    removal_metrics::RemovalMetrics,
};
