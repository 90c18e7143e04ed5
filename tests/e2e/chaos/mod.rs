//! Controllers are killed at random times.

mod helmops;
mod rollouts;
