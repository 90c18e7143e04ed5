//! HelmReleases of Flux, as HelmOps.
//!
//! ```text
//! files ─► `input` (objects, positions) ─► HelmRelease ─► `source` (repository, chart, version, credentials)   ─┐
//!                                                         `values`, `lifecycle`, `post_render`                  ├─► Draft
//!                                                         `release` (names), `actions`, `rest`                 ─┘
//! ```
//!
//! Each field is taken from its mapping (`fields`). What has no equivalent, or another meaning, becomes a note with its position. If what is
//! deployed would change, the note is a refusal. `variables` are those that Flux replaces, and nothing here does.

mod actions;
mod documents;
mod fields;
mod input;
mod kustomize;
mod lifecycle;
mod post_render;
mod release;
mod rest;
mod source;
mod texts;
mod values;
mod variables;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use serde_json::Value;

use self::{
    documents::Document,
    fields::Fields,
    input::{Input, folder, is_release, is_same_file, may_share_namespace, unused},
};
use super::{
    batch::{Batch, LeftOut},
    draft::Draft,
    note::{Gap, Note},
};
use crate::failure::Failure;

/// The API groups of Flux that a file may have.
const HELM: &str = "helm.toolkit.fluxcd.io";
const SOURCE: &str = "source.toolkit.fluxcd.io";

const PATCH: &str = "a HelmRelease of this name without a chart is a patch, which is not applied: convert what kustomize build prints";

/// What flags say about the conversion.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The namespace of the HelmOps, if it is known.
    pub namespace: Option<String>,
    /// The namespace of the releases.
    pub target_namespace: Option<String>,
}

/// The objects of files.
#[derive(Debug)]
pub struct FromHelmRelease {
    input: Input,
    /// The objects by group, kind and name.
    names: BTreeMap<(String, String, String), Vec<usize>>,
    settings: Settings,
}

/// What a reference leads to.
#[derive(Clone, Copy, Debug)]
enum Referent<'d> {
    /// The object, and its index.
    Found(usize, &'d Document),
    /// Several objects with different content, none of which is nearer than the others. There is a note.
    Ambiguous,
    /// No object.
    Missing,
}

impl FromHelmRelease {
    /// Reads a file, or all files of a folder.
    ///
    /// # Errors
    /// If it cannot be read, or has no HelmRelease.
    pub fn read(path: &Path, settings: Settings) -> Result<Self, Failure> {
        Self::of(Input::read(path)?, settings).map_err(|mut failure| {
            failure.message = format!("{}: {}", path.display(), failure.message);
            failure
        })
    }

    fn of(input: Input, settings: Settings) -> Result<Self, Failure> {
        let mut names: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for (index, document) in input.documents.iter().enumerate() {
            let text = |pointer| document.text(pointer).to_owned();
            let key = (document.group().to_owned(), text("/kind"), text("/metadata/name"));
            names.entry(key).or_default().push(index);
        }
        let source = Self {
            input,
            names,
            settings,
        };
        if source.releases().next().is_none() {
            return Err(
                Failure::unable("there is no HelmRelease of helm.toolkit.fluxcd.io with a chart")
                    .with_hint("print one with: kubectl get helmrelease NAME -o yaml"),
            );
        }
        Ok(source)
    }

    fn releases(&self) -> impl Iterator<Item = (usize, &Document)> {
        let documents = self.input.documents.iter().enumerate();
        documents.filter(|(_, document)| is_release(document))
    }

    /// HelmReleases without a chart by their names, each with whether it belongs to another one.
    fn patches(&self) -> BTreeMap<&str, Vec<(&Document, bool)>> {
        let mut patches: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for patch in &self.input.patches {
            let name = patch.text("/metadata/name");
            patches.entry(name).or_default().push((patch, false));
        }
        patches
    }

    /// Notes about other namespaces that kustomize would set, in the folder of a HelmRelease or around it.
    fn namespaces_of(&self, release: &Document) -> impl Iterator<Item = &Note> {
        let own = release.text("/metadata/namespace");
        let ends = release.file().match_indices('/').map(|(at, _)| at);
        let folders = [0]
            .into_iter()
            .chain(ends)
            .filter_map(|end| release.file().get(..end));
        let set = folders.filter_map(|folder| self.input.namespaces.get(folder));
        set.flatten()
            .filter(move |(namespace, _)| namespace != own)
            .map(|(_, note)| note)
    }

