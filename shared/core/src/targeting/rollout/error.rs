//! Why a rollout cannot be planned.

use thiserror::Error;

use super::limit::InvalidAmount;
use crate::targeting::selector::InvalidSelector;

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
