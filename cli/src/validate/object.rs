//! From the text of a file to its objects.

use std::{collections::BTreeMap, mem, sync::Arc};

use go_formats::yaml::{
    self, Quota,
    place::{Content, Place, Span},
};
use helmops_release::manifest::{MAX_NODES, MAX_SCALARS};
use serde_json::{Map, Value};

use crate::cluster::alike::alike;

use super::{
    documents,
    kind::Kind,
    locate::head,
    problem::{Severity, rule},
    schema::Finding,
    source::Source,
    syntax::{self, SyntaxError},
};

/// Objects of one file.
const MAX_OBJECTS: usize = 100_000;

/// An object of a file, with the place of each of its parts.
#[derive(Debug)]
pub struct Object {
    pub kind: Kind,
    /// Its content.
    pub value: Value,
    /// Where it is.
    pub place: Place,
    pub source: Arc<Source>,
    /// What kubectl would reject in it.
    pub findings: Vec<Finding>,
}

/// What a file contains.
#[derive(Debug, Default)]
pub struct Contents {
    /// The objects that are validated.
    pub objects: Vec<Object>,
    /// What kubectl would reject.
    pub findings: Vec<Finding>,
    /// The number of other objects.
    pub skipped: usize,
}

/// Reads the objects of a file.
pub fn read(source: &Arc<Source>) -> Contents {
    let mut content = Contents::default();
    let findings = each(source, &mut |found| match found {
        Ok((value, place)) => content.add(source, value, place),
        Err(finding) => content.findings.push(finding),
    });
    content.findings.extend(findings);
    content
}

/// Reads the values of a file: documents, and items of lists as `kubectl get` prints them; an error for each document that is no YAML.
/// Returns what kubectl would reject or ignore between them.
pub fn each(source: &Source, add: &mut impl FnMut(Result<(Value, Place), Finding>)) -> Vec<Finding> {
    let mut findings = Vec::new();
    let documents = documents::split(source.text());
    for span in documents.invalid_separators {
        findings.push(finding(
            rule::SYNTAX,
            span,
            "only a comment may follow --- in its line",
            "start the document in the next line",
        ));
    }
    for span in documents.spans {
        let text = source.slice(span);
        match yaml::read_located(text, &mut Quota::new(MAX_NODES, MAX_SCALARS)) {
            Ok(document) => {
                if let Some(at) = document.ignored {
                    findings.push(ignored(source, span.start, span.start + at));
                }
                if let Some(mut place) = document.place {
                    place.shift(span.start);
                    each_item(document.value, place, add, &mut findings);
                }
            }
            Err(error) => {
                let error = syntax::describe(source, span.start, &error);
                add(Err(of_syntax(&error)));
            }
        }
    }
    findings
}

/// Adds a value, or the items of a list.
fn each_item(
    mut value: Value,
    mut place: Place,
    add: &mut impl FnMut(Result<(Value, Place), Finding>),
    findings: &mut Vec<Finding>,
) {
    let list = value
        .as_object_mut()
        .filter(|object| text(object, "kind").ends_with("List"));
    let Some(object) = list.filter(|object| object.get("items").is_some_and(Value::is_array)) else {
        return add(Ok((value, place)));
    };
    let item_type = item_type(object);
    let items = object.get_mut("items").map(Value::take);
    let Content::Mapping(entries) = &mut place.content else {
        return;
    };
    // The items have repeated keys of their own.
    let places = entries
        .get_mut("items")
        .map(|entry| mem::take(&mut entry.value.content));
    findings.extend(repeated_keys(&place));
    let (Some(Value::Array(items)), Some(Content::List(places))) = (items, places) else {
        return;
    };
    for (mut item, place) in items.into_iter().zip(places) {
        // An item of a list such as HelmOpList needs no kind.
        if let (Value::Object(item), Some((version, kind))) = (&mut item, &item_type)
            && !item.contains_key("kind")
        {
            item.insert("apiVersion".to_owned(), version.clone());
            item.insert("kind".to_owned(), kind.clone());
        }
        each_item(item, place, add, findings);
    }
}

fn of_syntax(error: &SyntaxError) -> Finding {
    finding(rule::SYNTAX, error.span, &error.message, &error.fix)
}

/// What follows the document that starts at `offset`.
fn ignored(source: &Source, offset: usize, start: usize) -> Finding {
    if let Some(error) = syntax::after_json(source, offset, start) {
        return of_syntax(&error);
    }
    let end = source.line_of(start).end;
    Finding {
        severity: Severity::Warning,
        ..finding(
            rule::IGNORED,
            Span { start, end },
            "kubectl ignores what follows: its documents are separated by lines with ---",
            "write --- in a line of its own, at its start",
        )
    }
}

impl Contents {
    fn add(&mut self, source: &Arc<Source>, value: Value, place: Place) {
        let Value::Object(object) = value else {
            if is_list_of_objects(source, &value, &place) {
                self.findings.push(finding(
                    rule::KIND,
                    head(source, &place),
                    "a list is no object, so kubectl rejects the file",
                    "remove the - and write --- in a line of its own between the objects, or write kind: List with items",
                ));
            } else {
                self.skipped += usize::from(!value.is_null());
            }
            return;
        };
        let is_object = object.contains_key("kind") && object.contains_key("apiVersion");
        let repeated = if is_object {
            repeated_keys(&place)
        } else {
            Vec::new()
        };
        match classify(source, &object, &place) {
            Ok(Some(kind)) if self.objects.len() < MAX_OBJECTS => self.objects.push(Object {
                kind,
                value: Value::Object(object),
                place,
                source: Arc::clone(source),
                findings: repeated,
            }),
            Ok(_) => {
                self.skipped += 1;
                self.findings.extend(repeated);
            }
            Err(finding) => self.findings.push(*finding),
        }
    }
}

