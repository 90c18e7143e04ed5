//! Notifications: messages of Alerts, and pushes that registries announce, with the processes, manifests and permissions of both.

mod alertmanager;
mod alerts;
mod delivery;
mod fixture;
mod google;
mod hostile;
mod memory;
mod mistakes;
mod receiver_suite;
mod receivers;
mod replicas;
