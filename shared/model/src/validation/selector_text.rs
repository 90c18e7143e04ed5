//! Selectors of labels or annotations in text form, as in `kubectl get --selector`.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

use super::names;

/// A selector: all requirements have to be fulfilled.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SelectorText(Vec<Requirement>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    operator: Operator,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Operator {
    Exists,
    DoesNotExist,
    In(Vec<String>),
    NotIn(Vec<String>),
}

impl SelectorText {
    /// Parses a selector such as `app=web,tier in (a, b),!canary`. An empty one selects everything.
    ///
    /// # Errors
    /// What is wrong with which part.
    pub fn parse(text: &str) -> Result<Self, String> {
        let parts = if text.trim().is_empty() {
            Vec::new()
        } else {
            split(text)?
        };
        parts
            .into_iter()
            .map(requirement)
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// Whether an object with these labels or annotations is selected.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.0.iter().all(|of| {
            let value = labels.get(&of.key);
            match &of.operator {
                Operator::Exists => value.is_some(),
                Operator::DoesNotExist => value.is_none(),
                Operator::In(values) => value.is_some_and(|value| values.contains(value)),
                // As in Kubernetes, an object without the label is selected.
                Operator::NotIn(values) => value.is_none_or(|value| !values.contains(value)),
            }
        })
    }
}

/// The same selector as a field of an object: a single value is in `matchLabels`.
impl From<SelectorText> for LabelSelector {
    fn from(text: SelectorText) -> Self {
        let mut selector = Self::default();
        for Requirement { key, operator } in text.0 {
            let (operator, values) = match operator {
                Operator::In(values) if values.len() == 1 => {
                    let labels = selector.match_labels.get_or_insert_default();
                    labels.extend(values.into_iter().map(|value| (key.clone(), value)));
                    continue;
                }
                Operator::In(values) => ("In", Some(values)),
                Operator::NotIn(values) => ("NotIn", Some(values)),
                Operator::Exists => ("Exists", None),
                Operator::DoesNotExist => ("DoesNotExist", None),
            };
            let requirements = selector.match_expressions.get_or_insert_default();
            requirements.push(LabelSelectorRequirement {
                key,
                operator: operator.to_owned(),
                values,
            });
        }
        selector
    }
}

/// Splits at commas outside of parentheses.
fn split(text: &str) -> Result<Vec<&str>, String> {
    let (mut parts, mut start, mut is_open) = (Vec::new(), 0, false);
    for (index, character) in text.char_indices() {
        match character {
            '(' if is_open => return Err("parentheses are nested; write key in (a, b)".to_owned()),
            '(' => is_open = true,
            ')' if !is_open => return Err("a ) has no (; write key in (a, b)".to_owned()),
            ')' => is_open = false,
            ',' if !is_open => {
                parts.extend(text.get(start..index));
                start = index + 1;
            }
            _ => {}
        }
    }
    if is_open {
        return Err("a ( is not closed; write key in (a, b)".to_owned());
    }
    parts.extend(text.get(start..));
    Ok(parts)
}

fn requirement(text: &str) -> Result<Requirement, String> {
    let text = text.trim();
    let (key, operator) = if let Some((key, values)) = text.split_once('(') {
        set(key, values)?
    } else if let Some((key, value)) = text.split_once("!=") {
        (key, Operator::NotIn(vec![value.trim().to_owned()]))
    } else if let Some((key, value)) = text.split_once('=') {
        let value = value.strip_prefix('=').unwrap_or(value);
        (key, Operator::In(vec![value.trim().to_owned()]))
    } else if let Some(key) = text.strip_prefix('!') {
        (key, Operator::DoesNotExist)
    } else {
        (text, Operator::Exists)
    };
    let key = key.trim();
    names::label_key(key).map_err(|problem| format!("{key:?} is not a key: {problem}"))?;
    if let Operator::In(values) | Operator::NotIn(values) = &operator {
        for value in values {
            names::label_value(value).map_err(|problem| format!("value {value:?} of {key}: {problem}"))?;
        }
    }
    Ok(Requirement {
        key: key.to_owned(),
        operator,
    })
}

