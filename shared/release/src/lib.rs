//! The functional core of the agent: what a BundleDeployment requires of a Helm release, and what is to be reported of it.
//!
//! Values in, values out: the current time and names are parameters, and nothing here reads a clock, a file or a socket.

pub mod drift;
pub mod health;
pub mod object;
pub mod report;