/// The keys that a mapping has several times.
pub fn repeated_keys(place: &Place) -> Vec<Finding> {
    let mut found = BTreeMap::new();
    collect_repeated(place, "", &mut found);
    let is_unseparated = found.values().any(|(_, path)| path == "kind");
    if is_unseparated {
        // One mistake, not one for each key of the second object.
        found.retain(|_, (_, path)| path == "kind" || path.contains(['.', '[']));
    }
    let found = found.into_iter().map(|(key, (first, path))| {
        let (message, fix) = if path == "kind" {
            (
                "this object has a kind already; another object seems to start here",
                "write --- in a line of its own before each object",
            )
        } else {
            (
                "this mapping has the key already; only one of both values would count",
                "remove one of them",
            )
        };
        Finding {
            path,
            alias: Some(first),
            ..finding(rule::DUPLICATE_KEY, key, message, fix)
        }
    });
    found.collect()
}

/// The repeated keys of an object, each with its first occurrence and its path. Aliases repeat them: each counts once.
fn collect_repeated(place: &Place, path: &str, found: &mut BTreeMap<Span, (Span, String)>) {
    match &place.content {
        Content::Scalar => {}
        Content::List(items) => {
            for (index, item) in items.iter().enumerate() {
                collect_repeated(item, &format!("{path}[{index}]"), found);
            }
        }
        Content::Mapping(entries) => {
            for (name, entry) in entries {
                let path = if path.is_empty() {
                    name.clone()
                } else {
                    format!("{path}.{name}")
                };
                if let Some(first) = entry.replaced.first() {
                    found.entry(entry.key).or_insert_with(|| (*first, path.clone()));
                }
                collect_repeated(&entry.value, &path, found);
            }
        }
    }
}

fn item_type(list: &Map<String, Value>) -> Option<(Value, Value)> {
    let kind = text(list, "kind").strip_suffix("List")?;
    (!kind.is_empty()).then(|| (list.get("apiVersion").cloned().unwrap_or_default(), kind.into()))
}

fn text<'o>(object: &'o Map<String, Value>, field: &str) -> &'o str {
    object.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// The kind of an object; `None` if it is none that is validated.
fn classify(
    source: &Source,
    object: &Map<String, Value>,
    place: &Place,
) -> Result<Option<Kind>, Box<Finding>> {
    let (version, name) = (text(object, "apiVersion"), text(object, "kind"));
    let error = |field: &str, message: String, fix: String| {
        let span = match place.entry(field) {
            Some(entry) if !source.slice(entry.value.span).trim().is_empty() => entry.value.span,
            Some(entry) => entry.key,
            None => head(source, place),
        };
        let mut finding = finding(rule::KIND, span, &message, &fix);
        field.clone_into(&mut finding.path);
        Err(Box::new(finding))
    };
    // A value of another type is not missing.
    let not_text = |field: &str, fix: String| {
        let is_text = object
            .get(field)
            .is_none_or(|value| value.is_null() || value.is_string());
        (!is_text).then(|| error(field, format!("Invalid value: the {field} must be a text"), fix))
    };
    if let Some(kind) = Kind::named(name) {
        let right = kind.api_version();
        if let Some(error) = not_text("apiVersion", format!("write {right}"))
            && !kind.is_common()
        {
            return error;
        }
        return if version == right {
            Ok(Some(kind))
        } else if kind.may_be_foreign(version) {
            Ok(None)
        } else if version.is_empty() {
            let message = format!("Required value: a {name} needs an apiVersion");
            error("apiVersion", message, format!("add apiVersion: {right}"))
        } else {
            let message = format!("Invalid value: {version:?}: there is no {name} of this version");
            error("apiVersion", message, format!("write {right}"))
        };
    }
    let group = version.split('/').next().unwrap_or_default();
    let (kinds, is_complete) = Kind::of_group(group);
    if kinds.is_empty() {
        return Ok(None);
    }
    let names = kinds
        .iter()
        .map(|kind| kind.as_str())
        .collect::<Vec<_>>()
        .join(", ");
    if let Some(error) = not_text("kind", format!("write one of {names}")) {
        return error;
    }
    if name.is_empty() {
        let message = "Required value: the kind is missing".to_owned();
        return error("kind", message, format!("add kind: one of {names}"));
    }
    // A kind of another group too: its version is the next mistake.
    let fix = match alike(name, Kind::ALL.map(Kind::as_str)).first() {
        Some(meant) => format!("did you mean {meant}?"),
        None if is_complete => format!("write one of {names}"),
        None => return Ok(None),
    };
    let message = format!("Invalid value: {name:?}: group {group} has no such kind");
    error("kind", message, fix)
}

/// Whether a value is a list with an object that is validated.
fn is_list_of_objects(source: &Source, value: &Value, place: &Place) -> bool {
    let items = value.as_array().into_iter().flatten().enumerate();
    items
        .filter_map(|(index, item)| Some((item.as_object()?, place.item(index)?)))
        .any(|(item, place)| !matches!(classify(source, item, place), Ok(None)))
}

fn finding(rule: &'static str, span: Span, message: &str, fix: &str) -> Finding {
    Finding {
        severity: Severity::Error,
        rule,
        path: String::new(),
        span,
        alias: None,
        message: message.to_owned(),
        fix: fix.to_owned(),
    }
}
