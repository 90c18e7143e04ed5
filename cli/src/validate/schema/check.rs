//! Compares a value with its schema, as the API server does before admission.

use go_formats::yaml::place::{Content, Place, Span};
use serde_json::{Map, Value};

use super::{Schema, Type};
use crate::cluster::alike::alike;
use crate::validate::{
    locate::head,
    problem::{Severity, rule},
    source::Source,
};

/// Unknown fields of one object, and other findings; more would not help. Each has its own limit, so that none hides the others.
const MAX_FINDINGS: usize = 100;
/// Bytes of a value that a message quotes.
const QUOTED: usize = 80;

/// Something that the API server would reject or drop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// One of [`rule`].
    pub rule: &'static str,
    /// The path of the field.
    pub path: String,
    /// Where it is.
    pub span: Span,
    /// The alias by which it became a part of the object.
    pub alias: Option<Span>,
    /// What is wrong.
    pub message: String,
    /// How to fix it.
    pub fix: String,
}

/// The parts of a check that do not change.
struct Check<'s> {
    /// The schema of the whole object.
    root: &'s Schema,
    source: &'s Source,
    findings: Vec<Finding>,
}

/// Where a value is in its object, and its key in the text.
#[derive(Clone, Copy)]
struct At<'a> {
    path: &'a str,
    key: Option<Span>,
    alias: Option<Span>,
    place: &'a Place,
}

/// Checks a value. Parts of a wrong type are removed from it, so that it decodes and the rest can be checked by admission.
pub fn check(
    schema: &Schema,
    source: &Source,
    path: &str,
    value: &mut Value,
    place: &Place,
    key: Option<Span>,
) -> Vec<Finding> {
    let mut check = Check {
        root: schema,
        source,
        findings: Vec::new(),
    };
    let at = At {
        path,
        key,
        alias: place.alias,
        place,
    };
    if !check.value(schema, value, at) {
        *value = zero(schema.kind);
    }
    check.findings
}

