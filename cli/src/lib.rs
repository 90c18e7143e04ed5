//! `kubectl helmop`: looks before a HelmOp is applied, and shows why one is stuck.
//!
//! Decisions are those of the webhook, the controller and the agent: commands call the same functions. Each command is a file or a
//! folder: it has its arguments, reads from the cluster or from files, computes a value, and renders it.
//!
//! ```text
//! arguments ─► run ─► a command ─► cluster (kubeconfig, objects) ─► a value ─► terminal (table, colors), or output (JSON, YAML, names)
//! ```

#![warn(clippy::print_stderr)]
#![allow(
    clippy::large_futures,
    reason = "a command is one future on one thread: its size is that of a stack frame of main"
)]

pub mod arguments;
pub mod check;
pub mod changes;
pub mod charts;
pub mod cluster;
pub mod clusters;
pub mod commands;
pub mod create;
pub mod diff;
pub mod failure;
pub mod output;
mod reference;
pub mod render;
pub mod run;
pub mod state;
pub mod terminal;
pub mod tokens;
pub mod ui;
pub mod validate;

pub use self::{reference::reference, run::main};
