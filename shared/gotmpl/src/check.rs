//! Checks a template without executing it.

use super::{
    budget::{Budget, Meter},
    delimiters::Delimiters,
    error::{TemplateError, UnsupportedFunction},
    lex, parse,
};

/// Parses a template like [`Template::parse`](crate::Template::parse), and returns the functions in it that are not supported, each
/// once. Parsing for rendering fails with the first of them.
///
/// # Errors
/// Those of [`Template::parse`](crate::Template::parse), without functions that are not supported. If `budget` is exceeded, the
/// template may be valid.
pub fn check(
    text: &str,
    delimiters: Delimiters<'_>,
    budget: &Budget,
) -> Result<Vec<UnsupportedFunction>, TemplateError> {
    if !delimiters.has_actions(text) {
        return Ok(Vec::new());
    }
    parse::check(text, delimiters, &Meter::new(budget)).map_err(|error| error.or_exceeded(budget))
}

/// Checks only that a text splits into tokens: that actions, comments and quoted strings are closed. So it applies to a part of a
/// template too, such as one string of a document that is rendered as a whole.
///
/// # Errors
/// If the text does not, or `budget` is exceeded.
pub fn check_tokens(text: &str, delimiters: Delimiters<'_>, budget: &Budget) -> Result<(), TemplateError> {
    let tokens = lex::tokens(text, delimiters, &Meter::new(budget));
    tokens.map(drop).map_err(|error| error.or_exceeded(budget))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::UnsupportedReason;

    const DOLLAR: Delimiters<'_> = Delimiters::new("${", "}");

    fn names(text: &str) -> Result<Vec<String>, String> {
        let functions = check(text, DOLLAR, &Budget::default()).map_err(|error| error.to_string())?;
        Ok(functions.into_iter().map(|function| function.name).collect())
    }

    #[test]
    fn errors_are_those_of_rendering() {
        for (text, expected) in [
            ("a ${ .ClusterName ", "at <${ .ClusterName>: unclosed action"),
            ("${ if true }", "unexpected EOF; an {{end}} is missing"),
            ("${ end }", "at <end>: unexpected {{end}}"),
            ("${ xyz }", "at <xyz>: function \"xyz\" not defined"),
            ("${ env \"HOME\" }", "at <env>: function \"env\" not defined"),
            // An unsupported function does not hide a syntax error after it.
            ("${ now }${ xyz }", "at <xyz>: function \"xyz\" not defined"),
            (
                "${ define \"a\" }${ $x }${ end }",
                "at <$x>: undefined variable \"$x\"",
            ),
            (
                "${ if true }${ define \"a\" }${ end }${ end }",
                "at <define>: unexpected {{define}}",
            ),
        ] {
            assert_eq!(names(text).unwrap_err(), expected, "{text}");
        }
    }

    #[test]
    fn unsupported_functions_are_returned_once_with_a_reason() {
        let text = "${ now | date \"2006\" }${ range until 2 }${ (randAlpha (int 5)) }${ now }${ end }";
        assert_eq!(names(text).unwrap(), ["now", "date", "randAlpha"]);
        let expected = UnsupportedFunction {
            name: "genCA".to_owned(),
            offset: 6,
            reason: UnsupportedReason::Random,
        };
        let found = check("a: ${ genCA \"a\" 1 }", DOLLAR, &Budget::default());
        assert_eq!(found, Ok(vec![expected]));
    }

    #[test]
    fn bodies_of_templates_are_checked() {
        let text = "${ define \"a\" }${ if . }${ uuidv4 }${ end }${ end }${ template \"a\" . }${ block \"b\" . }${ now }${ end }";
        assert_eq!(names(text).unwrap(), ["uuidv4", "now"]);
    }

    #[test]
    fn valid_templates_and_texts_without_actions_have_no_problem() {
        for text in [
            "",
            "plain",
            "$ { x }",
            "{{ .Values.x }}",
            "${/* now */}",
            "${ .ClusterLabels.env | upper }",
        ] {
            assert_eq!(names(text).unwrap(), Vec::<String>::new(), "{text}");
        }
    }

    #[test]
    fn length_and_depth_are_limited() {
        let long = format!("${{ . }}{}", "x".repeat(2 << 20));
        assert!(names(&long).unwrap_err().contains("longer than"));
        assert!(names(&"${ if true }".repeat(500)).unwrap_err().contains("deep"));
    }
}
