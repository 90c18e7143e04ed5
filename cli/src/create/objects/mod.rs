//! Objects of other tools, as HelmOps: what every conversion needs.
//!
//! ```text
//! files ─► `input` (`documents`: objects, positions), `patches` ─► Objects ─► `Conversion::draft`, for each ─► Draft ─► Batch
//!                                                                              `fields`, `metadata`, `namespace`, `values`, `login`, `pauses`, `timeout`
//! ```
//!
//! Each field is taken from its mapping (`fields`). What has no equivalent, or another meaning, becomes a note with its position. If what is
//! deployed would change, the note is a refusal.

pub mod documents;
pub mod fields;
mod input;
mod kustomize;
pub mod login;
pub mod metadata;
pub mod namespace;
mod patches;
pub mod pauses;
#[cfg(test)]
pub mod testing;
pub mod texts;
pub mod timeout;
pub mod values;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use serde_json::Value;

use self::{
    documents::Document,
    fields::Fields,
    input::{folder, is_same_file, may_share_namespace, unused},
};
pub use self::{input::Input, patches::Extent};
use super::{
    batch::{Batch, LeftOut},
    draft::Draft,
    note::{Gap, Note},
};
use crate::failure::Failure;

/// What flags say about the conversion.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The namespace of the HelmOps, if it is known.
    pub namespace: Option<String>,
    /// The namespace of the releases.
    pub target_namespace: Option<String>,
    /// The names of the Clusters that are selected by name.
    pub clusters: Vec<String>,
}

/// How objects of a kind become HelmOps.
#[derive(Debug)]
pub struct Conversion {
    /// Their kind.
    pub kind: &'static str,
    /// The texts that each file with one of them has.
    pub marks: &'static [&'static str],
    /// What is said if there is none, and what to do.
    pub none: (&'static str, &'static str),
    /// Whether an object is one of them.
    pub is_own: fn(&Document) -> bool,
    /// How much there is of one of them.
    pub extent: fn(&Document) -> Extent,
    /// Whether they may refer to an object.
    pub is_referent: fn(&Document) -> bool,
    /// Why an object that stands for some of them is not converted, and what to do.
    pub refused: fn(&Document) -> Option<&'static str>,
    /// What to do about an object that is of no use without one of them.
    pub unused: fn(&Document) -> Option<&'static str>,
    /// The parts of an object that matter to what refers to it.
    pub content: fn(&Document) -> Vec<Value>,
    /// Notes about the objects that one of them is converted from.
    pub notes: fn(&[&Document]) -> Vec<Note>,
    /// The HelmOp of one of them.
    pub draft: fn(&Objects, &Document, &mut Used) -> Draft,
}

/// The objects of files.
#[derive(Debug)]
pub struct Objects {
    input: Input,
    /// The objects by group, kind and name.
    names: BTreeMap<(String, String, String), Vec<usize>>,
    settings: Settings,
}

/// What a reference leads to.
#[derive(Clone, Copy, Debug)]
pub enum Referent<'d> {
    /// The object, and its index.
    Found(usize, &'d Document),
    /// Several objects with different content, none of which is nearer than the others. There is a note.
    Ambiguous,
    /// No object.
    Missing,
}

impl Objects {
    /// Reads a file, or all files of a folder.
    ///
    /// # Errors
    /// If it cannot be read, or has no object that is converted.
    pub fn read(path: &Path, conversion: &'static Conversion, settings: Settings) -> Result<Self, Failure> {
        Self::of(Input::read(path, conversion)?, settings).map_err(|mut failure| {
            failure.message = format!("{}: {}", path.display(), failure.message);
            failure
        })
    }

    /// Those of an input.
    ///
    /// # Errors
    /// If no object is converted.
    pub fn of(mut input: Input, settings: Settings) -> Result<Self, Failure> {
        patches::sort_out(&mut input);
        let mut names: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for (index, document) in input.documents.iter().enumerate() {
            let text = |pointer| document.text(pointer).to_owned();
            let key = (document.group().to_owned(), text("/kind"), text("/metadata/name"));
            names.entry(key).or_default().push(index);
        }
        let objects = Self {
            input,
            names,
            settings,
        };
        if objects.own().next().is_none() && objects.input.lost.is_empty() {
            let (message, hint) = objects.input.conversion.none;
            return Err(Failure::unable(message).with_hint(hint));
        }
        Ok(objects)
    }

    /// What flags say.
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// All objects, with their indexes.
    pub fn documents(&self) -> impl Iterator<Item = (usize, &Document)> {
        self.input.documents.iter().enumerate()
    }

    fn own(&self) -> impl Iterator<Item = (usize, &Document)> {
        let is_own = self.input.conversion.is_own;
        self.documents().filter(move |(_, document)| is_own(document))
    }

