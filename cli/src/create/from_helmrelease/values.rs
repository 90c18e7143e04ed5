//! The values of a HelmRelease.
//!
//! In Flux inline values override those of `valuesFrom`, in a HelmOp it is the other way round. So what is known from the files is
//! merged here: ConfigMaps completely. A Secret stays one, and the HelmRelease is refused if the order matters, or might.

use go_formats::yaml::{self, Quota};
use helmops_api::{
    free_form::FreeForm,
    helm::{KeySelector, ValuesFrom},
    options::DownstreamResource,
};
use helmops_core::targeting::merge::deep_merge;
use serde_json::{Map, Value};

use super::{Document, Fields, FromHelmRelease, Referent, Used, target_path::Merged, texts::Texts};
use crate::create::{
    draft::Draft,
    note::{Gap, Loss, Note},
};

/// The key of an entry that names none.
const DEFAULT_KEY: &str = "values.yaml";
/// How texts start that Fleet renders as templates.
const TEMPLATE: &str = "${";
/// How a text starts that Fleet replaces.
const CLUSTER_LABELS: &str = "global.fleet.clusterLabels.";
const REFUSED: Gap = Gap::Field(Loss::ValuesFrom);

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
            draft
                .notes
                .push(spec.refusal("values", Gap::Source, "this is no mapping"));
            Map::new()
        }
        None => Map::new(),
    };
    let mut entries = Vec::new();
    for fields in spec.list("valuesFrom") {
        entries.push(Entry::read(all, fields, namespace, draft, used));
    }
    let later = later(&entries);
    let mut merged = Merged::new(inline);
    for (entry, later) in entries.into_iter().zip(later) {
        match entry.merge(&mut merged) {
            Merge::Done => {}
            Merge::Failed(note) => draft.notes.push(note),
            Merge::Unknown => {
                entry.stays_on_cluster(all, (merged.inline(), &later), draft);
                if let Some(Ok(own)) = entry.values() {
                    merged.add_secret(own);
                }
            }
        }
        entry.fields.finish(&mut draft.notes);
    }
    let values = merged.finish();
    if has_label(&values) {
        let text = format!(
            "a HelmOp replaces a text that starts with {CLUSTER_LABELS} by a label of the cluster; write another text"
        );
        draft.notes.push(spec.refusal("values", Gap::Valid, text));
    }
    set_values(values, draft);
}

/// Whether a value would be replaced by a label of the cluster. Nothing disables that.
fn has_label(values: &Map<String, Value>) -> bool {
    values.values().any(|value| match value {
        Value::String(text) => text.starts_with(CLUSTER_LABELS),
        Value::Object(values) => has_label(values),
        Value::Array(items) => items.iter().filter_map(Value::as_object).any(has_label),
        _ => false,
    })
}

/// For each entry the values of the ConfigMaps after it, which become inline values.
fn later(entries: &[Entry<'_>]) -> Vec<Map<String, Value>> {
    let mut after = Map::new();
    let mut all = Vec::new();
    for entry in entries.iter().rev() {
        all.push(after.clone());
        // Which of them sets a value does not matter here.
        let mut own = Merged::new(Map::new());
        if matches!(entry.merge(&mut own), Merge::Done) {
            deep_merge(&mut after, own.finish());
        }
    }
    all.reverse();
    all
}

/// An entry of `valuesFrom`.
#[derive(Debug)]
struct Entry<'d> {
    fields: Fields<'d>,
    kind: String,
    name: String,
    key: String,
    target_path: Option<String>,
    is_literal: bool,
    is_optional: bool,
    /// The object, if it is in the files and not encrypted.
    object: Option<&'d Document>,
    /// Whether it is in the files, and encrypted.
    is_encrypted: bool,
    /// What it has under the key.
    text: Option<String>,
}

/// What became of an entry.
enum Merge {
    /// Its values are inline now.
    Done,
    /// It cannot be converted.
    Failed(Note),
    /// It is read on the clusters.
    Unknown,
}

impl<'d> Entry<'d> {
    fn read(
        all: &'d FromHelmRelease,
        mut fields: Fields<'d>,
        namespace: &str,
        draft: &mut Draft,
        used: &mut Used,
    ) -> Self {
        let mut entry = Self {
            kind: fields.text("kind").unwrap_or_default(),
            name: fields.text("name").unwrap_or_default(),
            key: fields.text("valuesKey").unwrap_or_else(|| DEFAULT_KEY.to_owned()),
            target_path: fields.text("targetPath"),
            is_literal: fields.flag("literal") == Some(true),
            is_optional: fields.flag("optional") == Some(true),
            object: None,
            is_encrypted: false,
            text: None,
            fields,
        };
        let name = (namespace, &*entry.name);
        let Referent::Found(index, document) =
            all.find(&entry.fields, ("", &entry.kind), name, &mut draft.notes)
        else {
            return entry;
        };
        used.add(index);
        let mut texts = Texts::of(document);
        if texts.is_encrypted() {
            entry.is_encrypted = true;
            return entry;
        }
        for note in texts.notes(document, |key| key == entry.key) {
            if !draft.notes.contains(&note) {
                draft.notes.push(note);
            }
        }
        entry.object = Some(document);
        entry.text = texts.readable.remove(&entry.key);
        entry
    }

