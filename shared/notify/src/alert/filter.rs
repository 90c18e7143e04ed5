//! Which messages an Alert sends, by their text.

use go_formats::regexp::{InvalidExpression, compile};
use regex::Regex;

/// Maximum size of a compiled expression, in bytes.
const MAX_COMPILED: usize = 64 << 10;

/// The compiled expressions of an Alert.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    inclusion: Vec<Regex>,
    exclusion: Vec<Regex>,
}

impl Filter {
    /// Compiles the expressions. Those that are invalid are left out: admission and the condition `Ready` report them.
    pub fn new(inclusion: &[String], exclusion: &[String]) -> Self {
        let compiled = |list: &[String]| {
            list.iter()
                .filter_map(|text| compile(text, MAX_COMPILED).ok())
                .collect()
        };
        Self {
            inclusion: compiled(inclusion),
            exclusion: compiled(exclusion),
        }
    }

    /// Checks an expression.
    ///
    /// # Errors
    /// If it is invalid.
    pub fn check(expression: &str) -> Result<(), InvalidExpression> {
        compile(expression, MAX_COMPILED).map(|_| ())
    }

    /// Whether a message passes: it matches one of the expressions of the inclusion list, if there are any, and none of the exclusion
    /// list.
    pub fn passes(&self, message: &str) -> bool {
        let matches = |list: &[Regex]| list.iter().any(|expression| expression.is_match(message));
        (self.inclusion.is_empty() || matches(&self.inclusion)) && !matches(&self.exclusion)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passes(inclusion: &[&str], exclusion: &[&str], message: &str) -> bool {
        let owned = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        Filter::new(&owned(inclusion), &owned(exclusion)).passes(message)
    }

    #[test]
    fn exclusion_wins_over_inclusion() {
        assert!(passes(&[], &[], "any"));
        assert!(passes(&["time", "^x"], &[], "a timeout"));
        assert!(!passes(&["^time"], &[], "a timeout"));
        assert!(!passes(&[], &["out$"], "a timeout"));
        assert!(!passes(&["time"], &["out$"], "a timeout"));
    }
}
