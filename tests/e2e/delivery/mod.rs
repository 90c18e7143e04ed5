//! helmops without Fleet: from Bundles to clusters.

mod clusters;
mod rollout;
mod secrets;
mod targets;
