//! The structural schema of a CRD, and what the API server checks with it.
//!
//! Rules in CEL are not evaluated: admission has the same rules, with better messages. A test compares both lists.

mod check;

use std::{collections::BTreeMap, sync::LazyLock};

use helmops_api::crds;
use serde_json::Value;

pub use self::check::{Finding, check};
use super::kind::Kind;

/// How deep a field is looked for.
const MAX_DEPTH: usize = 6;

/// The type that a schema demands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// A text.
    String,
    /// A whole number.
    Integer,
    Number,
    /// `true` or `false`.
    Boolean,
    /// A mapping.
    Object,
    /// A list.
    Array,
    /// A whole number or a text.
    IntOrString,
}

/// The schema of a value. Only what the CRDs here use is read: a test compares the keywords.
#[derive(Clone, Debug, Default)]
pub struct Schema {
    kind: Option<Type>,
    is_nullable: bool,
    keeps_unknown: bool,
    properties: BTreeMap<String, Schema>,
    additional: Option<Box<Schema>>,
    items: Option<Box<Schema>>,
    required: Vec<String>,
    allowed: Vec<Value>,
    min_length: Option<u64>,
    max_length: Option<u64>,
    max_items: Option<u64>,
    max_properties: Option<u64>,
}

/// The schema of each kind that is validated. They are built when the first object is validated.
pub static SCHEMAS: LazyLock<BTreeMap<Kind, Schema>> = LazyLock::new(|| {
    let schemas = Kind::ALL.into_iter().zip(of_kinds());
    schemas
        .map(|(kind, schema)| (kind, Schema::from_value(&schema)))
        .collect()
});

/// The schemas of all kinds, in their order, for objects as users write them.
fn of_kinds() -> [Value; Kind::ALL.len()] {
    let crds: Vec<_> = [crds::all(), crds::of_notifications(), crds::of_clusters()]
        .into_iter()
        .flat_map(Result::unwrap_or_default)
        .map(|(_, crd)| crd.spec)
        .collect();
    Kind::ALL.map(|kind| {
        let crd = crds
            .iter()
            .find(|crd| crd.names.kind == kind.as_str() && crd.group == kind.group());
        let version = crd.and_then(|crd| crd.versions.first());
        let schema = version.and_then(|version| version.schema.as_ref()?.open_api_v3_schema.as_ref());
        let mut schema = serde_json::to_value(schema).unwrap_or_default();
        // The API server drops the status of an object that is applied.
        if let Some(status) = schema.pointer_mut("/properties/status") {
            *status = serde_json::json!({ "x-kubernetes-preserve-unknown-fields": true });
        }
        // CRDs have none of metadata: it is the same for all kinds.
        if let Some(metadata) = schema.pointer_mut("/properties/metadata") {
            *metadata = super::metadata::schema();
        }
        schema
    })
}

impl Schema {
    /// The path of the field with a name that is least deep, if there is one of that depth only, and a scalar is possible there or not.
    /// Metadata has fields of its own.
    fn path_of(&self, name: &str, is_scalar: bool) -> Option<String> {
        let mut level = vec![(String::new(), self)];
        for _ in 0..MAX_DEPTH {
            let mut found = level
                .iter()
                .filter(|(_, schema)| schema.properties.contains_key(name));
            match (found.next(), found.next()) {
                (Some((path, schema)), None) => {
                    let kind = schema.properties.get(name).and_then(|schema| schema.kind);
                    let takes_scalar = !matches!(kind, Some(Type::Object | Type::Array));
                    return (takes_scalar == is_scalar).then(|| format!("{path}{name}"));
                }
                (Some(_), Some(_)) => return None,
                (None, _) => {}
            }
            level = level
                .iter()
                .flat_map(|(path, schema)| schema.children(path))
                .collect();
        }
        None
    }

