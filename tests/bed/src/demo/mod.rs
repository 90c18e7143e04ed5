//! `make demo`: the main features, step by step, with the commands that a user would type and their output.

mod scenario;
mod session;

pub use scenario::run;
