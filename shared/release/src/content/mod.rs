//! The chart that is made of the files of a Bundle, such as those of a GitRepo: the same one as Fleet's agent makes, so that a release can
//! pass from one agent to the other.
//!
//! ```text
//! files ─► style ─┬─ a chart: the files of its folder ───────────────────────────────┐
//!                 ├─ a kustomization: no files, since Kustomize reads all of them ───┤─► entries of an archive
//!                 └─ manifests: overlays ─► patches ─► raw-yaml/ and templates/ ─────┤
//!                                                      Chart.yaml of name and ID ────┘
//! ```
//!
//! Files in `raw-yaml/` are no templates: they become objects after the rendering. Patches of overlays are strategic merge patches, which
//! need the types of Kubernetes: the caller has them applied.
//!
//! Source: Fleet's `internal/helmdeployer/render`, `internal/bundlereader/style.go`.

mod chart_yaml;
mod manifests;
mod overlays;
mod path;
mod style;

use std::{borrow::Cow, mem};

use helmops_api::BundleDeploymentOptions;
use helmops_content::{ContentError, ContentId, Limits, Manifest, Resource};
use thiserror::Error;

use self::{overlays::Overlaid, style::Style};
pub use self::{overlays::PatchedFile, path::FOLDER};

/// The folder of the chart in its archive.
const CHART: &str = "chart/";

/// What a chart is made of.
#[derive(Clone, Copy, Debug)]
pub struct ContentSource<'s> {
    /// The name of the BundleDeployment.
    pub deployment: &'s str,
    /// The commit of the files, as the label of the BundleDeployment has it; empty for none.
    pub commit: &'s str,
    /// The options of the BundleDeployment.
    pub options: &'s BundleDeploymentOptions,
    /// The ID of the files.
    pub id: &'s ContentId,
    /// Limits of each file.
    pub limits: Limits,
}

/// Why files make no chart.
#[derive(Debug, Error)]
pub enum ContentChartError {
    /// A file cannot be read.
    #[error(transparent)]
    File(#[from] ContentError),
    /// There is no file for a patch of an overlay.
    #[error(
        "overlay {overlay:?}: the patch {patch:?} is for the file {target:?}, which does not exist; correct its name: `_patch` is left out of it"
    )]
    NothingToPatch {
        /// The overlay.
        overlay: String,
        /// The path of the patch, in the folder of the overlay.
        patch: String,
        /// The path of the file.
        target: String,
    },
    /// A chart has a file in the folder for those of kustomizations.
    #[error(
        "the chart has the file {0:?}, and its folder {FOLDER} is for helmops; rename this folder in the Bundle"
    )]
    Reserved(String),
    /// Two files have the same path.
    #[error("the file {0:?} exists twice; remove one of the two from the Bundle")]
    Twice(String),
    /// A patch, or the file that it is for, is no text.
    #[error(
        "{0:?} is not UTF-8 text, which a patch and the file that it is for have to be; save it in this encoding"
    )]
    NotText(String),
}

/// Files, and the patches that have to be applied to some of them.
#[derive(Debug)]
pub struct ContentFiles<'s> {
    source: ContentSource<'s>,
    style: Style,
    /// Those of a chart or a kustomization, as they are.
    manifest: Manifest,
    /// Manifests, with their overlays.
    overlaid: Option<Overlaid>,
}

impl<'s> ContentFiles<'s> {
    /// The files, with their overlays.
    ///
    /// # Errors
    /// If one of them cannot be read, or a patch has no file, or a chart has a file where those of kustomizations are.
    pub fn new(mut manifest: Manifest, source: ContentSource<'s>) -> Result<Self, ContentChartError> {
        let style = Style::of(&manifest.resources, source.options);
        if let Some(chart_yaml) = &style.chart_yaml {
            let reserved = format!("{}/", path::join(path::parent(chart_yaml), FOLDER));
            let is_reserved = |file: &&Resource| path::clean(&file.name).starts_with(&reserved);
            if let Some(file) = manifest.resources.iter().find(is_reserved) {
                return Err(ContentChartError::Reserved(file.name.clone()));
            }
        }
        let overlays = source.options.yaml.as_ref().map(|yaml| &*yaml.overlays);
        let mut overlaid = None;
        if style.is_manifests() {
            let files = mem::take(&mut manifest.resources);
            overlaid = Some(Overlaid::new(files, overlays.unwrap_or_default(), source.limits)?);
        }
        Ok(Self {
            source,
            style,
            manifest,
            overlaid,
        })
    }

