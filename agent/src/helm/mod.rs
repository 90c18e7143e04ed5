//! The runs of Helm for all releases: how many there are at a time, and what is known of earlier ones.

mod crashes;
mod metrics;
mod permits;
mod runs;
mod slow;

pub use self::{
    crashes::Crash,
    metrics::HelmMetrics,
    runs::{HelmMemory, HelmRuns},
};
