//! The values of a HelmRelease.
//!
//! In Flux inline values override those of `valuesFrom`, in a HelmOp it is the other way round. So what is known from the file is
//! merged here: ConfigMaps completely. A Secret stays one, and a note says if the order matters.

use gotmpl::yaml::{self, Quota};
use helmops_api::{
    free_form::FreeForm,
    helm::{KeySelector, ValuesFrom},
    options::DownstreamResource,
};
use helmops_core::targeting::merge::deep_merge;
use serde_json::{Map, Value};

use super::{Document, Fields, FromHelmRelease, Used, texts::Texts};
use crate::create::{Draft, Note, set};

/// The key of an entry that names none.
const DEFAULT_KEY: &str = "values.yaml";
/// Texts that Fleet renders as templates, or replaces.
const TEMPLATES: [&str; 2] = ["${", "global.fleet.clusterLabels."];

/// Converts `values` and `valuesFrom`.
pub fn convert(
    all: &FromHelmRelease,
    spec: &mut Fields<'_>,
    namespace: &str,
    draft: &mut Draft,
    used: &mut Used,
) {
    let inline = match spec.take("values") {
        Some(Value::Object(values)) => values,
        Some(_) => {
            draft.notes.push(spec.note("values", "this is no mapping"));
            Map::new()
        }
        None => Map::new(),
    };
    let mut known = Known::default();
    let mut entries = Vec::new();
    for mut entry in spec.list("valuesFrom") {
        let reference = Reference::of(&mut entry);
        let found = all.find("", &reference.kind, namespace, &reference.name);
        let text = found.and_then(|(index, document)| {
            used.add(index);
            let mut texts = Texts::of(document);
            for note in texts.notes(document, |key| key == reference.key) {
                if !draft.notes.contains(&note) {
                    draft.notes.push(note);
                }
            }
            texts.readable.remove(&reference.key)
        });
        entries.push((entry, reference, found, text));
    }
    let later = later(&entries);
    for ((entry, reference, found, text), later) in entries.into_iter().zip(later) {
        let text = text.filter(|_| reference.kind == "ConfigMap" || reference.target_path.is_none());
        if found.is_some() && text.is_none() && reference.target_path.is_none() {
            let text = format!(
                "{} {:?} has no key {:?}",
                reference.kind, reference.name, reference.key
            );
            draft.notes.push(entry.note("valuesKey", text));
        }
        let is_known = known.add(&reference, text.as_deref(), &entry, draft);
        if !is_known {
            stays_on_cluster(&reference, text.as_deref(), (&inline, &later), &entry, draft);
            if let Some((_, document)) = found {
                let object = all.placed(document.object.clone());
                if !draft.objects.contains(&object) {
                    draft.objects.push(object);
                }
            }
        }
        entry.finish(&mut draft.notes);
    }
    let mut values = known.values;
    deep_merge(&mut values, inline.clone());
    for (path, value, mut note) in known.single {
        match precedence(&inline, &path) {
            Precedence::Inline => continue,
            Precedence::Unclear => {
                draft.notes.push(Note {
                    text: format!("inline values set {path} too; here the value of this entry is used, in Flux that depends on the other \
                                   entries: remove one of them"),
                    ..note.clone()
                });
            }
            Precedence::Entry => {}
        }
        if let Err(error) = set::insert(&mut values, &path, value) {
            note.text = format!("targetPath cannot be converted: {error}");
            draft.notes.push(note);
        }
    }
    set_values(values, draft);
}

/// Which value Flux uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Precedence {
    /// That of the entry with a `targetPath`.
    Entry,
    /// The inline one.
    Inline,
    /// That of the entry, unless an entry before it has the mapping around it: then the inline one.
    Unclear,
}

/// Flux merges the inline values again after the entries, but a value within a mapping that only they have is set in place.
fn precedence(inline: &Map<String, Value>, path: &str) -> Precedence {
    let mut single = Map::new();
    // One that cannot be set has a note.
    if set::insert(&mut single, path, Value::Bool(true)).is_err() || !overlaps(inline, &single) {
        return Precedence::Entry;
    }
    if single.values().any(|value| value.is_object() || value.is_array()) {
        Precedence::Unclear
    } else {
        Precedence::Inline
    }
}

/// An entry of `valuesFrom`, what it refers to, the object in the file, and its text.
type Entry<'d> = (
    Fields<'d>,
    Reference,
    Option<(usize, &'d Document)>,
    Option<String>,
);

