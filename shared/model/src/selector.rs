//! Label selectors with the semantics of Kubernetes.

use std::collections::{BTreeMap, HashSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use thiserror::Error;

use crate::validation;

/// A selector that Kubernetes rejects.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{0}")]
pub struct InvalidSelector(String);

/// A valid label selector.
#[derive(Clone, Debug)]
pub struct Selector<'a> {
    labels: Option<&'a BTreeMap<String, String>>,
    expressions: Vec<Expression<'a>>,
}

/// An expression of a selector.
#[derive(Clone, Debug)]
struct Expression<'a> {
    key: &'a str,
    operator: &'a str,
    /// A set, because the values are compared with each of many clusters.
    values: HashSet<&'a str>,
}

impl<'a> Selector<'a> {
    /// Checks a selector. `path` names it in the error.
    ///
    /// # Errors
    /// If Kubernetes would reject it.
    pub fn new(path: &str, selector: &'a LabelSelector) -> Result<Self, InvalidSelector> {
        if let Some(error) = validation::selector::errors(path, selector) {
            return Err(InvalidSelector(error));
        }
        let expressions = selector.match_expressions.iter().flatten();
        Ok(Self {
            labels: selector.match_labels.as_ref(),
            expressions: expressions.map(Expression::of).collect(),
        })
    }

    /// Whether it matches an object with these labels. An empty selector matches everything.
    pub fn matches(&self, labels: Option<&BTreeMap<String, String>>) -> bool {
        let value = |key: &str| labels.and_then(|labels| labels.get(key));
        let mut equal = self.labels.iter().copied().flatten();
        let mut expressions = self.expressions.iter();
        equal.all(|(key, expected)| value(key) == Some(expected))
            && expressions.all(|expression| expression.matches(value(expression.key)))
    }
}

impl<'a> Expression<'a> {
    fn of(expression: &'a LabelSelectorRequirement) -> Self {
        let values = expression.values.iter().flatten();
        Self {
            key: &expression.key,
            operator: &expression.operator,
            values: values.map(String::as_str).collect(),
        }
    }

    fn matches(&self, value: Option<&String>) -> bool {
        let is_listed = || value.is_some_and(|value| self.values.contains(value.as_str()));
        match self.operator {
            "In" => is_listed(),
            "NotIn" => !is_listed(),
            "Exists" => value.is_some(),
            "DoesNotExist" => value.is_none(),
            // `Selector::new` has rejected any other operator.
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn selector(value: &Value) -> LabelSelector {
        serde_json::from_value(value.clone()).unwrap()
    }

    #[test]
    fn each_operator_matches_as_in_kubernetes() {
        let labels = BTreeMap::from([("env".to_owned(), "prod".to_owned())]);
        let expression = |key: &str, operator: &str, values: &[&str]| {
            let values = (!values.is_empty()).then_some(values);
            json!({ "matchExpressions": [{ "key": key, "operator": operator, "values": values }] })
        };
        for (value, expected) in [
            (json!({}), true),
            (json!({ "matchLabels": { "env": "prod" } }), true),
            (json!({ "matchLabels": { "env": "dev" } }), false),
            (json!({ "matchLabels": { "env": "prod", "region": "eu" } }), false),
            (expression("env", "In", &["dev", "prod"]), true),
            (expression("env", "In", &["dev"]), false),
            (expression("region", "In", &["eu"]), false),
            (expression("env", "NotIn", &["dev"]), true),
            (expression("env", "NotIn", &["prod"]), false),
            (expression("region", "NotIn", &["eu"]), true),
            (expression("env", "Exists", &[]), true),
            (expression("region", "Exists", &[]), false),
            (expression("env", "DoesNotExist", &[]), false),
            (expression("region", "DoesNotExist", &[]), true),
        ] {
            let selector = selector(&value);
            let selector = Selector::new("clusterSelector", &selector).unwrap();
            assert_eq!(selector.matches(Some(&labels)), expected, "{value}");
        }
        let unmatched = selector(&json!({ "matchLabels": { "a": "b" } }));
        assert!(!Selector::new("s", &unmatched).unwrap().matches(None));
    }

    #[test]
    fn a_selector_that_kubernetes_rejects_is_invalid() {
        for invalid in [
            json!({ "matchExpressions": [{ "key": "env", "operator": "Is" }] }),
            json!({ "matchExpressions": [{ "key": "env", "operator": "In" }] }),
            json!({ "matchLabels": { "env": "a b" } }),
        ] {
            let selector = selector(&invalid);
            let error = Selector::new("clusterSelector", &selector)
                .unwrap_err()
                .to_string();
            assert!(error.starts_with("clusterSelector."), "{error}");
        }
    }
}
