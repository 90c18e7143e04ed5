//! Compiles expressions of users.

use regex::{Regex, RegexBuilder};
use thiserror::Error;

use super::{SyntaxError, rewrite};

/// Why an expression cannot be used.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum InvalidExpression {
    /// Its syntax is not Go's.
    #[error(transparent)]
    Syntax(#[from] SyntaxError),
    /// It takes too much memory, or has something that Go has and the engine here lacks.
    #[error("it is too large, or names a class of characters that is not supported; shorten it")]
    Unusable,
}

/// Compiles an expression of Go, which may take this many bytes. It matches anywhere in a text, as in Go.
///
/// # Errors
/// If it is invalid or takes more.
pub fn compile(expression: &str, max_bytes: usize) -> Result<Regex, InvalidExpression> {
    let rewritten = rewrite(expression)?;
    let compiled = RegexBuilder::new(&rewritten).size_limit(max_bytes).build();
    compiled.map_err(|_| InvalidExpression::Unusable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_those_of_go_and_limited() {
        let max = 64 << 10;
        assert!(compile("\\Qa.b\\E", max).unwrap().is_match("xa.b"));
        assert!(!compile("\\d", max).unwrap().is_match("٣"), "\\d is ASCII");
        let error = compile("(web", max).unwrap_err();
        assert_eq!(
            error.to_string(),
            "error parsing regexp: missing closing ): `(web`"
        );
        let large = compile("(\\pL{100}){10}", max);
        assert!(matches!(large, Err(InvalidExpression::Unusable)), "{large:?}");
    }
}
