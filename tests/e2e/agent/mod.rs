//! The agent: what it does with Helm. No agent runs; the tests call its modules.

mod engine;
mod failures;
mod interruptions;
mod releases;
