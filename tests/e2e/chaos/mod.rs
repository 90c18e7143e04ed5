//! Controllers and agents are killed at random times.

mod agent;
mod helmops;
mod rollouts;
