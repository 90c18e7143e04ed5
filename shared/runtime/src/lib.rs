//! What the reconciliation loops of helmops processes have in common.
//!
//! ```text
//!           triggers            permits                  get, pending writes, decode
//! watches ───────────► queue ◄────────── workers    ┌──► reconciler ──► the reconciler of a kind ─┐
//!                        │                          │                   (client, writes, events)  │
//!                        └──── one task for each ───┘                                             │
//!                        ▲     object                                                             │
//!                        └───────────── retry_state ◄── error_class, or success ◄─────────────────┘
//!                                       (backoff, pending_writes)      
//! ```
//!
//! Nothing here knows HelmOps, Bundles or Clusters: a process has its own kinds, its own items in the workqueue, and an
//! implementation of [`reconciler::Reconciler`] for each kind.

#![warn(missing_docs)]

pub mod backoff;
pub mod client;
pub mod compute;
pub mod decode_error;
pub mod election;
pub mod error_class;
pub mod events;
pub mod health_signals;
pub mod metrics;
pub mod pages;
pub mod pending_writes;
pub mod queue;
pub mod reconciler;
pub mod retry_state;
pub mod store_budget;
pub mod workers;
pub mod writes;
