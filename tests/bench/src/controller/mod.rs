//! Benchmark of the controller: HelmOps exist when it starts, and it runs until all of them have their Bundle and status.
//!
//! For comparison, a plain client does only the same writes: the limit that the API server sets.

pub mod scenario;

pub mod run;
pub mod report;
