//! What the pages show, as values: computed from objects, without I/O.

pub mod clusters;
pub mod helmop;
pub mod helmops;
mod parts;
pub mod rollout;
mod waits;
