//! From the text of a file to its objects.

use std::{collections::BTreeSet, sync::Arc};

use gotmpl::yaml::{
    self, Quota,
    place::{Content, Place, Span},
};
use helmops_api::kind::{GROUP, VERSION};
use serde_json::{Map, Value};

use crate::cluster::alike::alike;

use super::{
    documents,
    locate::head,
    problem::{Severity, rule},
    schema::Finding,
    source::Source,
    syntax,
};

/// Objects of one file.
const MAX_OBJECTS: usize = 100_000;
/// Nodes of one document, with aliases expanded. The content of lists and mappings counts again at each level. This is at most half a
/// gigabyte in memory; the largest HelmOp that an API server stores has a hundredth of it.
const MAX_NODES: usize = 2_000_000;
/// Bytes of the scalars of one document, with aliases expanded.
const MAX_BYTES: usize = 64 << 20;

/// A kind that is validated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A HelmOp.
    HelmOp,
    /// A Policy of the same API group.
    Policy,
}

impl Kind {
    const ALL: [Self; 2] = [Self::HelmOp, Self::Policy];

    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::HelmOp => "HelmOp",
            Self::Policy => "Policy",
        }
    }
}

/// An object of a file, with the place of each of its parts.
#[derive(Debug)]
pub struct Object {
    /// Its kind.
    pub kind: Kind,
    /// Its content.
    pub value: Value,
    /// Where it is.
    pub place: Place,
    /// The file.
    pub source: Arc<Source>,
    /// What kubectl would reject in it.
    pub findings: Vec<Finding>,
}

/// What a file contains.
#[derive(Debug, Default)]
pub struct Contents {
    /// HelmOps and Policies.
    pub objects: Vec<Object>,
    /// What kubectl would reject.
    pub findings: Vec<Finding>,
    /// The number of other objects.
    pub skipped: usize,
}

/// Reads the objects of a file.
pub fn read(source: &Arc<Source>) -> Contents {
    let mut content = Contents::default();
    let documents = documents::split(source.text());
    for span in documents.invalid_separators {
        content.findings.push(finding(
            rule::SYNTAX,
            span,
            "only a comment may follow --- in its line",
            "start the document in the next line",
        ));
    }
    for span in documents.spans {
        let text = source.slice(span);
        match yaml::read_located(text, &mut Quota::new(MAX_NODES, MAX_BYTES)) {
            Ok(document) => {
                if let Some(at) = document.ignored {
                    let start = span.start + at;
                    let end = source.line_of(start).end;
                    content.findings.push(Finding {
                        severity: Severity::Warning,
                        ..finding(
                            rule::IGNORED,
                            Span { start, end },
                            "kubectl ignores what follows: its documents are separated by lines with ---",
                            "write --- in a line of its own, at its start",
                        )
                    });
                }
                if let Some(mut place) = document.place {
                    place.shift(span.start);
                    content.add(source, document.value, place);
                }
            }
            Err(error) => {
                let error = syntax::describe(source, span.start, &error);
                content
                    .findings
                    .push(finding(rule::SYNTAX, error.span, &error.message, &error.fix));
            }
        }
    }
    content
}

impl Contents {
    /// Adds an object, or the items of a list.
    fn add(&mut self, source: &Arc<Source>, value: Value, place: Place) {
        let Value::Object(mut object) = value else {
            self.skipped += usize::from(!value.is_null());
            return;
        };
        if text(&object, "kind").ends_with("List")
            && let Some(Value::Array(items)) = object.get_mut("items").map(Value::take)
        {
            let list = item_type(&object);
            let Content::Mapping(mut entries) = place.content else {
                return;
            };
            let Some(Content::List(places)) = entries.remove("items").map(|entry| entry.value.content) else {
                return;
            };
            for (mut item, place) in items.into_iter().zip(places) {
                // An item of a list such as HelmOpList needs no kind.
                if let (Value::Object(item), Some((version, kind))) = (&mut item, &list)
                    && !item.contains_key("kind")
                {
                    item.insert("apiVersion".to_owned(), version.clone());
                    item.insert("kind".to_owned(), kind.clone());
                }
                self.add(source, item, place);
            }
            return;
        }
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

fn repeated_keys(place: &Place) -> Vec<Finding> {
    let mut found = BTreeSet::new();
    collect_repeated(place, "", &mut found);
    let is_unseparated = found.iter().any(|(_, _, path)| path == "kind");
    if is_unseparated {
        // One mistake, not one for each key of the second object.
        found.retain(|(_, _, path)| path == "kind" || path.contains(['.', '[']));
    }
    let found = found.into_iter().map(|(key, first, path)| {
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

/// The repeated keys of an object, each with its first occurrence and its path. Aliases repeat them: a set has each once.
fn collect_repeated(place: &Place, path: &str, found: &mut BTreeSet<(Span, Span, String)>) {
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
                if let Some(first) = entry.replaced.first()
                    && found.iter().all(|(key, ..)| *key != entry.key)
                {
                    found.insert((entry.key, *first, path.clone()));
                }
                collect_repeated(&entry.value, &path, found);
            }
        }
    }
}

/// The type of the items of a typed list.
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
    let (version, kind) = (text(object, "apiVersion"), text(object, "kind"));
    let ours = format!("{GROUP}/{VERSION}");
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
    let known = Kind::ALL.into_iter().find(|known| known.as_str() == kind);
    match known {
        Some(kind) if version == ours => return Ok(Some(kind)),
        // Other groups have Policies too.
        Some(Kind::Policy) if !version.starts_with(GROUP) => return Ok(None),
        Some(kind) if version.is_empty() => {
            let message = format!("Required value: a {} needs an apiVersion", kind.as_str());
            return error("apiVersion", message, format!("add apiVersion: {ours}"));
        }
        Some(kind) => {
            let message = format!(
                "Invalid value: {version:?}: there is no {} of this version",
                kind.as_str()
            );
            return error("apiVersion", message, format!("write {ours}"));
        }
        None => {}
    }
    if version.split('/').next() != Some(GROUP) {
        return Ok(None);
    }
    if kind.is_empty() {
        return error(
            "kind",
            "Required value: the kind is missing".to_owned(),
            "add kind: HelmOp".to_owned(),
        );
    }
    match alike(kind, Kind::ALL.into_iter().map(Kind::as_str)).first() {
        Some(meant) => error(
            "kind",
            format!("Invalid value: {kind:?}: group {GROUP} has no such kind"),
            format!("did you mean {meant}?"),
        ),
        None => Ok(None),
    }
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