/// `key in (a, b)` or `key notin (a, b)`, without the opening parenthesis.
fn set<'t>(key: &'t str, values: &str) -> Result<(&'t str, Operator), String> {
    let Some((values, "")) = values.trim_end().split_once(')') else {
        return Err(format!(
            "after {key:?} a list such as (a, b) is expected, and nothing after it"
        ));
    };
    let values = values.split(',').map(|value| value.trim().to_owned()).collect();
    match key.trim().rsplit_once(char::is_whitespace) {
        Some((key, "in")) => Ok((key, Operator::In(values))),
        Some((key, "notin")) => Ok((key, Operator::NotIn(values))),
        _ => Err(format!(
            "{:?} has no operator; write key in (a, b) or key notin (a, b)",
            key.trim()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selector_is_a_field_of_an_object_too() {
        let selector = |text| serde_json::json!(LabelSelector::from(SelectorText::parse(text).unwrap()));
        for (text, expected) in [
            ("", serde_json::json!({})),
            (
                "env=prod,tier==web",
                serde_json::json!({ "matchLabels": { "env": "prod", "tier": "web" } }),
            ),
            (
                "a in (b, c),d!=e,f,!g",
                serde_json::json!({ "matchExpressions": [
                    { "key": "a", "operator": "In", "values": ["b", "c"] },
                    { "key": "d", "operator": "NotIn", "values": ["e"] },
                    { "key": "f", "operator": "Exists" },
                    { "key": "g", "operator": "DoesNotExist" },
                ] }),
            ),
        ] {
            assert_eq!(selector(text), expected, "{text}");
        }
    }

    #[test]
    fn selectors_select_as_kubectl_does() {
        let labels = |text: &str| {
            let pairs = text.split(' ').filter_map(|pair| pair.split_once('='));
            pairs
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .collect::<BTreeMap<_, _>>()
        };
        for (selector, object, expected) in [
            ("", "", true),
            ("a", "a=1", true),
            ("a", "b=1", false),
            ("!a", "b=1", true),
            ("!a", "a=", false),
            ("a=1", "a=1", true),
            ("a==1", "a=1", true),
            ("a = 1", "a=2", false),
            ("a=", "a=", true),
            ("a!=1", "a=2", true),
            ("a!=1", "", true),
            ("a!=1", "a=1", false),
            ("a in (1, 2)", "a=2", true),
            ("a in (1,2)", "a=3", false),
            ("a in (1)", "", false),
            ("a notin (1,2)", "a=3", true),
            ("a notin (1,2)", "", true),
            ("a notin (1,2)", "a=1", false),
            ("example.com/a=1,!b", "example.com/a=1", true),
            ("a in (1,2),b=3", "a=1 b=4", false),
        ] {
            let parsed = SelectorText::parse(selector).unwrap();
            assert_eq!(
                parsed.matches(&labels(object)),
                expected,
                "{selector:?} and {object:?}"
            );
        }
    }

    #[test]
    fn invalid_selectors_are_errors() {
        for (text, expected) in [
            ("a=1,", "\"\" is not a key"),
            ("=1", "\"\" is not a key"),
            ("a b", "\"a b\" is not a key"),
            ("a in 1", "\"a in 1\" is not a key"),
            ("a in (1", "a ( is not closed"),
            ("a in 1)", "a ) has no ("),
            ("a in ((1))", "parentheses are nested"),
            ("a (1)", "\"a\" has no operator; write key in (a, b)"),
            ("a in (1) b", "and nothing after it"),
            ("a in (b c)", "value \"b c\" of a"),
            ("a=b c", "value \"b c\" of a"),
            ("a>1", "\"a>1\" is not a key"),
        ] {
            let error = SelectorText::parse(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
