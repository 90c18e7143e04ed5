//! Why a rollout cannot be planned.

use go_formats::duration::DurationError;
use helmops_api::limits::GATES;
use helmops_model::selector::InvalidSelector;
use thiserror::Error;

use super::{limit::InvalidAmount, partition_gate::InvalidGate};

/// An invalid rollout strategy.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum PlanError {
    /// An amount is neither a number nor a percentage.
    #[error("rolloutStrategy: {0}")]
    Amount(#[from] InvalidAmount),
    /// The selector of a partition is invalid.
    #[error(transparent)]
    Selector(#[from] InvalidSelector),
    /// The gate of a partition is invalid.
    #[error("rolloutStrategy.partitions: {0}")]
    Gate(#[from] InvalidGate),
    /// Too many partitions have a gate.
    #[error("rolloutStrategy.partitions: at most {GATES} partitions may have a gate; remove some")]
    ManyGates,
    /// A soak is not a duration.
    #[error("rolloutStrategy: {0}")]
    Soak(#[from] InvalidSoak),
}

/// A soak that is not a duration.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("soak {text:?}: {error}; write a duration such as 30m or 24h")]
pub struct InvalidSoak {
    /// The text.
    pub text: String,
    /// Why it is none.
    pub error: DurationError,
}
