//! What the HelmOps of several objects have in common: all of them are created in one namespace.

use std::collections::{BTreeMap, BTreeSet};

use helmops_api::lifecycle::Dependency;
use serde_json::Value;

use crate::create::{
    draft::{Draft, Origin},
    note::{Gap, Note},
};

/// Notes objects that would become one HelmOp: none of them is converted, since any of them could be meant.
pub fn check_names(drafts: &mut [Draft]) {
    let mut by_name: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (index, draft) in drafts.iter().enumerate() {
        by_name.entry(draft.name().to_owned()).or_default().push(index);
    }
    let several: Vec<_> = by_name
        .into_iter()
        .filter(|(_, indexes)| indexes.len() > 1)
        .collect();
    for (name, indexes) in several {
        let place = |index: &usize| drafts.get(*index)?.origin.clone();
        let origins: Vec<_> = indexes.iter().filter_map(place).collect();
        for index in indexes {
            let Some(draft) = drafts.get_mut(index) else {
                continue;
            };
            let Some(own) = draft.origin.clone() else { continue };
            let Some(other) = origins.iter().find(|other| **other != own) else {
                continue;
            };
            let place = other
                .position
                .as_ref()
                .map_or_else(String::new, |at| format!(" ({at})"));
            let text = format!(
                "{}{place} becomes HelmOp {name:?} too; convert fewer files, such as the folder of one cluster, or each of them from a file of its own, with a \
                 name",
                other.title
            );
            draft.notes.push(own.note("metadata.name", text, Gap::Name));
        }
    }
}

/// Leaves in a draft the objects that no draft before it has, and adds them to `known`. Returns what cannot be in one namespace: then the
/// draft is not created, and nothing is taken from it.
pub fn share_objects(draft: &mut Draft, known: &mut Vec<Value>) -> Vec<Note> {
    let same = |object: &Value| known.iter().find(|other| identity(other) == identity(object));
    let conflicts = draft
        .objects
        .iter()
        .filter(|object| same(object).is_some_and(|other| other != *object));
    let conflict = |(origin, object): (&Origin, &Value)| {
        let (kind, name) = identity(object);
        let text = format!(
            "it needs {kind} {name:?}, but another {kind} {name:?} with other content would be in the same namespace; rename one of them in \
             the file"
        );
        origin.note("", text, Gap::Source)
    };
    let found: Vec<_> = conflicts
        .filter_map(|object| Some((draft.origin.as_ref()?, object)))
        .map(conflict)
        .collect();
    if found.is_empty() {
        draft.objects.retain(|object| same(object).is_none());
        known.extend(draft.objects.iter().cloned());
    }
    found
}

/// Notes HelmOps that wait for one that is not created. `kind` is that of the objects that they are converted from.
pub fn check_dependencies(drafts: &mut [Draft], refused: &BTreeSet<String>, kind: &str) {
    for draft in drafts {
        let lifecycle = draft.helmop.spec.bundle.options.lifecycle.as_deref();
        let dependencies = lifecycle.into_iter().flat_map(|lifecycle| &lifecycle.depends_on);
        let lost = dependencies.filter(|dependency| refused.contains(&dependency.name));
        let note = |(origin, dependency): (&Origin, &Dependency)| {
            let text = format!(
                "it waits for HelmOp {:?}, whose {kind} is refused; create that HelmOp too, or remove the dependency",
                dependency.name
            );
            origin.note("spec.dependsOn", text, Gap::None)
        };
        let notes: Vec<_> = lost
            .filter_map(|dependency| Some((draft.origin.as_ref()?, dependency)))
            .map(note)
            .collect();
        draft.notes.extend(notes);
    }
}

fn identity(object: &Value) -> (&str, &str) {
    let text = |pointer| {
        object
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    (text("/kind"), text("/metadata/name"))
}
