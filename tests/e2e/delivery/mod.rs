//! helmops without Fleet: from Bundles to clusters.

mod clusters;
mod content;
mod artifact;
mod behind;
mod bucket;
mod gates;
mod git;
mod manifests;
mod rollback;
mod rollout;
mod schedules;
mod secrets;
mod targets;
