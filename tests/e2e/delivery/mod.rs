//! helmops without Fleet: from Bundles to clusters.

mod clusters;
mod behind;
mod rollout;
mod secrets;
mod targets;
