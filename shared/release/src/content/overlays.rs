//! Overlays: folders with files that replace or patch others.

use std::collections::BTreeMap;

use helmops_content::{Limits, Manifest, Resource};
use serde::Serialize;

use super::{ContentChartError, path};

/// The folder of all overlays.
const OVERLAYS: &str = "overlays/";
/// What the name of a patch has, and that of its file has not.
const PATCH: &str = "_patch.";

/// A file with patches, in the order in which they are applied to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PatchedFile {
    /// The path of the file.
    pub path: String,
    /// The file, as YAML or JSON.
    pub text: String,
    /// The patches: objects, or lists of operations.
    pub patches: Vec<String>,
}

/// Files with overlays over them, without the overlays themselves.
#[derive(Debug)]
pub struct Overlaid {
    files: BTreeMap<String, Resource>,
    /// By the paths of the files.
    patches: BTreeMap<String, PatchedFile>,
    has_overlays: bool,
}

impl Overlaid {
    /// Lays these overlays over files. Within an overlay, files come before patches; in Fleet the order is random.
    ///
    /// Source: Fleet's `internal/helmdeployer/render/patch`.
    pub fn new(
        resources: Vec<Resource>,
        overlays: &[String],
        limits: Limits,
    ) -> Result<Self, ContentChartError> {
        let mut overlaid = Self {
            files: BTreeMap::new(),
            patches: BTreeMap::new(),
            has_overlays: !overlays.is_empty(),
        };
        for (at, mut resource) in resources.into_iter().enumerate() {
            if resource.name.is_empty() {
                resource.name = format!("manifests/file{at:03}.yaml");
            }
            if let Some(same) = overlaid.files.insert(resource.name.clone(), resource) {
                return Err(ContentChartError::Twice(same.name));
            }
        }
        for overlay in overlays {
            overlaid.lay(overlay, limits)?;
        }
        overlaid.files.retain(|path, _| !path.starts_with(OVERLAYS));
        if overlaid.has_overlays {
            overlaid.decode(limits)?;
        }
        Ok(overlaid)
    }

    fn lay(&mut self, overlay: &str, limits: Limits) -> Result<(), ContentChartError> {
        let folder = format!("{OVERLAYS}{overlay}/");
        let own = self.files.iter().filter_map(|(path, file)| {
            let path = path.strip_prefix(&*folder)?;
            Some((path.to_owned(), file.clone()))
        });
        let (patches, files): (Vec<_>, Vec<_>) = own.partition(|(path, _)| target(path).is_some());
        for (path, mut file) in files {
            self.patches.remove(&path);
            file.name.clone_from(&path);
            self.files.insert(path, file);
        }
        for (patch, file) in patches {
            let Some(target) = target(&patch) else { continue };
            let Some(base) = self.files.get(&target) else {
                return Err(ContentChartError::NothingToPatch {
                    overlay: overlay.to_owned(),
                    patch,
                    target,
                });
            };
            let patch = text(&file, limits)?;
            let mut entry = match self.patches.remove(&target) {
                Some(entry) => entry,
                None => PatchedFile {
                    path: target.clone(),
                    text: text(base, limits)?,
                    patches: Vec::new(),
                },
            };
            entry.patches.push(patch);
            self.patches.insert(target, entry);
        }
        Ok(())
    }

    /// With overlays, Fleet forgets how files were encoded, which the ID depends on: also on those that become no files of the chart, and may be
    /// larger than these.
    fn decode(&mut self, limits: Limits) -> Result<(), ContentChartError> {
        let limits = Limits {
            file: limits.json,
            ..limits
        };
        for file in self.files.values_mut().filter(|file| !file.encoding.is_empty()) {
            let content = file.decode(limits)?.into_owned();
            *file = Resource::of_file(file.name.clone(), content)?;
        }
        Ok(())
    }

    /// Whether there are overlays.
    pub const fn has_overlays(&self) -> bool {
        self.has_overlays
    }

    /// The files with patches.
    pub fn patched(&self) -> Vec<PatchedFile> {
        self.patches.values().cloned().collect()
    }

    /// The files, sorted. `results` are those with patches, in the order of [`Self::patched`].
    pub fn finish(mut self, results: Vec<String>) -> Manifest {
        for (path, content) in self.patches.into_keys().zip(results) {
            let file = Resource {
                name: path.clone(),
                content,
                encoding: String::new(),
            };
            self.files.insert(path, file);
        }
        Manifest {
            resources: self.files.into_values().collect(),
        }
    }
}

/// The path of the file that a patch is for; `None` for a file that is no patch.
fn target(path: &str) -> Option<String> {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    let (start, end) = name.split_once(PATCH)?;
    Some(path::join(folder, &format!("{start}.{end}")))
}

fn text(file: &Resource, limits: Limits) -> Result<String, ContentChartError> {
    let content = file.decode(limits)?.into_owned();
    String::from_utf8(content).map_err(|_| ContentChartError::NotText(file.name.clone()))
}
