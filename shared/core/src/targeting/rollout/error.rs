//! Why a rollout cannot be planned.

use helmops_model::selector::InvalidSelector;
use thiserror::Error;

use super::limit::InvalidAmount;

/// An invalid rollout strategy.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum PlanError {
    /// An amount is neither a number nor a percentage.
    #[error("rolloutStrategy: {0}")]
    Amount(#[from] InvalidAmount),
    /// The selector of a partition is invalid.
    #[error(transparent)]
    Selector(#[from] InvalidSelector),
}
