//! Checks the templates in values without a cluster, for admission.

use std::{collections::BTreeMap, fmt::Write as _, time::Duration};

use go_formats::yaml;
use gotmpl::{Budget, Limits, TemplateError, UnsupportedFunction, check_tokens};
use helmops_api::{HelmOptions, free_form::FreeForm};
use serde_json::{Map, Value};

use super::{
    labels,
    limits::limits,
    preprocess::{VALUES, charge, has_actions, path_at},
    syntax::{self, DELIMITERS},
};

/// How many problems are returned for the values of one target.
const MAX_PROBLEMS: usize = 5;

/// Units of work for the values of all targets of an object: about 30 ms.
const WORK: u64 = 30_000_000;

/// What is wrong with a template in values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateProblem {
    /// Path of the field below the options, such as `helm.values.image.tag` or `helm.templateValues.replicas`.
    pub path: String,
    /// The piece of the template, on one line and cut if it is long; empty if the whole template is concerned.
    pub piece: String,
    /// What is wrong, and what to do if that is known.
    pub message: String,
    /// Whether it is an error.
    pub kind: ProblemKind,
}

/// Whether every controller rejects a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProblemKind {
    /// The template cannot be parsed, here and in Fleet.
    Invalid,
    /// The template calls a function that Fleet has and helmops does not support.
    UnsupportedFunction,
}

/// The budget for the values of all targets of one object. It has no clock, so that the result does not depend on the machine.
pub fn check_budget() -> Budget {
    let limits = Limits {
        work: WORK,
        work_per_item: 0,
        ..limits(Duration::MAX)
    };
    Budget::new(limits, || Duration::ZERO)
}

/// Parses the templates of `values` and `templateValues` as rendering does, and returns at most five problems. It ignores
/// `disablePreProcess`, and limits of size: values that exceed them, or the budget, are not checked.
pub fn check(helm: &HelmOptions, budget: &Budget) -> Vec<TemplateProblem> {
    let mut problems = Vec::new();
    if budget.exceeded().is_some() {
        return problems;
    }
    let values = helm.values.as_ref().filter(|values| may_have_actions(values));
    let values = values.map(FreeForm::to_value);
    if let Some(Ok(Value::Object(mut values))) = values {
        // Rendering replaces these strings first, so that templates in them are never parsed.
        if has_actions(&values) && labels::substitute(&mut values, &BTreeMap::new(), 0) {
            check_values(&values, budget, &mut problems);
        }
    }
    for (key, text) in &helm.template_values {
        if problems.len() >= MAX_PROBLEMS {
            break;
        }
        let path = || format!("helm.templateValues.{key}");
        match gotmpl::check(text, DELIMITERS, budget) {
            Ok(functions) => {
                problems.extend(
                    functions
                        .into_iter()
                        .map(|function| unsupported(path(), function)),
                );
            }
            Err(_) if budget.exceeded().is_some() => break,
            Err(error) => problems.push(invalid(path(), error)),
        }
    }
    problems.truncate(MAX_PROBLEMS);
    problems
}

/// Whether the values can contain an action, without decoding them: every HelmOp with values passes here. An escaped character may
/// be part of one.
fn may_have_actions(values: &FreeForm) -> bool {
    let text = values.as_str();
    DELIMITERS.has_actions(text) || text.contains("\\u")
}

/// Checks values as one text, because rendering does so: a block can begin in one string and end in another.
fn check_values(values: &Map<String, Value>, budget: &Budget, problems: &mut Vec<TemplateProblem>) {
    let Ok(emitted) = yaml::emit(values) else {
        return;
    };
    if charge(budget, emitted.len()).is_err() {
        return;
    }
    let path = |offset| {
        let is_allowed = charge(budget, emitted.len()).is_ok();
        if is_allowed {
            path_at(values, offset)
        } else {
            VALUES.to_owned()
        }
    };
    match gotmpl::check(&emitted, DELIMITERS, budget) {
        Ok(functions) => {
            let functions = functions.into_iter().take(MAX_PROBLEMS);
            problems.extend(functions.map(|function| unsupported(path(function.offset), function)));
        }
        Err(_) if budget.exceeded().is_some() => {}
        Err(error) => {
            // An unclosed action extends into the next strings, so the error is often found after the string that
            // causes it. The strings on their own show it.
            if check_tokens(&emitted, DELIMITERS, budget).is_err() {
                let mut path = VALUES.to_owned();
                check_strings(values, &mut path, budget, problems);
            }
            if problems.is_empty() {
                problems.push(invalid(path(error.offset), error));
            }
        }
    }
}

/// Adds the strings that do not split into tokens on their own.
fn check_strings(
    entries: &Map<String, Value>,
    path: &mut String,
    budget: &Budget,
    problems: &mut Vec<TemplateProblem>,
) {
    let length = path.len();
    for (key, value) in entries {
        path.push('.');
        path.push_str(key);
        check_string(key, path, budget, problems);
        check_value(value, path, budget, problems);
        path.truncate(length);
    }
}

