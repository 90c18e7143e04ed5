//! What Prometheus sees, judged by its own programs.

#![expect(clippy::unwrap_used, reason = "a test fails where something is not as told")]

mod bed;
mod metrics;
