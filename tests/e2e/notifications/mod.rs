//! Alerts: messages about HelmOps, Bundles and Clusters, sent by the notifier with its manifests and permissions.

mod alertmanager;
mod alerts;
mod delivery;
mod fixture;
mod mistakes;
