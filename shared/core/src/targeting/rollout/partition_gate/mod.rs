//! The gate of a partition: what has to be true before it begins.
//!
//! ```text
//! plan ─► GateRequest ─► evaluated at the edge ─► GateState ─► plan again
//! ```
//!
//! A plan names the one gate that decides how it goes on. So a gate is evaluated only when nothing else keeps its partition from beginning.

mod facts;
mod state;

use helmops_api::rollout::PartitionGate;
use helmops_model::expression::{EvaluationError, Expression, ExpressionError};
use thiserror::Error;

pub use self::{
    facts::{GateFacts, PartitionFacts},
    state::{GateRequest, GateState, GateStates, Verdict},
};

/// A valid gate.
#[derive(Clone, Debug, PartialEq)]
pub enum Gate {
    /// An expression over [`GateFacts`].
    Expression(Expression),
}

/// A gate is invalid.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("gate.{field}: {problem}")]
pub struct InvalidGate {
    /// The field of the gate.
    pub field: &'static str,
    /// Its text.
    pub text: String,
    /// What is wrong with it.
    pub problem: GateProblem,
}

/// What is wrong with a gate.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum GateProblem {
    /// It is empty.
    #[error(
        "a gate needs an expression, such as previous.all(p, p.failed == 0); write one, or remove the gate"
    )]
    Empty,
    /// The expression is invalid.
    #[error("{0}; see the section about gates in docs/standalone.md")]
    Expression(#[from] ExpressionError),
    /// The expression has no result for an example.
    #[error("{0}; see the section about gates in docs/standalone.md")]
    Example(#[from] EvaluationError),
}

impl Gate {
    /// Parses a gate.
    ///
    /// # Errors
    /// If it is empty, or its expression is invalid or uses something that it cannot know.
    pub fn parse(gate: &PartitionGate) -> Result<Self, InvalidGate> {
        let text = &*gate.expression;
        if text.is_empty() {
            return Err(invalid(text, GateProblem::Empty));
        }
        let checked = Expression::parse(text).and_then(|expression| {
            expression.check_variables(facts::VARIABLES)?;
            expression.check_fields(facts::FIELDS)?;
            Ok(expression)
        });
        checked
            .map(Self::Expression)
            .map_err(|error| invalid(text, error.into()))
    }

    /// Tries it out with an example of what it decides on.
    ///
    /// # Errors
    /// If an expression makes something else of the example than true or false.
    pub fn try_out(&self, example: &GateFacts) -> Result<(), InvalidGate> {
        let Self::Expression(expression) = self;
        let tried = example.with_variables(|variables| expression.try_out(variables));
        tried.map_err(|error| invalid(expression.text(), error.into()))
    }
}

fn invalid(text: &str, problem: GateProblem) -> InvalidGate {
    InvalidGate {
        field: "expression",
        text: text.to_owned(),
        problem,
    }
}

#[cfg(test)]
mod tests;
