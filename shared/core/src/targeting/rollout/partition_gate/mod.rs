//! The gate of a partition: what has to be true before it begins.
//!
//! ```text
//! plan ─► GateRequest ─► evaluated at the edge ─► GateState ─► plan again
//! ```
//!
//! A plan names the one gate that decides how it goes on. So a gate is evaluated only when nothing else keeps its partition from beginning.

mod endpoint;
mod facts;
mod state;

use helmops_api::rollout::PartitionGate;
use helmops_model::{
    chart::url,
    expression::{EvaluationError, Expression, ExpressionError},
};
use thiserror::Error;

pub use self::{
    endpoint::{EndpointFailure, GateEndpoint},
    facts::{GateFacts, PartitionFacts},
    state::{GateRequest, GateState, GateStates, Verdict},
};

/// A valid gate.
#[derive(Clone, Debug, PartialEq)]
pub enum Gate {
    /// An expression over [`GateFacts`].
    Expression(Expression),
    /// An endpoint that gets [`GateFacts`].
    Endpoint(Box<GateEndpoint>),
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
        "a gate needs an expression, such as previous.all(p, p.failed == 0), or a url; write one of them, or remove the gate"
    )]
    Empty,
    /// It has two deciders.
    #[error("a gate has an expression or a url, not both; remove one, or give the url to another partition")]
    Both,
    /// A field has no effect.
    #[error("has no effect without url; remove it, or set url in place of expression")]
    WithoutUrl,
    /// The URL cannot be used.
    #[error("not the URL of an endpoint: {0}")]
    Url(String),
    /// The name of the Secret is invalid.
    #[error("{0}")]
    Name(&'static str),
    /// A duration is invalid.
    #[error("{0}")]
    Duration(String),
    /// The expression is invalid.
    #[error("{0}; see the section about gates in docs/standalone.md")]
    Expression(#[from] ExpressionError),
    /// The expression has no result for examples.
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
        match (text.is_empty(), gate.url.is_empty()) {
            (true, true) => return Err(invalid("expression", "", GateProblem::Empty)),
            (false, false) => return Err(invalid("url", &gate.url, GateProblem::Both)),
            (true, false) => {
                let endpoint = GateEndpoint::parse(gate)?;
                return Ok(Self::Endpoint(Box::new(endpoint)));
            }
            (false, true) => {}
        }
        for (field, text) in [
            (
                "secretName",
                Some(&*gate.secret_name).filter(|name| !name.is_empty()),
            ),
            ("interval", gate.interval.as_deref()),
            ("timeout", gate.timeout.as_deref()),
        ] {
            if let Some(text) = text {
                return Err(invalid(field, text, GateProblem::WithoutUrl));
            }
        }
        let checked = Expression::parse(text).and_then(|expression| {
            expression.check_variables(facts::VARIABLES)?;
            expression.check_fields(facts::FIELDS)?;
            Ok(expression)
        });
        checked
            .map(Self::Expression)
            .map_err(|error| invalid("expression", text, error.into()))
    }

    /// Tries it out with examples of what it decides on.
    ///
    /// # Errors
    /// If an expression has no result for any of them, or one that is neither true nor false.
    pub fn try_out(&self, examples: &[GateFacts]) -> Result<(), InvalidGate> {
        let Self::Expression(expression) = self else {
            return Ok(());
        };
        let (mut has_result, mut without_result) = (false, None);
        for example in examples {
            match example.with_variables(|variables| expression.evaluate_briefly(variables)) {
                Ok(_) => has_result = true,
                Err(error) if error.depends_on_values() => {
                    without_result.get_or_insert(error);
                }
                Err(error) => return Err(invalid("expression", expression.text(), error.into())),
            }
        }
        match without_result.filter(|_| !has_result) {
            None => Ok(()),
            Some(error) => Err(invalid("expression", expression.text(), error.into())),
        }
    }
}

fn invalid(field: &'static str, text: &str, problem: GateProblem) -> InvalidGate {
    InvalidGate {
        field,
        text: url::redacted(text),
        problem,
    }
}

#[cfg(test)]
mod tests;
