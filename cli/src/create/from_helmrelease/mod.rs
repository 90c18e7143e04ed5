//! HelmReleases of Flux, as HelmOps.
//!
//! ```text
//! file ─► `documents` (objects, positions) ─► HelmRelease ─► `source` (repository, chart, version, credentials)  ─┐
//!                                                            `values` (inline, ConfigMaps, Secrets)               ├─► Draft
//!                                                            `release` (names, life cycle, everything else)      ─┘
//! ```
//!
//! Each field is taken from its mapping (`fields`). What has no equivalent, or another meaning, becomes a note with its position.

mod documents;
mod fields;
mod release;
mod source;
mod texts;
mod together;
mod values;

use std::path::Path;

use self::{
    documents::{Document, documents},
    fields::Fields,
};
use super::{Draft, Gap, Note, flags::read};
use crate::failure::Failure;

/// The API groups of Flux that a file may have.
const HELM: &str = "helm.toolkit.fluxcd.io";
const SOURCE: &str = "source.toolkit.fluxcd.io";

/// The objects of a file.
#[derive(Debug)]
pub struct FromHelmRelease {
    documents: Vec<Document>,
    /// The namespace of the HelmOps, if it is known.
    namespace: Option<String>,
}

impl FromHelmRelease {
    /// Reads a file.
    ///
    /// # Errors
    /// If it cannot be read, or has no HelmRelease.
    pub fn read(file: &Path, namespace: Option<&str>) -> Result<Self, Failure> {
        let text = read(file)?;
        Self::of(&text, namespace).map_err(|mut failure| {
            failure.message = format!("{}: {}", file.display(), failure.message);
            failure
        })
    }

    fn of(text: &str, namespace: Option<&str>) -> Result<Self, Failure> {
        let source = Self {
            documents: documents(text)?,
            namespace: namespace.map(str::to_owned),
        };
        if source.releases().next().is_none() {
            return Err(
                Failure::unable("there is no HelmRelease of helm.toolkit.fluxcd.io")
                    .with_hint("print one with: kubectl get helmrelease NAME -o yaml"),
            );
        }
        Ok(source)
    }

    fn releases(&self) -> impl Iterator<Item = &Document> {
        let is_release =
            |document: &&Document| document.group() == HELM && document.text("/kind") == "HelmRelease";
        self.documents.iter().filter(is_release)
    }

    /// The HelmOps, in the order of the HelmReleases.
    ///
    /// # Errors
    /// If a name is given, and there are several.
    pub fn drafts(&self, name: Option<&str>) -> Result<Vec<Draft>, Failure> {
        let mut used = Used::default();
        let mut drafts: Vec<_> = self
            .releases()
            .map(|release| release::draft(self, release, &mut used))
            .collect();
        match (name, drafts.as_mut_slice()) {
            (None, _) => {}
            (Some(name), [draft]) => draft.helmop.metadata.name = Some(name.to_owned()),
            (Some(name), several) => {
                return Err(Failure::unable(format!(
                    "the file has {} HelmReleases, and {name:?} can be the name of one only",
                    several.len()
                ))
                .with_hint("omit the name: each HelmOp gets that of its HelmRelease"));
            }
        }
        together::check(&self.releases().collect::<Vec<_>>(), &mut drafts);
        let unused = self.unused(&used);
        if let Some(last) = drafts.last_mut() {
            last.notes.extend(unused);
        }
        Ok(drafts)
    }

    /// An object of the file; objects without a namespace are in that of the HelmRelease.
    fn find(&self, group: &str, kind: &str, namespace: &str, name: &str) -> Option<(usize, &Document)> {
        let is_this = |document: &Document| {
            let own = document.text("/metadata/namespace");
            document.group() == group
                && document.text("/kind") == kind
                && document.text("/metadata/name") == name
                && (own.is_empty() || namespace.is_empty() || own == namespace)
        };
        self.documents
            .iter()
            .enumerate()
            .find(|(_, document)| is_this(document))
    }

    /// Objects of the file that no HelmRelease uses.
    fn unused(&self, used: &Used) -> Vec<Note> {
        let is_unused = |(index, document): &(usize, &Document)| {
            let is_release = document.group() == HELM && document.text("/kind") == "HelmRelease";
            !is_release && !used.0.contains(index)
        };
        let unused = self.documents.iter().enumerate().filter(is_unused);
        unused
            .map(|(_, document)| Note {
                object: document.title(),
                path: String::new(),
                position: document.position("kind"),
                text: "no HelmRelease in the file uses this object; it is not in the output".to_owned(),
                gap: Gap::None,
            })
            .collect()
    }
}

/// The documents that were converted, by their index.
#[derive(Debug, Default)]
struct Used(std::collections::BTreeSet<usize>);

impl Used {
    fn add(&mut self, index: usize) {
        self.0.insert(index);
    }
}

#[cfg(test)]
mod tests;
