//! Whether a gate is open.

use std::{collections::BTreeMap, time::Duration};

use bounded_text::cut;
use helmops_model::expression::Expression;
use k8s_openapi::jiff::Timestamp;

use super::{Gate, GateFacts};

/// How often an expression is evaluated that depends on the time, besides when something changes.
const EXPRESSION_INTERVAL: Duration = Duration::from_mins(1);

/// Longest expression in a message, in bytes.
const MAX_QUOTED: usize = 200;

/// A gate that decides how the rollout goes on.
#[derive(Clone, Debug, PartialEq)]
pub struct GateRequest {
    /// The index of its partition.
    pub partition: usize,
    /// The gate.
    pub gate: Gate,
    /// What it decides on.
    pub facts: GateFacts,
}

/// Whether a gate is open, and when that is no longer certain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GateState {
    /// Whether it is open.
    pub verdict: Verdict,
    /// When it is evaluated again although nothing may have changed.
    pub again: Option<Timestamp>,
}

impl GateState {
    /// What an expression decides. That takes some milliseconds at most.
    pub fn of_expression(expression: &Expression, facts: &GateFacts, now: Timestamp) -> Self {
        let verdict = match facts.with_variables(|variables| expression.evaluate_briefly(variables)) {
            Ok(true) => Verdict::Open,
            Ok(false) => Verdict::Closed(format!(
                "{} is not true",
                cut(expression.text().to_owned(), MAX_QUOTED)
            )),
            Err(error) => Verdict::Failed(format!(
                "{error}; correct the gate, or remove it from the partition in spec.rolloutStrategy"
            )),
        };
        let depends_on_time = expression.variables().contains("now");
        Self {
            verdict,
            again: depends_on_time.then(|| now.saturating_add(EXPRESSION_INTERVAL).unwrap_or(Timestamp::MAX)),
        }
    }

    /// Whether it is not known.
    pub const fn has_failed(&self) -> bool {
        matches!(self.verdict, Verdict::Failed(_))
    }
}

/// Whether a gate is open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The partition may begin.
    Open,
    /// It may not, for this reason.
    Closed(String),
    /// It is not known, for this reason, with the remedy: a user has to correct something.
    Failed(String),
}

/// The states of gates that are known, by the index of their partition.
#[derive(Clone, Debug, Default)]
pub struct GateStates(BTreeMap<usize, GateState>);

impl GateStates {
    /// The state of the gate of a partition.
    pub fn get(&self, partition: usize) -> Option<&GateState> {
        self.0.get(&partition)
    }

    /// Adds the state of the gate of a partition.
    pub fn add(&mut self, partition: usize, state: GateState) {
        self.0.insert(partition, state);
    }
}
