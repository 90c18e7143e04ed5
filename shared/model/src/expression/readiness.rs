//! The readiness of objects by the expressions of `lifecycle.wait`.

use helmops_api::lifecycle::ReadyExpression;
use serde_json::{Value, json};

use super::{EvaluationError, Expression, ExpressionError};

/// Whether an object is ready, by expressions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// It is ready.
    Current,
    /// It is not ready yet, with the cause.
    InProgress(String),
    /// It will never be ready, with the cause.
    Failed(String),
}

/// The expressions of a release, one entry for each kind.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReadyExpressions(Vec<OfKind>);

#[derive(Clone, Debug, PartialEq)]
struct OfKind {
    group: String,
    kind: String,
    failed: Option<Expression>,
    in_progress: Option<Expression>,
    current: Expression,
}

/// The group of an API version: empty for `v1`.
pub fn group(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

impl ReadyExpressions {
    /// Parses the expressions of a release.
    ///
    /// # Errors
    /// If one is invalid: the kind and field of the first one, and the error.
    pub fn parse(expressions: &[ReadyExpression]) -> Result<Self, (String, ExpressionError)> {
        expressions
            .iter()
            .map(OfKind::parse)
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The readiness of an object; `None` if there is no expression for its kind. An object that its controller has not observed
    /// since it was changed (`status.observedGeneration`) is in progress.
    pub fn readiness(&self, object: &Value) -> Option<Readiness> {
        let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default();
        let (group, kind) = (group(text("apiVersion")), text("kind"));
        let of_kind = self.0.iter().find(|of| of.group == group && of.kind == kind)?;
        Some(of_kind.readiness(object))
    }
}

impl Expression {
    /// The readiness of an object that is ready if this is true of its fields. One that its controller has not observed since it was changed
    /// is in progress.
    pub fn readiness(&self, object: &Value) -> Readiness {
        let of_kind = OfKind {
            group: String::new(),
            kind: String::new(),
            failed: None,
            in_progress: None,
            current: self.clone(),
        };
        of_kind.readiness(object)
    }
}

impl OfKind {
    fn parse(of: &ReadyExpression) -> Result<Self, (String, ExpressionError)> {
        let parse = |field: &str, text: &str| {
            Expression::parse(text).map_err(|error| (format!("{} of {}", field, of.kind), error))
        };
        let optional = |field: &str, text: &str| {
            let text = (!text.is_empty()).then_some(text);
            text.map(|text| parse(field, text)).transpose()
        };
        Ok(Self {
            group: group(&of.api_version).to_owned(),
            kind: of.kind.clone(),
            failed: optional("failed", &of.failed)?,
            in_progress: optional("inProgress", &of.in_progress)?,
            current: parse("current", &of.current)?,
        })
    }

    fn readiness(&self, object: &Value) -> Readiness {
        if let Some(cause) = unobserved(object) {
            return Readiness::InProgress(cause);
        }
        let empty = json!({});
        // Most objects have no status at first, and expressions are about what is in it.
        let status = object.get("status").is_none().then_some(("status", &empty));
        let fields = object.as_object().into_iter().flatten();
        let variables: Vec<_> = fields
            .map(|(name, value)| (&**name, value))
            .chain(status)
            .collect();
        let is_true = |expression: &Expression| expression.evaluate(&variables);

        // A field that is missing may be set later, and so may one of another type.
        let mut problem: Option<EvaluationError> = None;
        for (expression, is) in [
            (self.in_progress.as_ref(), Verdict::InProgress),
            (self.failed.as_ref(), Verdict::Failed),
            (Some(&self.current), Verdict::Current),
        ] {
            let Some(expression) = expression else { continue };
            match is_true(expression) {
                Ok(true) => return is.readiness(expression),
                Ok(false) => {}
                Err(error) => problem = problem.or(Some(error)),
            }
        }
        Readiness::InProgress(match problem {
            Some(error) => error.to_string(),
            None => format!("{} is not true yet", super::quoted(self.current.text())),
        })
    }
}

#[derive(Clone, Copy)]
enum Verdict {
    Failed,
    InProgress,
    Current,
}

impl Verdict {
    fn readiness(self, expression: &Expression) -> Readiness {
        let cause = || format!("{} is true", super::quoted(expression.text()));
        match self {
            Self::Failed => Readiness::Failed(cause()),
            Self::InProgress => Readiness::InProgress(cause()),
            Self::Current => Readiness::Current,
        }
    }
}

/// Why the status of an object is not that of its spec.
fn unobserved(object: &Value) -> Option<String> {
    let number = |pointer: &str| object.pointer(pointer).and_then(Value::as_i64);
    let (observed, generation) = (
        number("/status/observedGeneration")?,
        number("/metadata/generation")?,
    );
    (observed < generation).then(|| {
        format!("generation {generation} is not observed yet: status.observedGeneration is {observed}")
    })
}
