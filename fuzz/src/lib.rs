//! The properties that must hold for any input: one module for each fuzz target.
//!
//! `fuzz/run` builds the targets in `bin` and runs them; each takes bytes and panics if a property does not hold.

pub mod archive;
pub mod challenge;
pub mod constraint;
pub mod git;
pub mod index;
pub mod link;
pub mod yaml;
