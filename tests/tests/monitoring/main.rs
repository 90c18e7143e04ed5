//! The metrics, alerts and dashboard, checked with Prometheus and promtool.

#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test fails where something is not as expected"
)]

mod alerts;
mod bed;
mod metrics;