    /// Parts of other objects by their names, each with whether its object was found.
    fn patches(&self) -> BTreeMap<&str, Vec<(&Document, bool)>> {
        let mut patches: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for patch in &self.input.patches {
            let name = patch.text("/metadata/name");
            patches.entry(name).or_default().push((patch, false));
        }
        patches
    }

    /// Notes about other namespaces that kustomize would set, in the folder of an object or around it.
    fn namespaces_of(&self, document: &Document) -> impl Iterator<Item = &Note> {
        let own = document.text("/metadata/namespace");
        let ends = document.file().match_indices('/').map(|(at, _)| at);
        let folders = [0]
            .into_iter()
            .chain(ends)
            .filter_map(|end| document.file().get(..end));
        let set = folders.filter_map(|folder| self.input.namespaces.get(folder));
        set.flatten()
            .filter(move |(namespace, _)| namespace != own)
            .map(|(_, note)| note)
    }

    /// Whether an object is in the files. Its namespace may be one that kustomize sets.
    pub fn has(&self, (group, kind): (&str, &str), (namespace, name): (&str, &str)) -> bool {
        let key = (group.to_owned(), kind.to_owned(), name.to_owned());
        let indexes = self.names.get(&key).into_iter().flatten();
        let documents = indexes.filter_map(|index| self.input.documents.get(*index));
        let mut namespaces = documents.map(|document| document.text("/metadata/namespace"));
        namespaces.any(|own| own.is_empty() || own == namespace)
    }

    /// The HelmOps, in the order of their objects.
    ///
    /// # Errors
    /// If a name is given, and there are several.
    pub fn batch(self, name: Option<&str>) -> Result<Batch, Failure> {
        let conversion = self.input.conversion;
        let mut all_used = BTreeSet::new();
        let mut drafts = Vec::new();
        let mut patches = self.patches();
        for (index, own) in self.own() {
            let mut used = Used(BTreeSet::from([index]));
            let mut draft = (conversion.draft)(&self, own, &mut used);
            let documents = used.0.iter().filter_map(|index| self.input.documents.get(*index));
            let documents: Vec<_> = documents.collect();
            draft.notes.extend(encrypted(&documents));
            draft.notes.extend((conversion.notes)(&documents));
            draft.notes.extend(self.namespaces_of(own).cloned());
            let of_name = patches.get_mut(own.text("/metadata/name"));
            for (patch, is_used) in of_name.into_iter().flatten() {
                let namespace = own.text("/metadata/namespace");
                if may_share_namespace(patch.text("/metadata/namespace"), namespace) {
                    *is_used = true;
                    draft.notes.push(Note {
                        object: own.title(),
                        text: format!(
                            "an incomplete {} of this name is a patch, which is not applied: convert what kustomize build prints",
                            conversion.kind
                        ),
                        ..unused(patch, conversion)
                    });
                }
            }
            all_used.append(&mut used.0);
            drafts.push(draft);
        }
        match (name, drafts.as_mut_slice()) {
            (None, _) => {}
            (Some(name), [draft]) => draft.helmop.metadata.name = Some(name.to_owned()),
            (Some(name), several) => {
                return Err(Failure::unable(format!(
                    "there are {} {}s, and {name:?} can be the name of one only",
                    several.len(),
                    conversion.kind
                ))
                .with_hint(format!(
                    "omit the name: each HelmOp gets that of its {}",
                    conversion.kind
                )));
            }
        }
        let unmatched = patches.values().flatten().filter(|(_, is_used)| !is_used);
        let mut unmatched: Vec<_> = unmatched
            .filter_map(|(patch, _)| patch.position("kind"))
            .collect();
        unmatched.sort();
        let mut batch = Batch {
            kind: conversion.kind,
            drafts,
            refused: self.input.lost.into_iter().map(|note| vec![note]).collect(),
            ..Batch::default()
        };
        batch.left_out = LeftOut {
            patches: self.input.patches.len(),
            unmatched,
            ..self.input.left_out
        };
        for (index, document) in self.input.documents.iter().enumerate() {
            if all_used.contains(&index) || has_values(document, &batch.drafts) {
                continue;
            }
            if self.input.is_folder && (conversion.unused)(document).is_none() {
                batch.left_out.others += 1;
            } else {
                batch.notes.push(unused(document, conversion));
            }
        }
        // Those of a folder are counted already.
        batch.notes.extend(self.input.others);
        batch.notes.extend(self.input.kustomized);
        Ok(batch)
    }

