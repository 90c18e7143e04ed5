//! CEL expressions that users write, evaluated within limits.
//!
//! ```text
//! text ─► shape (length, nesting, functions) ─► Expression ─► cost for these variables ─► true or false
//!                                                   └─► ReadyExpressions, one for each kind
//! ```
//!
//! An expression comes from a tenant, and is parsed in the webhook and evaluated in the agent for each object. So its size, its
//! nesting and the work that it takes are limited: the interpreter itself limits neither loops nor the stack.

mod cost;
mod readiness;
mod shape;
mod syntax_tree;
mod value;

use std::{
    collections::BTreeSet,
    sync::{Arc, LazyLock},
};

use bounded_text::cut;
use cel::{Context, Env, ExecutionError, IdedExpr, parser::PrattParser};
use helmops_api::limits;
use serde_json::Value;
use thiserror::Error;

pub use self::readiness::{Readiness, ReadyExpressions, group};

/// Longest expression and part of an expression in a message, in bytes.
const MAX_QUOTED: usize = 200;

/// The functions of CEL's standard library, without those of optional values.
static STANDARD: LazyLock<Arc<Env>> = LazyLock::new(|| Arc::new(Env::stdlib().with_optional_support(false)));

/// An expression that is valid, and whose evaluation is bounded.
#[derive(Clone, Debug)]
pub struct Expression {
    text: Arc<str>,
    tree: Arc<IdedExpr>,
}

/// An expression is invalid. The message has the position and the fix; it does not repeat the expression.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ExpressionError {
    /// The expression is empty.
    #[error("the expression is empty; write a condition such as status.phase == 'Ready'")]
    Empty,
    /// The expression is too long.
    #[error("the expression has {0} bytes; at most {max} are allowed; shorten it", max = limits::EXPRESSION)]
    TooLong(usize),
    /// Too many brackets or operators are nested.
    #[error(
        "the expression is nested too deeply{}; at most {max} levels are allowed, where each operator of a chain such as a + b + c \
         is one; split it, or use && and ||, which do not count", at(.0), max = shape::MAX_DEPTH
    )]
    TooDeep(Option<usize>),
    /// Loops are nested too deeply.
    #[error("{0} loops (all, exists, exists_one, map, filter) are nested; at most {max} are allowed; remove inner ones", max = shape::MAX_LOOPS)]
    NestedLoops(usize),
    /// The expression is not CEL.
    #[error("not a CEL expression: {problem}{}; correct it, or compare with the examples in docs/lifecycle.md and docs/standalone.md", at(.column))]
    Syntax {
        /// What the parser reports.
        problem: String,
        /// The column, from 1, if it is known.
        column: Option<usize>,
    },
    /// A function does not exist.
    #[error("CEL function {0:?} is not available; available are {available}", available = shape::FUNCTIONS.join(", "))]
    UnknownFunction(String),
    /// A regular expression is not one.
    #[error("matches() needs a regular expression in quotes of at most {max} bytes: {0}; correct it", max = shape::MAX_PATTERN)]
    Pattern(String),
    /// A field does not exist.
    #[error("unknown field {field:?}; available are {}", available.join(", "))]
    UnknownField {
        /// The field.
        field: String,
        /// The fields that exist.
        available: Vec<String>,
    },
    /// A variable does not exist.
    #[error("unknown variable {variable:?}; available are {}", available.join(", "))]
    UnknownVariable {
        /// The variable.
        variable: String,
        /// The variables that exist.
        available: Vec<String>,
    },
}

/// An expression cannot be evaluated for these variables. The message names the expression.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum EvaluationError {
    /// A field or variable does not exist.
    #[error("{expression}: there is no field {field:?}; test it with has() first")]
    MissingField {
        /// The expression.
        expression: String,
        /// The field, without its path.
        field: String,
    },
    /// The result is not true or false.
    #[error(
        "{expression}: the result is a value of type {found}, but must be true or false; compare it with something"
    )]
    NoCondition {
        /// The expression.
        expression: String,
        /// The type of the result.
        found: String,
    },
    /// The evaluation would take too long.
    #[error(
        "{expression}: its evaluation takes too long, since the object has a list or map of {longest} items; use fewer loops in each \
         other, and compare fields in place of whole objects"
    )]
    TooExpensive {
        /// The expression.
        expression: String,
        /// Items of the longest list.
        longest: usize,
    },
    /// A calculation has no result for these numbers, such as a division by zero.
    #[error("{expression}: {problem}")]
    Arithmetic {
        /// The expression.
        expression: String,
        /// What the interpreter reports.
        problem: String,
    },
    /// A list has no item with this index.
    #[error("{expression}: {problem}; test the size of the list first")]
    OutOfBounds {
        /// The expression.
        expression: String,
        /// What the interpreter reports.
        problem: String,
    },
    /// CEL reports an error.
    #[error("{expression}: {problem}")]
    Failed {
        /// The expression.
        expression: String,
        /// What the interpreter reports.
        problem: String,
    },
}

impl EvaluationError {
    /// Whether other values of the same types may have a result.
    pub const fn depends_on_values(&self) -> bool {
        matches!(self, Self::Arithmetic { .. } | Self::OutOfBounds { .. })
    }
}

#[expect(clippy::ref_option, reason = "the form in which thiserror passes fields")]
fn at(column: &Option<usize>) -> String {
    column.map_or_else(String::new, |column| format!(" at column {column}"))
}