/// For each entry the values of the ConfigMaps after it, which become inline values.
fn later(entries: &[Entry<'_>]) -> Vec<Map<String, Value>> {
    let mut after = Map::new();
    let mut all = Vec::new();
    for (_, reference, _, text) in entries.iter().rev() {
        all.push(after.clone());
        let text = text.as_deref().filter(|_| reference.kind == "ConfigMap");
        match (&reference.target_path, text) {
            (None, Some(text)) => {
                // Which of them sets a value does not matter here.
                deep_merge(&mut after, parsed(text).unwrap_or_default());
            }
            (Some(path), Some(text)) => {
                // One that cannot be set has a note.
                let _ = set::insert(&mut after, path, reference.value(text));
            }
            (_, None) => {}
        }
    }
    all.reverse();
    all
}

/// What is known from the file.
#[derive(Debug, Default)]
struct Known {
    /// Values that the inline ones override.
    values: Map<String, Value>,
    /// Values at a path, which override all others, with the note for one that cannot be set.
    single: Vec<(String, Value, Note)>,
}

impl Known {
    /// Adds an entry if it is known, or cannot be converted at all. Returns whether it was.
    fn add(
        &mut self,
        reference: &Reference,
        text: Option<&str>,
        entry: &Fields<'_>,
        draft: &mut Draft,
    ) -> bool {
        let kind = &reference.kind;
        match (&reference.target_path, text) {
            (Some(path), Some(text)) => {
                let note = entry.note("targetPath", "");
                self.single.push((path.clone(), reference.value(text), note));
                true
            }
            (Some(path), None) => {
                let text = format!(
                    "a single value cannot be taken from a {kind} on the clusters: write a {kind} with {path} in YAML, and omit targetPath"
                );
                draft.notes.push(entry.note("targetPath", text));
                true
            }
            (None, Some(text)) if kind == "ConfigMap" => {
                if let Some(own) = parsed(text) {
                    deep_merge(&mut self.values, own);
                } else {
                    let text = format!("{:?} of the ConfigMap is no mapping of values", reference.key);
                    draft.notes.push(entry.note("name", text));
                }
                true
            }
            (None, _) => false,
        }
    }
}

/// An object whose values are read on the clusters, to which it is copied.
fn stays_on_cluster(
    reference: &Reference,
    text: Option<&str>,
    (inline, later): (&Map<String, Value>, &Map<String, Value>),
    entry: &Fields<'_>,
    draft: &mut Draft,
) {
    let own = text.and_then(parsed);
    for (others, which) in [
        (inline, "the inline ones"),
        (later, "those of ConfigMaps after this entry"),
    ] {
        if !others.is_empty() && own.as_ref().is_none_or(|own| overlaps(own, others)) {
            let text = format!(
                "in a HelmOp these values override {which}, in Flux it is the other way round; remove from one of them what both set"
            );
            draft.notes.push(entry.note("", text));
        }
    }
    if text.is_none() {
        let text = format!(
            "{} {:?} has to be in the namespace of the HelmOp, from which it is copied to the clusters",
            reference.kind, reference.name
        );
        draft.notes.push(entry.note("name", text));
    }
    if reference.is_optional {
        let text = "the object has to exist: the agent reports it as missing otherwise";
        draft.notes.push(entry.note("optional", text));
    }
    add_remote(reference, draft);
}

/// An entry of `valuesFrom`.
#[derive(Clone, Debug)]
struct Reference {
    kind: String,
    name: String,
    key: String,
    target_path: Option<String>,
    is_literal: bool,
    is_optional: bool,
}

impl Reference {
    fn of(entry: &mut Fields<'_>) -> Self {
        Self {
            kind: entry.text("kind").unwrap_or_default(),
            name: entry.text("name").unwrap_or_default(),
            key: entry.text("valuesKey").unwrap_or_else(|| DEFAULT_KEY.to_owned()),
            target_path: entry.text("targetPath"),
            is_literal: entry.flag("literal") == Some(true),
            is_optional: entry.flag("optional") == Some(true),
        }
    }

    /// A single value: a text if it is literal, otherwise what it looks like.
    fn value(&self, text: &str) -> Value {
        if self.is_literal {
            return text.into();
        }
        yaml::read_exact(text.trim(), &mut Quota::default())
            .ok()
            .filter(|value| !value.is_object() && !value.is_array())
            .unwrap_or_else(|| text.into())
    }
}

fn parsed(text: &str) -> Option<Map<String, Value>> {
    match yaml::read_exact(text, &mut Quota::default()) {
        Ok(Value::Object(values)) => Some(values),
        Ok(Value::Null) => Some(Map::new()),
        _ => None,
    }
}

/// Whether two mappings set the same value.
fn overlaps(one: &Map<String, Value>, other: &Map<String, Value>) -> bool {
    one.iter().any(|(key, value)| match (value, other.get(key)) {
        (_, None) => false,
        (Value::Object(one), Some(Value::Object(other))) => overlaps(one, other),
        (_, Some(_)) => true,
    })
}

fn set_values(values: Map<String, Value>, draft: &mut Draft) {
    if values.is_empty() {
        return;
    }
    let values = FreeForm::from(&Value::Object(values));
    let helm = draft.helmop.spec.bundle.options.helm.get_or_insert_default();
    // Flux has no templates in values.
    helm.disable_pre_process = TEMPLATES
        .iter()
        .any(|template| values.as_str().contains(template));
    helm.values = Some(values);
}

fn add_remote(reference: &Reference, draft: &mut Draft) {
    let options = &mut draft.helmop.spec.bundle.options;
    let selector = KeySelector {
        name: reference.name.clone(),
        key: if reference.key == DEFAULT_KEY {
            String::new()
        } else {
            reference.key.clone()
        },
        ..KeySelector::default()
    };
    let mut entry = ValuesFrom::default();
    if reference.kind == "Secret" {
        entry.secret_key_ref = Some(selector);
    } else {
        entry.config_map_key_ref = Some(selector);
    }
    options.helm.get_or_insert_default().values_from.push(entry);
    let resource = DownstreamResource {
        kind: reference.kind.clone(),
        name: reference.name.clone(),
        ..DownstreamResource::default()
    };
    if !options.downstream_resources.contains(&resource) {
        options.downstream_resources.push(resource);
    }
}
