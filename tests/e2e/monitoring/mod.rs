//! The metrics, alerts and dashboard, checked with Prometheus and promtool.

mod alerts;
mod monitored;
mod metrics;
