//! What the controller costs: HelmOps that are there when it starts, until all of them have their Bundle and status.
//!
//! Beside it a plain client does the same writes, with nothing around them: what the API server makes possible.

pub mod scenario;

pub mod run;
pub mod report;
