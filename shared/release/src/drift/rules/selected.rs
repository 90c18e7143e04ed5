//! Fields that are no drift, of objects that a selector selects: `lifecycle.drift.ignore`.

use std::collections::BTreeMap;

use go_formats::regexp::rewrite;
use helmops_api::lifecycle::{DriftIgnore, ObjectSelector};
use helmops_model::validation::selector_text::SelectorText;
use regex::{Regex, RegexBuilder};
use serde_json::Value;

use super::{RuleProblem, pointers::Pointer};
use crate::object::ObjectId;

/// Maximum size of a compiled expression, in bytes.
const MAX_COMPILED: usize = 64 * 1024;

/// Fields of objects that a selector selects.
#[derive(Clone, Debug)]
pub struct SelectedRule {
    /// Whether the whole object is ignored.
    is_whole: bool,
    pointers: Vec<Pointer>,
    target: Target,
}

/// The objects.
#[derive(Clone, Debug, Default)]
struct Target {
    group: String,
    version: String,
    kind: String,
    name: Option<Regex>,
    namespace: Option<Regex>,
    labels: SelectorText,
    annotations: SelectorText,
}

impl SelectedRule {
    /// The rule of an entry; `None` if its selector is invalid: without it, the rule would be for all objects.
    pub(super) fn new(index: usize, entry: &DriftIgnore, problems: &mut Vec<RuleProblem>) -> Option<Self> {
        let mut problem = |field: &str, value: &str, reason: String| {
            problems.push(RuleProblem {
                field: format!("lifecycle.drift.ignore[{index}].{field}"),
                value: value.to_owned(),
                reason,
            });
        };
        let mut pointers = Vec::new();
        for path in entry.paths.iter().filter(|path| !path.is_empty()) {
            match Pointer::parse(path) {
                Some(pointer) => pointers.push(pointer),
                None => problem(
                    "paths",
                    path,
                    "is no JSON pointer; it starts with a slash".to_owned(),
                ),
            }
        }
        let target = match &entry.target {
            None => Target::default(),
            Some(target) => match Target::new(target) {
                Ok(target) => target,
                Err((field, value, reason)) => {
                    problem(&format!("target.{field}"), value, reason);
                    return None;
                }
            },
        };
        Some(Self {
            is_whole: entry.paths.iter().any(String::is_empty),
            pointers,
            target,
        })
    }

    /// Whether the rule is for an object. One that is missing has no labels, so its desired object counts.
    pub fn matches(&self, id: &ObjectId, object: &Value) -> bool {
        self.target.matches(id, object)
    }

    /// Whether the whole object is ignored.
    pub const fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Leaves the fields of the live object as they are when `desired` is applied.
    pub fn keep(&self, desired: &mut Value, live: &Value) {
        for pointer in &self.pointers {
            pointer.copy(desired, live);
        }
    }

    /// Removes the fields.
    pub fn apply(&self, object: &mut Value) {
        for pointer in &self.pointers {
            pointer.remove(object);
        }
    }
}

impl Target {
    fn new(target: &ObjectSelector) -> Result<Self, (&'static str, &str, String)> {
        let pattern = |field, text| compile(text).map_err(|reason| (field, text, reason));
        let selector = |field, text| SelectorText::parse(text).map_err(|reason| (field, text, reason));
        Ok(Self {
            group: target.group.clone(),
            version: target.version.clone(),
            kind: target.kind.clone(),
            name: pattern("name", &*target.name)?,
            namespace: pattern("namespace", &*target.namespace)?,
            labels: selector("labelSelector", &*target.label_selector)?,
            annotations: selector("annotationSelector", &*target.annotation_selector)?,
        })
    }

    fn matches(&self, id: &ObjectId, object: &Value) -> bool {
        let is = |expected: &str, text: &str| expected.is_empty() || expected == text;
        let like = |pattern: &Option<Regex>, text: &str| {
            pattern.as_ref().is_none_or(|pattern| pattern.is_match(text))
        };
        is(&self.group, id.group())
            && is(&self.version, version(id))
            && is(&self.kind, &id.kind)
            && like(&self.name, &id.name)
            && like(&self.namespace, &id.namespace)
            && self.labels.matches(&texts(object, "/metadata/labels"))
            && self.annotations.matches(&texts(object, "/metadata/annotations"))
    }
}