    /// Whether a HelmRelease is in the files. Its namespace may be one that kustomize sets.
    fn has_release(&self, namespace: &str, name: &str) -> bool {
        let key = (HELM.to_owned(), "HelmRelease".to_owned(), name.to_owned());
        let indexes = self.names.get(&key).into_iter().flatten();
        let documents = indexes.filter_map(|index| self.input.documents.get(*index));
        let mut namespaces = documents.map(|document| document.text("/metadata/namespace"));
        namespaces.any(|own| own.is_empty() || own == namespace)
    }

    /// The HelmOps, in the order of the HelmReleases.
    ///
    /// # Errors
    /// If a name is given, and there are several.
    pub fn batch(self, name: Option<&str>) -> Result<Batch, Failure> {
        let mut all_used = BTreeSet::new();
        let mut drafts = Vec::new();
        let mut patches = self.patches();
        for (index, release) in self.releases() {
            let mut used = Used(BTreeSet::from([index]));
            let mut draft = release::draft(&self, release, &mut used);
            let documents = used.0.iter().filter_map(|index| self.input.documents.get(*index));
            let documents: Vec<_> = documents.collect();
            draft.notes.extend(encrypted(&documents));
            draft.notes.extend(variables::notes(&documents));
            draft.notes.extend(self.namespaces_of(release).cloned());
            let own = patches.get_mut(release.text("/metadata/name"));
            for (patch, is_used) in own.into_iter().flatten() {
                let namespace = release.text("/metadata/namespace");
                if may_share_namespace(patch.text("/metadata/namespace"), namespace) {
                    *is_used = true;
                    draft.notes.push(Note {
                        object: release.title(),
                        text: PATCH.to_owned(),
                        ..unused(patch)
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
                    "there are {} HelmReleases, and {name:?} can be the name of one only",
                    several.len()
                ))
                .with_hint("omit the name: each HelmOp gets that of its HelmRelease"));
            }
        }
        let unmatched = patches.values().flatten().filter(|(_, is_used)| !is_used);
        let mut unmatched: Vec<_> = unmatched
            .filter_map(|(patch, _)| patch.position("kind"))
            .collect();
        unmatched.sort();
        let mut batch = Batch {
            drafts,
            refused: self.input.lost.into_iter().map(|note| vec![note]).collect(),
            ..Batch::default()
        };
        let not_used = self.input.documents.iter().enumerate();
        let not_used = not_used
            .filter(|(index, document)| !all_used.contains(index) && !has_values(document, &batch.drafts));
        batch.left_out = LeftOut {
            patches: self.input.patches.len(),
            unmatched,
            ..self.input.left_out
        };
        let not_used: Vec<_> = not_used.map(|(_, document)| unused(document)).collect();
        if self.input.is_folder {
            batch.left_out.others += not_used.len();
        } else {
            batch.notes.extend(not_used);
            batch.notes.extend(self.input.others);
        }
        batch.notes.extend(self.input.kustomized);
        Ok(batch)
    }

    /// The object that a field refers to. An empty namespace is one that is not known: kustomize sets it.
    ///
    /// In a folder several objects may have the name. The one with the namespace is preferred, then one of the same file, then the nearest.
    fn find(
        &self,
        reference: &Fields<'_>,
        (group, kind): (&str, &str),
        (namespace, name): (&str, &str),
        notes: &mut Vec<Note>,
    ) -> Referent<'_> {
        let from = reference.document();
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
    let id = (document.text("/kind"), document.text("/metadata/name"));
    document.group().is_empty() && references.any(|reference| (&*reference.kind, &*reference.name) == id)
}

/// The parts of an object that matter here to what refers to it.
fn content(document: &Document) -> Vec<Value> {
    let fields: &[&str] = match document.text("/kind") {
        "HelmRepository" => &[
            "url",
            "type",
            "provider",
            "insecure",
            "passCredentials",
            "secretRef",
            "certSecretRef",
        ],
        // Nothing of it is converted.
        "GitRepository" | "Bucket" => &[],
        _ => {
            return ["spec", "data", "stringData"]
                .map(|field| document.object.get(field).cloned().unwrap_or_default())
                .into();
        }
    };
    let spec = document.object.get("spec");
    let field = |name: &&str| spec.and_then(|spec| spec.get(*name)).cloned().unwrap_or_default();
    fields.iter().map(field).collect()
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

/// The documents that a HelmRelease is converted from, by their index.
#[derive(Debug, Default)]
struct Used(BTreeSet<usize>);

impl Used {
    fn add(&mut self, index: usize) {
        self.0.insert(index);
    }
}

#[cfg(test)]
mod tests;
