//! Checks a template without executing it.

use super::{
    budget::{Budget, Meter},
    error::TemplateError,
    has_actions, lex, parse,
};

/// A function that Fleet has and this implementation refuses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnsupportedFunction {
    /// The name of the function.
    pub name: String,
    /// The byte of the text at which the template names it first.
    pub offset: usize,
    /// Why it is not supported, and what to use instead.
    pub reason: String,
}

/// Parses a template, and returns the unsupported functions that it calls, each once. Rendering fails with the first of them.
///
/// # Errors
/// If rendering would fail with the same error for every cluster: a syntax error, or a function that is not defined. If
/// a limit of `budget` is exceeded, `budget` contains it, and the template may be valid.
pub fn check(text: &str, budget: &Budget) -> Result<Vec<UnsupportedFunction>, TemplateError> {
    if !has_actions(text) {
        return Ok(Vec::new());
    }
    let meter = Meter::new(budget);
    meter
        .check_text(text.len())
        .map_err(|message| TemplateError::new("", 0..0, message))?;
    parse::check(text, &meter)
}

/// Checks only that the text splits into tokens: that actions, comments and quoted strings are closed.
///
/// # Errors
/// See [`check`].
pub fn check_tokens(text: &str, budget: &Budget) -> Result<(), TemplateError> {
    lex::tokens(text, &Meter::new(budget)).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Result<Vec<String>, String> {
        let functions = check(text, &Budget::without_clock()).map_err(|error| error.to_string())?;
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
        let functions = check("a: ${ genCA \"a\" 1 }", &Budget::without_clock()).unwrap();
        let [function] = &*functions else {
            panic!("{functions:?}")
        };
        assert_eq!((function.name.as_str(), function.offset), ("genCA", 6));
        assert!(function.reason.contains("deploy again"), "{}", function.reason);
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
