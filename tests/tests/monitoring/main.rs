//! What Prometheus sees, judged by its own programs.

#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test fails where something is not as told"
)]

mod alerts;
mod bed;
mod metrics;