    /// The files that have patches.
    pub fn patched(&self) -> Vec<PatchedFile> {
        self.overlaid.as_ref().map_or_else(Vec::new, Overlaid::patched)
    }

    /// The entries of the archive of the chart, in their order. `results` are the patched files, in the order of [`Self::patched`].
    pub fn entries(self, results: Vec<String>) -> Vec<ChartEntry> {
        let Self {
            source,
            style,
            manifest,
            overlaid,
        } = self;
        let mut resources = manifest.resources;
        let mut entries = match &style.chart_yaml {
            Some(path) if style.is_kustomized => in_folder(resources.clone(), path::parent(path)),
            Some(path) => in_folder(mem::take(&mut resources), path::parent(path)),
            None => Vec::new(),
        };
        let mut id = source.id.clone();
        // Fleet forgets the commit when it lays overlays over files.
        let mut commit = source.commit;
        if let Some(overlaid) = overlaid {
            if overlaid.has_overlays() {
                commit = "";
            }
            let laid = overlaid.finish(results);
            id = laid.id();
            entries = manifests::entries(laid.resources);
        }
        if style.chart_yaml.is_none() {
            entries.push(ChartEntry {
                path: format!("{CHART}Chart.yaml"),
                content: EntryContent::Text(chart_yaml::text(source.deployment, commit, &id)),
                is_of_chart: true,
            });
        }
        if style.is_kustomized {
            entries.extend(beside_chart(resources));
        }
        entries
    }
}

/// A file of the archive of a chart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChartEntry {
    /// Its path, which starts with the folder of the chart.
    pub path: String,
    /// Its content.
    pub content: EntryContent,
    /// Whether it is a file of the chart. Others are those of a Bundle that a kustomization may name: one that no archive can have is left out.
    pub is_of_chart: bool,
}

/// The content of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryContent {
    /// A file of the Bundle, which is decoded when it is needed.
    File(Resource),
    /// A text that was made.
    Text(String),
}

impl EntryContent {
    /// The bytes.
    ///
    /// # Errors
    /// If they are not encoded as the file says, or too large.
    pub fn bytes(&self, limits: Limits) -> Result<Cow<'_, [u8]>, ContentError> {
        match self {
            Self::File(resource) => resource.decode(limits),
            Self::Text(text) => Ok(text.as_bytes().into()),
        }
    }
}

fn entry(path: &str, resource: Resource) -> ChartEntry {
    ChartEntry {
        path: format!("{CHART}{}", path::clean(path)),
        content: EntryContent::File(resource),
        is_of_chart: true,
    }
}

/// The files in a folder, as those of the chart.
fn in_folder(resources: Vec<Resource>, folder: &str) -> Vec<ChartEntry> {
    let prefix = path::prefix(folder);
    let files = resources.into_iter().filter(|resource| !resource.name.is_empty());
    files
        .filter_map(|resource| {
            let path = resource.name.strip_prefix(&*prefix)?.to_owned();
            Some(entry(&path, resource))
        })
        .collect()
}

/// All files, for Kustomize. They are no files of the chart.
fn beside_chart(resources: Vec<Resource>) -> Vec<ChartEntry> {
    let mut entries = Vec::new();
    for resource in resources {
        let path = path::clean(&resource.name);
        if !path.is_empty() {
            entries.push(ChartEntry {
                is_of_chart: false,
                ..entry(&format!("{FOLDER}{path}"), resource)
            });
        }
    }
    entries
}

#[cfg(test)]
mod tests;
