//! Notifications: messages of Alerts, and pushes that registries announce, with the processes, manifests and permissions of both.

mod alertmanager;
mod alerts;
mod delivery;
mod fixture;
mod google;
mod mistakes;
mod receivers;
mod replicas;
