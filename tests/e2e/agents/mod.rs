//! The agents of clusters, as the management cluster sees them. No agents run; the tests act as agents.

mod accounts;
mod importing;
mod joining;
mod registering;
mod registering_with_fleet;
mod silence;
