//! CEL expressions: those of kinds in `wait`, and those of dependencies.

use std::collections::{HashMap, HashSet};

use helmops_api::lifecycle::WaitPolicy;
use helmops_model::{
    expression::{Expression, ExpressionError, group},
    reason::Reason,
    validation::{ErrorType, FieldErrors, Path, names},
};

use super::REASON;

/// Bytes of all different expressions of a HelmOp: a hundred long ones. To parse them takes some milliseconds.
const MAX_TOTAL: usize = 64 << 10;

/// The variables of dependencies that are HelmOps or Bundles.
const DEP_AND_SELF: &[&str] = &["dep", "self"];

/// The variables that an expression may use.
#[derive(Clone, Copy, Debug)]
pub enum Variables {
    /// Any: which fields the objects of a kind have is not known.
    Any,
    /// Those of a dependency that is a HelmOp or Bundle.
    DepAndSelf,
    /// The fields of a dependency that is an object. `dep` and `self` are none, although they are variables of the other ones.
    OfObject,
}

impl Variables {
    fn check(self, expression: &Expression) -> Result<(), ExpressionError> {
        match self {
            Self::Any => Ok(()),
            Self::DepAndSelf => expression.check_variables(DEP_AND_SELF),
            Self::OfObject => {
                let used = expression.variables();
                let of_others = DEP_AND_SELF.iter().find(|variable| used.contains(*variable));
                of_others.map_or(Ok(()), |variable| {
                    Err(ExpressionError::UnknownVariable {
                        variable: (*variable).to_owned(),
                        available: vec![
                            "the fields of the object, such as metadata, spec and status".to_owned(),
                        ],
                    })
                })
            }
        }
    }
}

/// The expressions of a HelmOp. Those of its targets are often the same, and each is parsed once.
#[derive(Default)]
pub struct Expressions<'h> {
    parsed: HashMap<&'h str, Result<Expression, ExpressionError>>,
    bytes: usize,
}

impl<'h> Expressions<'h> {
    /// Checks the expressions for kinds.
    pub fn check_wait(&mut self, errors: &mut FieldErrors, path: &Path<'_>, wait: &'h WaitPolicy) {
        let mut kinds = HashSet::new();
        for (index, of) in wait.expressions.iter().enumerate() {
            let path = path.index(index);
            check_api_version(errors, &path.field("apiVersion"), &of.api_version);
            check_kind(errors, &path.field("kind"), &of.kind);
            if !of.kind.is_empty() && !kinds.insert((group(&of.api_version), &*of.kind)) {
                let detail = "an earlier entry is for this kind of the group too, in whatever version; combine them in one entry";
                errors.invalid(&path.field("kind"), REASON, &of.kind, detail);
            }
            if of.current.is_empty() {
                errors.required(
                    &path.field("current"),
                    Reason::InvalidExpression,
                    "write when an object is ready, such as status.phase == 'Ready'",
                );
            }
            for (field, text) in [
                ("failed", &of.failed),
                ("inProgress", &of.in_progress),
                ("current", &of.current),
            ] {
                if !text.is_empty() {
                    self.check(errors, &path.field(field), text, Variables::Any);
                }
            }
        }
    }

    /// Checks an expression that uses only these variables.
    pub fn check(&mut self, errors: &mut FieldErrors, path: &Path<'_>, text: &'h str, variables: Variables) {
        if !self.parsed.contains_key(text) {
            self.bytes += text.len();
        }
        if self.bytes > MAX_TOTAL {
            return;
        }
        let parsed = self.parsed.entry(text).or_insert_with(|| Expression::parse(text));
        let checked = parsed.as_ref().map_err(ExpressionError::clone);
        let checked = checked.and_then(|expression| variables.check(expression));
        if let Err(error) = checked {
            errors.invalid(path, Reason::InvalidExpression, text, error.to_string());
        }
    }

    /// Checks how much text all different expressions are.
    pub fn check_total(&self, errors: &mut FieldErrors, path: &Path<'_>) {
        if self.bytes > MAX_TOTAL {
            let detail = format!(
                "more than {MAX_TOTAL} bytes of different expressions here and in targets; use the same expressions for all targets, or make \
                 several HelmOps of it"
            );
            errors.add(path, Reason::LimitExceeded, ErrorType::TooLong, "", detail);
        }
    }
}

/// Checks the API version of objects.
pub fn check_api_version(errors: &mut FieldErrors, path: &Path<'_>, text: &str) {
    if text.is_empty() {
        errors.required(
            path,
            REASON,
            "give the API version of the objects, such as apps/v1 or v1",
        );
        return;
    }
    let (group, version) = text.split_once('/').unwrap_or(("core", text));
    if names::subdomain(group).is_err() || names::namespace(version).is_err() {
        let detail = "not an API version: group/version such as apps/v1, or v1 for the core group";
        errors.invalid(path, REASON, text, detail);
    }
}

/// Checks the kind of objects.
pub fn check_kind(errors: &mut FieldErrors, path: &Path<'_>, kind: &str) {
    if kind.is_empty() {
        errors.required(path, REASON, "give the kind of the objects, such as Deployment");
    } else if !kind.bytes().all(|byte| byte.is_ascii_alphanumeric())
        || kind.starts_with(|first: char| !first.is_ascii_uppercase())
    {
        errors.invalid(
            path,
            REASON,
            kind,
            "not a kind such as Deployment: letters and digits that start with a capital",
        );
    }
}