impl Expression {
    /// Parses an expression.
    ///
    /// # Errors
    /// If it is not a CEL expression, or exceeds a limit.
    pub fn parse(text: &str) -> Result<Self, ExpressionError> {
        shape::check_text(text)?;
        let parser = PrattParser::new()
            .max_recursion_depth(shape::MAX_DEPTH_IN_PARSER)
            .max_expression_node_count(shape::MAX_NODES)
            .error_recovery_limit(1);
        let tree = parser.parse(text).map_err(|errors| syntax_error(&errors))?;
        shape::check_tree(&tree)?;
        Ok(Self {
            text: text.into(),
            tree: Arc::new(tree),
        })
    }

    /// The text of the expression.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The variables that it uses, without those of its loops.
    pub fn variables(&self) -> BTreeSet<&str> {
        syntax_tree::variables(&self.tree)
    }

    /// Checks that it uses no other variables.
    ///
    /// # Errors
    /// If it uses another one.
    pub fn check_variables(&self, available: &[&str]) -> Result<(), ExpressionError> {
        let unknown = |variable: &&str| !available.contains(variable);
        match self.variables().into_iter().find(unknown) {
            None => Ok(()),
            Some(variable) => Err(ExpressionError::UnknownVariable {
                variable: quoted(variable),
                available: available.iter().map(ToString::to_string).collect(),
            }),
        }
    }

    /// Checks that it uses no other fields, whatever they are fields of.
    ///
    /// # Errors
    /// If it uses another one.
    pub fn check_fields(&self, available: &[&str]) -> Result<(), ExpressionError> {
        let unknown = |field: &&str| !available.contains(field);
        match syntax_tree::fields(&self.tree).into_iter().find(unknown) {
            None => Ok(()),
            Some(field) => Err(ExpressionError::UnknownField {
                field: quoted(field),
                available: available.iter().map(ToString::to_string).collect(),
            }),
        }
    }

    /// Evaluates it with these variables.
    ///
    /// # Errors
    /// If a field is missing, if the result is not true or false, or if the evaluation would take too long.
    pub fn evaluate(&self, variables: &[(&str, &Value)]) -> Result<bool, EvaluationError> {
        self.evaluate_within(cost::BUDGET, variables)
    }

    /// Evaluates it with these variables within some milliseconds, so that no permit to compute is needed.
    ///
    /// # Errors
    /// If a field is missing, if the result is not true or false, or if the evaluation would take longer.
    pub fn evaluate_briefly(&self, variables: &[(&str, &Value)]) -> Result<bool, EvaluationError> {
        self.evaluate_within(cost::BRIEF_BUDGET, variables)
    }

    fn evaluate_within(&self, budget: u64, variables: &[(&str, &Value)]) -> Result<bool, EvaluationError> {
        let used = self.variables();
        let variables = variables.iter().filter(|(name, _)| used.contains(name));
        let values: Vec<_> = variables.copied().collect();
        cost::check(&self.tree, &values, budget).map_err(|longest| EvaluationError::TooExpensive {
            expression: quoted(&self.text),
            longest,
        })?;
        let mut context = Context::with_env(Arc::clone(&STANDARD));
        for (name, value) in values {
            context.add_variable_from_value(name, value::of_json(value));
        }
        match cel::Value::resolve(&self.tree, &context) {
            Ok(cel::Value::Bool(result)) => Ok(result),
            Ok(other) => Err(EvaluationError::NoCondition {
                expression: quoted(&self.text),
                found: format!("{:?}", other.type_of()).to_lowercase(),
            }),
            Err(error) => Err(self.failed(&error)),
        }
    }

    fn failed(&self, error: &ExecutionError) -> EvaluationError {
        let expression = quoted(&self.text);
        match error {
            ExecutionError::UndeclaredReference(name) if self.is_function(name) => EvaluationError::Failed {
                expression,
                problem: format!("function {:?} cannot be called in this way", quoted(name)),
            },
            ExecutionError::NoSuchKey(field) | ExecutionError::UndeclaredReference(field) => {
                EvaluationError::MissingField {
                    expression,
                    field: quoted(field),
                }
            }
            ExecutionError::DivisionByZero(_)
            | ExecutionError::RemainderByZero(_)
            | ExecutionError::Overflow(..) => EvaluationError::Arithmetic {
                expression,
                problem: quoted(&error.to_string()),
            },
            ExecutionError::IndexOutOfBounds(_) => EvaluationError::OutOfBounds {
                expression,
                problem: quoted(&error.to_string()),
            },
            other => EvaluationError::Failed {
                expression,
                problem: quoted(&other.to_string()),
            },
        }
    }
}

impl Expression {
    /// Whether a name that does not exist is that of a function: one that needs a list, for example, and was called without.
    fn is_function(&self, name: &str) -> bool {
        shape::FUNCTIONS.contains(&name) && !self.variables().contains(name)
    }
}

impl PartialEq for Expression {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

/// The first error of the parser.
fn syntax_error(errors: &cel::ParseErrors) -> ExpressionError {
    let Some(first) = errors.errors.first() else {
        return ExpressionError::Syntax {
            problem: "unknown error".to_owned(),
            column: None,
        };
    };
    if first.msg.contains("recursion limit") {
        return ExpressionError::TooDeep(None);
    }
    let problem = first.msg.trim_start_matches("Syntax error: ");
    ExpressionError::Syntax {
        problem: quoted(problem),
        column: usize::try_from(first.pos.1).ok().filter(|column| *column > 0),
    }
}

fn quoted(text: &str) -> String {
    cut(text.to_owned(), MAX_QUOTED)
}

#[cfg(test)]
mod tests;
