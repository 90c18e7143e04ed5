//! helmops without Fleet: from Bundles to clusters.

mod clusters;
mod behind;
mod rollout;
mod schedules;
mod secrets;
mod targets;