fn version(id: &ObjectId) -> &str {
    let version = &*id.api_version;
    version.split_once('/').map_or(version, |(_, version)| version)
}

fn texts(object: &Value, pointer: &str) -> BTreeMap<String, String> {
    let fields = object.pointer(pointer).and_then(Value::as_object);
    let text = |(key, value): (&String, &Value)| Some((key.clone(), value.as_str()?.to_owned()));
    fields.into_iter().flatten().filter_map(text).collect()
}

/// An expression for the whole text; `None` for an empty one.
fn compile(expression: &str) -> Result<Option<Regex>, String> {
    if expression.is_empty() {
        return Ok(None);
    }
    let rewritten = rewrite(expression).map_err(|error| error.to_string())?;
    let whole = format!("^(?:{rewritten})$");
    let built = RegexBuilder::new(&whole).size_limit(MAX_COMPILED).build();
    built.map(Some).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rule(entry: &Value) -> (Option<SelectedRule>, Vec<String>) {
        let entry = serde_json::from_str(&entry.to_string()).unwrap();
        let mut problems = Vec::new();
        let rule = SelectedRule::new(0, &entry, &mut problems);
        (rule, problems.iter().map(ToString::to_string).collect())
    }

    fn object() -> Value {
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": { "name": "web-1", "namespace": "shop", "labels": { "app": "web" }, "annotations": { "owner": "me" } },
            "spec": { "replicas": 3, "paused": true },
        })
    }

    #[test]
    fn every_criterion_has_to_be_fulfilled() {
        for (target, expected) in [
            (json!({}), true),
            (
                json!({ "group": "apps", "version": "v1", "kind": "Deployment" }),
                true,
            ),
            (json!({ "group": "batch" }), false),
            (json!({ "version": "v2" }), false),
            (json!({ "kind": "Job" }), false),
            (json!({ "name": "web-.*", "namespace": "shop" }), true),
            (json!({ "name": "web" }), false),
            (json!({ "namespace": "sho" }), false),
            (json!({ "labelSelector": "app in (web, db)" }), true),
            (json!({ "labelSelector": "!app" }), false),
            (json!({ "annotationSelector": "owner=me" }), true),
            (json!({ "annotationSelector": "owner=you" }), false),
        ] {
            let (rule, _) = rule(&json!({ "paths": ["/spec/replicas"], "target": target }));
            let object = object();
            let id = ObjectId::of(&object).unwrap();
            assert_eq!(rule.unwrap().matches(&id, &object), expected, "{target}");
        }
    }

    #[test]
    fn fields_are_removed_and_an_empty_pointer_is_the_whole_object() {
        let (fields, _) = rule(&json!({ "paths": ["/spec/replicas"] }));
        let (fields, mut object) = (fields.unwrap(), object());
        fields.apply(&mut object);
        assert_eq!(object["spec"], json!({ "paused": true }));
        assert!(!fields.is_whole());
        assert!(rule(&json!({ "paths": [""] })).0.unwrap().is_whole());
    }

    #[test]
    fn fields_of_the_live_object_are_kept() {
        let (rule, _) =
            rule(&json!({ "paths": ["/spec/replicas", "/spec/paused", "/spec/other", "/spec/list/0/a"] }));
        let mut desired =
            json!({ "spec": { "replicas": 2, "paused": true, "image": "b", "list": [{ "a": 1 }] } });
        let live =
            json!({ "spec": { "replicas": 5, "image": "a", "other": "mine", "list": [{}, { "a": 2 }] } });
        rule.unwrap().keep(&mut desired, &live);
        assert_eq!(
            desired,
            json!({ "spec": { "replicas": 5, "image": "b", "list": [{ "a": 1 }] } })
        );
    }

    #[test]
    fn what_cannot_be_used_is_named() {
        let (with_pointer, problems) = rule(&json!({ "paths": ["spec/replicas"] }));
        assert!(with_pointer.is_some());
        assert!(
            problems[0].starts_with("lifecycle.drift.ignore[0].paths: \"spec/replicas\""),
            "{problems:?}"
        );
        for target in [
            json!({ "name": "(" }),
            json!({ "namespace": "[" }),
            json!({ "labelSelector": "a in" }),
        ] {
            let (without, problems) = rule(&json!({ "paths": ["/spec"], "target": target }));
            assert!(without.is_none() && problems.len() == 1, "{target}: {problems:?}");
        }
    }
}