impl Check<'_> {
    /// Checks a value; returns whether it has the type that the schema demands.
    fn value(&mut self, schema: &Schema, value: &mut Value, at: At<'_>) -> bool {
        if value.is_null() && schema.is_nullable || schema.kind.is_none() {
            return true;
        }
        if !has_type(value, schema.kind) {
            self.wrong_type(schema, value, at);
            return false;
        }
        match value {
            Value::Object(entries) => self.object(schema, entries, at),
            Value::Array(items) => self.list(schema, items, at),
            Value::String(text) => self.text(schema, text, at),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
        true
    }

    fn object(&mut self, schema: &Schema, entries: &mut Map<String, Value>, at: At<'_>) {
        self.count(entries.len(), schema.max_properties, "entries", at);
        for name in &schema.required {
            if !entries.contains_key(name) {
                let message = format!("Required value: {name} is missing");
                let path = join(at.path, name);
                let span = at.key.unwrap_or_else(|| head(self.source, at.place));
                self.add(
                    rule::REQUIRED,
                    path,
                    span,
                    at.alias,
                    message,
                    format!("add {name}"),
                );
            }
        }
        let mut wrong = Vec::new();
        for (name, value) in entries.iter_mut() {
            let Some(entry) = at.place.entry(name) else {
                continue;
            };
            let child = schema.properties.get(name).or(schema.additional.as_deref());
            let path = if schema.properties.contains_key(name) || child.is_none() {
                join(at.path, name)
            } else {
                format!("{}[{name}]", at.path)
            };
            let inner = At {
                path: &path,
                key: Some(entry.key),
                alias: entry.value.alias.or(at.alias),
                place: &entry.value,
            };
            match child {
                Some(child) => {
                    if !self.value(child, value, inner) {
                        wrong.push(name.clone());
                    }
                }
                None if schema.keeps_unknown => {}
                None => self.unknown(schema, name, inner),
            }
        }
        for name in wrong {
            entries.remove(&name);
        }
    }

    fn list(&mut self, schema: &Schema, items: &mut [Value], at: At<'_>) {
        self.count(items.len(), schema.max_items, "items", at);
        let Some(child) = schema.items.as_deref() else {
            return;
        };
        for (index, item) in items.iter_mut().enumerate() {
            let Some(place) = at.place.item(index) else {
                continue;
            };
            let path = format!("{}[{index}]", at.path);
            let inner = At {
                path: &path,
                key: None,
                alias: place.alias.or(at.alias),
                place,
            };
            // Not removed: the indexes of those after it would change.
            if !self.value(child, item, inner) {
                *item = zero(child.kind);
            }
        }
    }

    fn text(&mut self, schema: &Schema, text: &str, at: At<'_>) {
        let length = text.chars().count() as u64;
        if let Some(max) = schema.max_length.filter(|max| length > *max) {
            let message = format!("Too long: {length} characters; at most {max} are allowed");
            self.about_value(rule::VALUE, at, message, "make it shorter".to_owned());
        }
        if let Some(min) = schema.min_length.filter(|min| length < *min) {
            let message = format!("Invalid value: {}: needs at least {min} characters", quoted(text));
            self.about_value(
                rule::VALUE,
                at,
                message,
                "leave the field out, or give it a value".to_owned(),
            );
        }
        if !schema.allowed.is_empty() && !schema.allowed.iter().any(|allowed| allowed == text) {
            let allowed: Vec<_> = schema
                .allowed
                .iter()
                .filter_map(Value::as_str)
                .filter(|text| !text.is_empty())
                .collect();
            let message = format!(
                "Unsupported value: {}: supported values: {}",
                quoted(text),
                allowed.join(", ")
            );
            let fix = alike(text, allowed.iter().copied());
            let fix = fix
                .first()
                .map_or_else(String::new, |fix| format!("did you mean {fix}?"));
            self.about_value(rule::VALUE, at, message, fix);
        }
    }

    fn count(&mut self, count: usize, max: Option<u64>, what: &str, at: At<'_>) {
        if let Some(max) = max.filter(|max| count as u64 > *max) {
            let message = format!("Too many: {count} {what}; at most {max} are allowed");
            let span = at.key.unwrap_or_else(|| head(self.source, at.place));
            self.add(
                rule::VALUE,
                at.path.to_owned(),
                span,
                at.alias,
                message,
                String::new(),
            );
        }
    }

    fn wrong_type(&mut self, schema: &Schema, value: &Value, at: At<'_>) {
        let text = self.source.slice(at.place.span).trim();
        let is_scalar = at.place.content == Content::Scalar;
        let found = match value {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Number(number) if number.is_f64() => "number",
            Value::Number(_) => "integer",
            Value::String(_) => "string",
            Value::Array(_) => "list",
            Value::Object(_) => "mapping",
        };
        let expected = match schema.kind {
            Some(Type::String) => "a string",
            Some(Type::Integer) => "an integer",
            Some(Type::Number) => "a number",
            Some(Type::Boolean) => "true or false",
            Some(Type::Object) => "a mapping",
            Some(Type::Array) => "a list",
            Some(Type::IntOrString) | None => "an integer or a string",
        };
        let shown = if is_scalar && !text.is_empty() {
            format!(
                "{} is of type {found}",
                bounded_text::cut(text.to_owned(), QUOTED)
            )
        } else {
            format!("of type {found}")
        };
        let unquoted = text.trim_matches(['"', '\'']);
        let fix = match (schema.kind, value) {
            (_, Value::Null) => "give it a value, or leave the field out".to_owned(),
            (Some(Type::String), Value::Bool(_) | Value::Number(_)) => {
                format!("write it in quotes: \"{text}\"")
            }
            (Some(Type::Boolean | Type::Integer), Value::String(_))
                if !unquoted.is_empty() && unquoted.len() < text.len() =>
            {
                format!("write it without quotes: {unquoted}")
            }
            (Some(Type::Array), Value::Object(_)) => "start each item with -".to_owned(),
            (Some(Type::Array), _) if is_scalar => format!(
                "write it as a list: [{}]",
                bounded_text::cut(text.to_owned(), QUOTED)
            ),
            (Some(Type::Object), Value::Array(_)) => "write key: value, without - and [ ]".to_owned(),
            _ => String::new(),
        };
        let message = format!("Invalid value: {shown}; it must be {expected}");
        self.about_value(rule::TYPE, at, message, fix);
    }

    fn unknown(&mut self, schema: &Schema, name: &str, at: At<'_>) {
        if !self.has_room(true) {
            return;
        }
        let known = schema.properties.keys().map(String::as_str);
        let place = self.root.path_of(name, at.place.content == Content::Scalar);
        let fix = match (place, alike(name, known).first()) {
            (Some(path), _) => format!("move it to {path} if you mean that field, or else remove it"),
            (None, Some(similar)) => format!("did you mean {similar}?"),
            (None, None) => "remove it, or move it to where it belongs".to_owned(),
        };
        let span = at.key.unwrap_or(at.place.span);
        let alias = at.alias.filter(|_| at.place.alias.is_none());
        self.push(Finding {
            severity: Severity::Error,
            rule: rule::UNKNOWN_FIELD,
            path: at.path.to_owned(),
            span,
            alias,
            message: "unknown field; kubectl rejects it, and without its validation the API server drops it"
                .to_owned(),
            fix,
        });
    }

    /// Adds an error about a value: a scalar, or the key of anything else.
    fn about_value(&mut self, rule: &'static str, at: At<'_>, message: String, fix: String) {
        let text = self.source.slice(at.place.span);
        let is_scalar = at.place.content == Content::Scalar && !text.trim().is_empty();
        let span = match at.key {
            Some(key) if !is_scalar => key,
            None if !is_scalar => head(self.source, at.place),
            _ => Span {
                start: at.place.span.start,
                end: at.place.span.start + text.trim_end().len(),
            },
        };
        self.add(rule, at.path.to_owned(), span, at.alias, message, fix);
    }

    fn add(
        &mut self,
        rule: &'static str,
        path: String,
        span: Span,
        alias: Option<Span>,
        message: String,
        fix: String,
    ) {
        self.push(Finding {
            severity: Severity::Error,
            rule,
            path,
            span,
            alias,
            message,
            fix,
        });
    }

    fn push(&mut self, finding: Finding) {
        if self.has_room(finding.rule == rule::UNKNOWN_FIELD) {
            self.findings.push(finding);
        }
    }

    /// Whether another finding about an unknown field, or about anything else, is kept.
    fn has_room(&self, is_unknown: bool) -> bool {
        let of = |finding: &Finding| (finding.rule == rule::UNKNOWN_FIELD) == is_unknown;
        self.findings.iter().filter(|finding| of(finding)).count() < MAX_FINDINGS
    }
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() {
        name.to_owned()
    } else {
        format!("{path}.{name}")
    }
}

fn quoted(text: &str) -> String {
    format!("{:?}", bounded_text::cut(text.to_owned(), QUOTED))
}

fn has_type(value: &Value, kind: Option<Type>) -> bool {
    match kind {
        None => true,
        Some(Type::String) => value.is_string(),
        Some(Type::Integer) => value.is_i64() || value.is_u64(),
        Some(Type::Number) => value.is_number(),
        Some(Type::Boolean) => value.is_boolean(),
        Some(Type::Object) => value.is_object(),
        Some(Type::Array) => value.is_array(),
        Some(Type::IntOrString) => value.is_string() || value.is_i64() || value.is_u64(),
    }
}

/// A value that takes the place of one of the wrong type.
fn zero(kind: Option<Type>) -> Value {
    match kind {
        Some(Type::String) => Value::String(String::new()),
        Some(Type::Integer | Type::Number | Type::IntOrString) => 0.into(),
        Some(Type::Boolean) => false.into(),
        Some(Type::Object) => Value::Object(Map::new()),
        Some(Type::Array) => Value::Array(Vec::new()),
        None => Value::Null,
    }
}
