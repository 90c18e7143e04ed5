//! Criteria for objects of the chart.

use helmops_api::lifecycle::ObjectSelector;
use helmops_model::{
    reason::Reason,
    validation::{FieldErrors, Path, selector_text::SelectorText},
};
use regex::RegexBuilder;

use super::REASON;

/// Memory of a compiled regular expression in bytes: the agent keeps those of all releases.
const MAX_COMPILED: usize = 64 << 10;

pub fn check(errors: &mut FieldErrors, path: &Path<'_>, target: &ObjectSelector) {
    for (field, pattern) in [("name", &target.name), ("namespace", &target.namespace)] {
        check_pattern(errors, &path.field(field), field, pattern);
    }
    for (field, text) in [
        ("labelSelector", &target.label_selector),
        ("annotationSelector", &target.annotation_selector),
    ] {
        if let Err(problem) = SelectorText::parse(text) {
            errors.invalid(&path.field(field), Reason::InvalidSelector, text, problem);
        }
    }
}

/// Checks a regular expression for a whole field.
pub fn check_pattern(errors: &mut FieldErrors, path: &Path<'_>, field: &str, pattern: &str) {
    let compiled = RegexBuilder::new(pattern).size_limit(MAX_COMPILED).build();
    if let Err(error) = compiled {
        let text = error.to_string();
        let problem = text
            .lines()
            .last()
            .unwrap_or_default()
            .trim_start_matches("error: ");
        let detail =
            format!("not a regular expression: {problem}; it matches the whole {field}, such as web-.*");
        errors.invalid(path, REASON, pattern, detail);
    }
}