    /// The values, or why there are none; `None` if the object is not known.
    fn values(&self) -> Option<Result<Map<String, Value>, String>> {
        let (kind, name, key) = (&self.kind, &self.name, &self.key);
        match (&self.text, self.object) {
            (Some(text), _) => {
                let values = parsed(text);
                Some(values.map_err(|problem| format!("{key:?} of {kind} {name:?} is {problem}")))
            }
            (None, Some(_)) => Some(Err(self.without_key())),
            (None, None) => None,
        }
    }

    fn without_key(&self) -> String {
        let (kind, name, key) = (&self.kind, &self.name, &self.key);
        format!("{kind} {name:?} has no key {key:?}")
    }

    /// Merges the values of the entry into others, if they are known and no secret.
    fn merge(&self, into: &mut Merged) -> Merge {
        let kind = &self.kind;
        let is_inline = kind == "ConfigMap" && self.object.is_some();
        match (&self.target_path, &self.text) {
            (_, None) if is_inline && self.is_optional => Merge::Done,
            (Some(path), Some(text)) if is_inline => match into.set(path, text, self.is_literal) {
                Ok(()) => Merge::Done,
                Err(error) => self.failed("targetPath", format!("targetPath cannot be converted: {error}")),
            },
            (Some(_), None) if is_inline => self.failed("valuesKey", self.without_key()),
            (Some(path), _) => self.failed(
                "targetPath",
                format!(
                    "a single value cannot be taken from a {kind} on the clusters: write a {kind} with {path} in YAML, and omit targetPath"
                ),
            ),
            (None, _) => match self.values() {
                Some(Ok(own)) if is_inline => {
                    into.add(own);
                    Merge::Done
                }
                Some(Err(problem)) if is_inline => self.failed("valuesKey", problem),
                _ => Merge::Unknown,
            },
        }
    }

    fn failed(&self, field: &str, text: String) -> Merge {
        Merge::Failed(self.fields.refusal(field, REFUSED, text))
    }

    /// An object whose values are read on the clusters, to which it is copied.
    fn stays_on_cluster(
        &self,
        all: &FromHelmRelease,
        (inline, later): (&Map<String, Value>, &Map<String, Value>),
        draft: &mut Draft,
    ) {
        let Self {
            fields, kind, name, ..
        } = self;
        let own = self.values();
        for (others, which) in [
            (inline, "the inline ones"),
            (later, "those of ConfigMaps after this entry"),
        ] {
            let remedy = match &own {
                _ if others.is_empty() => continue,
                Some(Ok(own)) if overlaps(own, others) => "remove from one of them what both set",
                Some(Ok(_)) => continue,
                Some(Err(problem)) => problem,
                None if self.is_encrypted => {
                    "its content is encrypted: decrypt it (sops -d), or check that both set nothing in common"
                }
                None => "its content is not in the files: add it, or check that both set nothing in common",
            };
            let text = format!(
                "in a HelmOp these values override {which}, in Flux it is the other way round; {remedy}"
            );
            draft.notes.push(fields.refusal("", REFUSED, text));
        }
        match &own {
            Some(Err(problem)) => draft.notes.push(fields.note("valuesKey", &**problem)),
            None => {
                let encrypted = if self.is_encrypted {
                    "is encrypted in its file, and "
                } else {
                    ""
                };
                let text = format!(
                    "{kind} {name:?} {encrypted}has to be in the namespace of the HelmOp, from which it is copied to the clusters"
                );
                draft.notes.push(fields.note("name", text));
            }
            Some(Ok(_)) => {}
        }
        if self.is_optional {
            let text = "the object has to exist: the agent reports it as missing otherwise";
            draft.notes.push(fields.note("optional", text));
        }
        self.add_reference(draft);
        if let Some(document) = self.object {
            let object = all.placed(document.object.clone());
            if !draft.objects.contains(&object) {
                draft.objects.push(object);
            }
        }
    }

    fn add_reference(&self, draft: &mut Draft) {
        let options = &mut draft.helmop.spec.bundle.options;
        let is_default = self.key == DEFAULT_KEY;
        let selector = KeySelector {
            name: self.name.clone(),
            key: if is_default {
                String::new()
            } else {
                self.key.clone()
            },
            ..KeySelector::default()
        };
        let mut entry = ValuesFrom::default();
        if self.kind == "Secret" {
            entry.secret_key_ref = Some(selector);
        } else {
            entry.config_map_key_ref = Some(selector);
        }
        options.helm.get_or_insert_default().values_from.push(entry);
        let resource = DownstreamResource {
            kind: self.kind.clone(),
            name: self.name.clone(),
            ..DownstreamResource::default()
        };
        if !options.downstream_resources.contains(&resource) {
            options.downstream_resources.push(resource);
        }
    }
}

fn parsed(text: &str) -> Result<Map<String, Value>, String> {
    match yaml::read_exact(text, &mut Quota::default()) {
        Ok(Value::Object(values)) => Ok(values),
        Ok(Value::Null) => Ok(Map::new()),
        Ok(_) => Err("no mapping of values".to_owned()),
        Err(error) => Err(format!("not valid YAML: {error}")),
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
    helm.disable_pre_process = values.as_str().contains(TEMPLATE);
    helm.values = Some(values);
}