    /// The schemas of fields, with the starts of the paths of their own fields.
    fn children<'s>(&'s self, path: &str) -> Vec<(String, &'s Self)> {
        let is_metadata = |name: &str| matches!(name, "metadata" | "commonMetadata");
        let properties = self.properties.iter().filter(|(name, _)| !is_metadata(name));
        properties
            .map(|(name, schema)| match &schema.items {
                Some(items) => (format!("{path}{name}[]."), &**items),
                None => (format!("{path}{name}."), schema),
            })
            .collect()
    }

    /// Reads a structural schema.
    pub fn from_value(schema: &Value) -> Self {
        let is_set = |keyword: &str| schema.get(keyword).and_then(Value::as_bool).unwrap_or_default();
        let number = |keyword: &str| schema.get(keyword).and_then(Value::as_u64);
        let child = |keyword: &str| {
            let child = schema.get(keyword).filter(|child| child.is_object());
            child.map(|child| Box::new(Self::from_value(child)))
        };
        let list = |keyword: &str| {
            schema
                .get(keyword)
                .and_then(Value::as_array)
                .cloned()
                .unwrap_or_default()
        };
        let kind = match schema.get("type").and_then(Value::as_str) {
            _ if is_set("x-kubernetes-int-or-string") => Some(Type::IntOrString),
            Some("string") => Some(Type::String),
            Some("integer") => Some(Type::Integer),
            Some("number") => Some(Type::Number),
            Some("boolean") => Some(Type::Boolean),
            Some("object") => Some(Type::Object),
            Some("array") => Some(Type::Array),
            _ => None,
        };
        let properties = schema.get("properties").and_then(Value::as_object);
        let required = list("required");
        Self {
            kind,
            is_nullable: is_set("nullable"),
            keeps_unknown: is_set("x-kubernetes-preserve-unknown-fields"),
            properties: properties
                .into_iter()
                .flatten()
                .map(|(name, property)| (name.clone(), Self::from_value(property)))
                .collect(),
            additional: child("additionalProperties"),
            items: child("items"),
            required: required
                .iter()
                .filter_map(|name| name.as_str().map(str::to_owned))
                .collect(),
            allowed: list("enum"),
            min_length: number("minLength"),
            max_length: number("maxLength"),
            max_items: number("maxItems"),
            max_properties: number("maxProperties"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn walk(schema: &Value, keywords: &mut BTreeSet<String>, rules: &mut BTreeSet<String>) {
        for (keyword, value) in schema.as_object().into_iter().flatten() {
            keywords.insert(keyword.clone());
            match keyword.as_str() {
                "properties" => {
                    let properties = value.as_object().unwrap();
                    properties.values().for_each(|child| walk(child, keywords, rules));
                }
                "items" | "additionalProperties" => walk(value, keywords, rules),
                "x-kubernetes-validations" => {
                    for rule in value.as_array().unwrap() {
                        rules.insert(rule["message"].as_str().unwrap().to_owned());
                    }
                }
                _ => {}
            }
        }
    }

    fn keywords_and_rules() -> (BTreeSet<String>, BTreeSet<String>) {
        let (mut keywords, mut rules) = (BTreeSet::new(), BTreeSet::new());
        for schema in of_kinds() {
            assert!(
                schema
                    .pointer("/properties/spec")
                    .or(schema.pointer("/properties/helmOp"))
                    .is_some(),
                "{schema}"
            );
            walk(&schema, &mut keywords, &mut rules);
        }
        (keywords, rules)
    }

    #[test]
    fn no_keyword_of_the_crds_is_overlooked() {
        let (keywords, _) = keywords_and_rules();
        let read = [
            "additionalProperties",
            "enum",
            "items",
            "maxItems",
            "maxLength",
            "maxProperties",
            "minLength",
            "nullable",
            "properties",
            "required",
            "type",
            "x-kubernetes-int-or-string",
            "x-kubernetes-preserve-unknown-fields",
        ];
        // No meaning for the check of one object, or checked by admission.
        let ignored = [
            "default",
            "description",
            "format",
            "pattern",
            "x-kubernetes-validations",
            "x-kubernetes-map-type",
        ];
        let unknown: Vec<_> = keywords
            .iter()
            .filter(|keyword| !read.contains(&keyword.as_str()) && !ignored.contains(&keyword.as_str()))
            .collect();
        assert_eq!(unknown, Vec::<&String>::new());
    }

    #[test]
    fn a_field_is_found_where_it_belongs() {
        let schema = &SCHEMAS[&Kind::HelmOp];
        for (name, is_scalar, expected) in [
            ("pollingInterval", true, Some("spec.pollingInterval")),
            ("repo", true, Some("spec.helm.repo")),
            ("clusterSelector", false, None),
            ("retries", true, None),
            (
                "maxUnavailable",
                true,
                Some("spec.rolloutStrategy.maxUnavailable"),
            ),
            ("wait", true, None),
            ("spec", false, Some("spec")),
            ("annotations", false, None),
            ("unknown", true, None),
        ] {
            assert_eq!(schema.path_of(name, is_scalar).as_deref(), expected, "{name}");
        }
    }

    /// Each rule in CEL has a mistake in the table of admission, whose test shows that it is reported.
    #[test]
    fn rules_in_cel_are_rules_of_admission_too() {
        let (_, rules) = keywords_and_rules();
        let known = [
            "force replaces objects",
            "helm.atomic cannot be combined",
            "install.cleanupOnFail has no effect",
            "install.remediation must be none",
            "must be a valid Go duration",
            "retries must be from 0 to 1000",
            "wait.timeout and wait.expressions have no effect",
        ];
        for rule in &rules {
            assert!(known.iter().any(|start| rule.starts_with(start)), "{rule}");
        }
        assert!(rules.len() >= known.len());
    }
}
