//! The agent: what it does with Helm, by calls of its modules, and what the running process reports.

mod engine;
mod failures;
mod interruptions;
mod releases;
mod reports;