    /// The object that a field refers to. An empty namespace is one that is not known: kustomize sets it.
    ///
    /// In a folder several objects may have the name. The one with the namespace is preferred, then one of the same file, then the nearest.
    pub fn find(
        &self,
        reference: &Fields<'_>,
        (group, kind): (&str, &str),
        (namespace, name): (&str, &str),
        notes: &mut Vec<Note>,
    ) -> Referent<'_> {
        let from = reference.document();
        let content = self.input.conversion.content;
        let key = (group.to_owned(), kind.to_owned(), name.to_owned());
        let candidates = self.names.get(&key).into_iter().flatten();
        let mut found: Vec<_> = candidates
            .filter_map(|index| Some((*index, self.input.documents.get(*index)?)))
            .filter_map(|(index, document)| {
                let own = document.text("/metadata/namespace");
                let near = (
                    !is_same_file(from, document),
                    distance(from.file(), document.file()),
                );
                let is_other = own != namespace;
                may_share_namespace(own, namespace).then_some(((is_other, near), index, document))
            })
            .collect();
        found.sort_by_key(|(rank, ..)| *rank);
        let Some(((is_other, near), index, first)) = found.first().copied() else {
            return Referent::Missing;
        };
        // Logins of one name are in many namespaces; a source of one name is the same one.
        let is_known = !is_other && !namespace.is_empty();
        if group.is_empty() && !is_known && !is_below(first.file(), from.file()) {
            let text = format!(
                "{kind} {name:?} at {} is not used: one of both has no namespace, so that it may be another one; convert what kustomize build \
                 prints",
                place(first)
            );
            notes.push(reference.note("", text));
            return Referent::Missing;
        }
        let mut others = found.iter().skip(1).filter(|((other, _), ..)| *other == is_other);
        let Some(((_, other_near), _, other)) =
            others.find(|(.., document)| content(document) != content(first))
        else {
            return Referent::Found(index, first);
        };
        let (first_place, other_place) = (place(first), place(other));
        if near == *other_near {
            let text = format!(
                "{kind} {name:?} is at {first_place} and, with other content, at {other_place}; convert what kustomize build prints, or fewer files"
            );
            notes.push(Note {
                gap: Gap::Source,
                ..reference.note("", text)
            });
            return Referent::Ambiguous;
        }
        let text = format!(
            "{kind} {name:?} is at {first_place}, which is used, and with other content at {other_place}, which is farther away: \
             convert what kustomize build prints if that is wrong"
        );
        notes.push(reference.note("", text));
        Referent::Found(index, first)
    }
}

/// Whether a ConfigMap or Secret has values of a HelmOp. There is a note about these.
fn has_values(document: &Document, drafts: &[Draft]) -> bool {
    let lifecycles = drafts
        .iter()
        .filter_map(|draft| draft.helmop.spec.bundle.options.lifecycle.as_deref());
    let mut references = lifecycles.flat_map(|lifecycle| &lifecycle.values_from);
    let charts = drafts
        .iter()
        .filter_map(|draft| draft.helmop.spec.bundle.options.helm.as_ref());
    let mut secrets = charts
        .flat_map(|helm| &helm.values_from)
        .filter_map(|reference| reference.secret_key_ref.as_ref());
    let id @ (kind, name) = (document.text("/kind"), document.text("/metadata/name"));
    document.group().is_empty()
        && (references.any(|reference| (&*reference.kind, &*reference.name) == id)
            || kind == "Secret" && secrets.any(|reference| reference.name == name))
}

/// What matters of an object without other rules.
pub fn content(document: &Document) -> Vec<Value> {
    ["spec", "data", "stringData"]
        .map(|field| document.object.get(field).cloned().unwrap_or_default())
        .into()
}

fn place(document: &Document) -> String {
    let position = document.position("kind");
    position.map_or_else(String::new, |at| at.to_string())
}

/// Notes about what SOPS has encrypted. Encrypted Secrets and `ConfigMaps` stay on the clusters.
fn encrypted(documents: &[&Document]) -> Vec<Note> {
    let is_encrypted = |document: &&&Document| {
        let is_sops = document.object.get("sops").is_some();
        let text = document.source.slice(document.place.span);
        !document.group().is_empty() && (is_sops || text.contains("ENC[AES256_GCM"))
    };
    let note = |document: &&Document| Note {
        object: document.title(),
        path: String::new(),
        position: document.position("metadata.name"),
        text: "it is encrypted with SOPS: decrypt it (sops -d), or convert what the cluster has".to_owned(),
        gap: Gap::Source,
    };
    documents.iter().filter(is_encrypted).map(note).collect()
}

/// Whether a file is in the folder of another one, or below it.
fn is_below(file: &str, other: &str) -> bool {
    let folder = folder(other);
    let rest = file.strip_prefix(folder);
    folder.is_empty() || rest.is_some_and(|rest| rest.starts_with('/'))
}

/// How many folders are between two files.
fn distance(one: &str, other: &str) -> usize {
    let folders = |path| folder(path).split('/').collect::<Vec<_>>();
    let (one, other) = (folders(one), folders(other));
    let common = one
        .iter()
        .zip(&other)
        .take_while(|(one, other)| one == other)
        .count();
    one.len() + other.len() - 2 * common
}

/// The documents that an object is converted from, by their index.
#[derive(Debug, Default)]
pub struct Used(BTreeSet<usize>);

impl Used {
    /// Adds one.
    pub fn add(&mut self, index: usize) {
        self.0.insert(index);
    }
}