fn check_value(value: &Value, path: &mut String, budget: &Budget, problems: &mut Vec<TemplateProblem>) {
    match value {
        Value::String(text) => check_string(text, path, budget, problems),
        Value::Array(items) => {
            let length = path.len();
            for (index, item) in items.iter().enumerate() {
                // Writing into a String does not fail.
                let _ = write!(path, "[{index}]");
                check_value(item, path, budget, problems);
                path.truncate(length);
            }
        }
        Value::Object(entries) => check_strings(entries, path, budget, problems),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn check_string(text: &str, path: &str, budget: &Budget, problems: &mut Vec<TemplateProblem>) {
    if problems.len() < MAX_PROBLEMS
        && DELIMITERS.has_actions(text)
        && let Err(error) = check_tokens(text, DELIMITERS, budget)
        && budget.exceeded().is_none()
    {
        problems.push(invalid(path.to_owned(), error));
    }
}

fn invalid(path: String, error: TemplateError) -> TemplateProblem {
    TemplateProblem {
        path,
        piece: error.piece,
        message: error.kind.to_string(),
        kind: ProblemKind::Invalid,
    }
}

fn unsupported(path: String, function: UnsupportedFunction) -> TemplateProblem {
    TemplateProblem {
        path,
        message: syntax::unsupported(&function),
        piece: function.name,
        kind: ProblemKind::UnsupportedFunction,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn problems(helm: &Value) -> Vec<TemplateProblem> {
        let helm: HelmOptions = serde_json::from_str(&helm.to_string()).unwrap();
        check(&helm, &check_budget())
    }

    fn texts(helm: &Value) -> Vec<String> {
        problems(helm)
            .into_iter()
            .map(|problem| format!("{}: {:?}: {}", problem.path, problem.piece, problem.message))
            .collect()
    }

    #[test]
    fn an_error_has_the_path_of_its_string() {
        for (values, expected) in [
            (
                json!({ "a": { "b": "${ .ClusterLabels.env " }, "c": "${ .ClusterName }" }),
                "helm.values.a.b: \"${ .ClusterLabels.env\": unclosed action",
            ),
            (
                json!({ "a": [1, { "b": "x ${ .ClusterName" }], "z": 1 }),
                "helm.values.a[1].b: \"${ .ClusterName\": unclosed action",
            ),
            (
                json!({ "a": "${ .ClusterName }", "b": "${ xyz }" }),
                "helm.values.b: \"xyz\": function \"xyz\" not defined",
            ),
            (
                json!({ "a": "${ .ClusterName }", "b": "${ upper = 1 }" }),
                "helm.values.b: \"=\": unexpected \"=\" in operand",
            ),
            (
                json!({ "a": "${ if true }" }),
                "helm.values: \"\": unexpected EOF; an {{end}} is missing",
            ),
            (
                json!({ "a": { "${ xyz }": 1 } }),
                "helm.values.a.${ xyz }: \"xyz\": function \"xyz\" not defined",
            ),
        ] {
            assert_eq!(texts(&json!({ "values": values })), [expected], "{values}");
        }
        let helm = json!({ "templateValues": { "a": "${ .ClusterName", "b": "${ end }", "c": "c" } });
        assert_eq!(
            texts(&helm),
            [
                "helm.templateValues.a: \"${ .ClusterName\": unclosed action",
                "helm.templateValues.b: \"end\": unexpected {{end}}"
            ]
        );
        assert!(
            problems(&helm)
                .iter()
                .all(|problem| problem.kind == ProblemKind::Invalid)
        );
    }

    #[test]
    fn an_action_with_escaped_characters_is_checked() {
        let text = r#"{ "values": { "a": "\u0024\u007b xyz }" } }"#;
        let helm: HelmOptions = serde_json::from_str(text).unwrap();
        let found = check(&helm, &check_budget());
        assert_eq!(found[0].message, "function \"xyz\" not defined");
    }

    #[test]
    fn unsupported_functions_are_no_errors() {
        let helm = json!({
            "values": { "a": "${ randAlpha 5 }", "b": ["${ now }", "${ now }"] },
            "templateValues": { "ca": "${ genCA \"a\" 1 }" }
        });
        let problems = problems(&helm);
        let found: Vec<_> = problems
            .iter()
            .map(|problem| (&*problem.path, &*problem.piece, problem.kind))
            .collect();
        assert_eq!(
            found,
            [
                ("helm.values.a", "randAlpha", ProblemKind::UnsupportedFunction),
                ("helm.values.b[0]", "now", ProblemKind::UnsupportedFunction),
                (
                    "helm.templateValues.ca",
                    "genCA",
                    ProblemKind::UnsupportedFunction
                ),
            ]
        );
    }

    #[test]
    fn what_rendering_accepts_has_no_problem() {
        for helm in [
            json!({}),
            json!({ "values": null }),
            json!({ "values": { "a": "plain", "b": 1, "c": "{{ .Values.x }}" } }),
            // A block over several strings.
            json!({ "values": { "a": "${ if .ClusterName }", "b": "${ end }" } }),
            json!({ "values": { "a": "${ define \"t\" }${ . }${ end }", "b": "${ template \"t\" . }" } }),
            // Replaced by the value of a label, and therefore never parsed.
            json!({ "values": { "a": "global.fleet.clusterLabels.${", "b": "${ .ClusterName }" } }),
            json!({ "templateValues": { "a": "1" } }),
        ] {
            assert_eq!(texts(&helm), Vec::<String>::new(), "{helm}");
        }
    }

    #[test]
    fn problems_and_work_are_limited() {
        let templates: Map<String, Value> =
            (0..100).map(|index| (format!("k{index}"), json!("${"))).collect();
        for field in ["values", "templateValues"] {
            assert_eq!(
                problems(&json!({ field: templates })).len(),
                MAX_PROBLEMS,
                "{field}"
            );
        }
        let large: Map<String, Value> = (0..100_000)
            .map(|index| (format!("k{index}"), json!("${x")))
            .collect();
        let helm: HelmOptions = serde_json::from_str(&json!({ "values": large }).to_string()).unwrap();
        let budget = check_budget();
        for _ in 0..20 {
            _ = check(&helm, &budget);
        }
        assert!(budget.exceeded().is_some());
        assert_eq!(check(&helm, &budget), []);
    }
}
