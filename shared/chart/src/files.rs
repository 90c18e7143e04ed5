//! The files of a chart: those of its folder without those that `.helmignore` names, and those of charts that it includes by `file://`.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use bounded_text::excerpt;
use go_formats::yaml::Quota;
use helm_archive::{Limits, MAX_PATH};

use crate::{
    ChartPath, Content, FileTree,
    dependency::{self, Declared},
    error::ChartError,
    ignore::{HELMIGNORE, Rules},
    locate::{self, CHART_YAML, MAX_SHOWN, no_chart},
    metadata::ChartYaml,
    tree::{EntryKind, FileError},
};

/// Where charts of the first format declare their dependencies.
const REQUIREMENTS: &str = "requirements.yaml";
/// How deep folders of a chart may nest.
const MAX_DEPTH: usize = 32;
/// How deep charts may include each other by `file://`.
const MAX_INCLUDED: usize = 4;
/// How many folders a chart may include: each is a part of the record of its version.
const MAX_LOCAL: usize = 32;

/// The files of a chart.
#[derive(Clone, Debug, PartialEq)]
pub struct ChartFiles<Id> {
    /// What the chart consists of.
    pub content: Content<Id>,
    /// The files by their paths in the folder of the chart.
    pub(crate) files: BTreeMap<String, ChartFile<Id>>,
    /// Its `Chart.yaml`.
    pub(crate) chart_yaml: ChartYaml,
}

/// A file of a chart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChartFile<Id> {
    /// What names its content.
    pub id: Id,
    /// Its path in the repository or bucket.
    pub source: String,
}

/// What there is of a chart.
#[derive(Clone, Debug, PartialEq)]
pub enum Assembly<Id> {
    /// All of it.
    Complete(Box<ChartFiles<Id>>),
    /// These files have to be fetched first. Then others may be needed.
    Missing(Vec<Id>),
}

/// Finds the files of the chart at a path of these folders.
///
/// # Errors
/// If there is no chart, or something in it is refused.
pub fn assemble<T: FileTree>(
    tree: &mut T,
    root: T::Id,
    path: &ChartPath,
) -> Result<Assembly<T::Id>, ChartError<T::Error>> {
    let mut assembler = Assembler::new(tree, root);
    let chart_yaml = assembler.add(path, "", 0)?;
    let Assembler {
        files,
        local,
        missing,
        ..
    } = assembler;
    let Some(chart_yaml) = chart_yaml.filter(|_| missing.is_empty()) else {
        return Ok(Assembly::Missing(missing.into_iter().collect()));
    };
    let folder = locate::folder(tree, root, path)?;
    Ok(Assembly::Complete(Box::new(ChartFiles {
        content: Content { tree: folder, local },
        files,
        chart_yaml,
    })))
}

pub(crate) struct Assembler<'t, T: FileTree> {
    tree: &'t mut T,
    root: T::Id,
    files: BTreeMap<String, ChartFile<T::Id>>,
    local: BTreeMap<ChartPath, T::Id>,
    pub missing: BTreeSet<T::Id>,
    /// For all YAML of the chart.
    quota: Quota,
    /// The names of subcharts by what names the content of their `Chart.yaml`: one file may be in many folders.
    subcharts: BTreeMap<T::Id, Option<String>>,
}

/// An entry below the folder of a chart.
pub(crate) struct Below<Id> {
    pub path: String,
    pub kind: EntryKind,
    pub id: Id,
}

impl<'t, T: FileTree> Assembler<'t, T> {
    /// Without any file.
    pub fn new(tree: &'t mut T, root: T::Id) -> Self {
        Self {
            tree,
            root,
            files: BTreeMap::new(),
            local: BTreeMap::new(),
            missing: BTreeSet::new(),
            quota: Quota::default(),
            subcharts: BTreeMap::new(),
        }
    }

    /// Adds the files of a chart, with `prefix` before their paths. Returns its `Chart.yaml`, or nothing if files are missing.
    fn add(
        &mut self,
        path: &ChartPath,
        prefix: &str,
        depth: usize,
    ) -> Result<Option<ChartYaml>, ChartError<T::Error>> {
        let folder = locate::folder(self.tree, self.root, path)?;
        let all = self.below(folder, path, |_| true)?;
        let is_chart = |below: &Below<T::Id>| below.path == CHART_YAML && below.kind == EntryKind::File;
        if !all.iter().any(is_chart) {
            return Err(no_chart(self.tree, self.root, path, "has no file Chart.yaml"));
        }
        // What .helmignore names is not fetched, so it comes first, with the file that is needed in any case.
        let is_first = |path: &str| matches!(path, HELMIGNORE | CHART_YAML);
        let has_rules = all.iter().any(|below| below.path == HELMIGNORE);
        if has_rules && self.misses(&all, is_first) {
            return Ok(None);
        }
        let own = self.kept(all, path)?;
        if self.misses(&own, |_| true) {
            return Ok(None);
        }
        let mut declared = Declared::default();
        let mut chart_yaml = None;
        for below in &own {
            let source = path.below(&below.path);
            let invalid = |cause| ChartError::<T::Error>::Invalid {
                path: excerpt(&source, MAX_SHOWN),
                cause,
            };
            if below.path == CHART_YAML {
                let parsed =
                    ChartYaml::parse(&self.file(below.id, &source)?, &mut self.quota).map_err(invalid)?;
                declared.add(&parsed.dependencies);
                chart_yaml = Some(parsed);
            } else if below.path == REQUIREMENTS {
                let parsed = ChartYaml::requirements(&self.file(below.id, &source)?, &mut self.quota)
                    .map_err(invalid)?;
                declared.add(&parsed);
            } else if dependency::is_chart_yaml(&below.path) {
                declared.found_folder(&below.path, self.subchart(below.id, &source)?.as_deref());
            } else {
                declared.found_file(&below.path);
            }
        }
        for below in own {
            let source = path.below(&below.path);
            self.files.insert(
                format!("{prefix}{}", below.path),
                ChartFile { id: below.id, source },
            );
        }
        check_number::<T::Error>(self.files.len())?;
        // Without it, .helmignore names it.
        let Some(chart_yaml) = chart_yaml else {
            return Err(no_chart(
                self.tree,
                self.root,
                path,
                "has a file Chart.yaml that its .helmignore names",
            ));
        };
        self.add_included(&declared, path, prefix, depth)?;
        Ok(Some(chart_yaml))
    }

    /// Whether files are missing, which are fetched then.
    pub fn misses(&mut self, all: &[Below<T::Id>], is_needed: fn(&str) -> bool) -> bool {
        let files = all
            .iter()
            .filter(|below| below.kind == EntryKind::File && is_needed(&below.path));
        let missing: Vec<_> = files
            .map(|file| file.id)
            .filter(|id| !self.tree.contains(*id))
            .collect();
        let is_one_missing = !missing.is_empty();
        self.missing.extend(missing);
        is_one_missing
    }

    /// Adds the charts that a chart includes.
    fn add_included(
        &mut self,
        declared: &Declared,
        path: &ChartPath,
        prefix: &str,
        depth: usize,
    ) -> Result<(), ChartError<T::Error>> {
        for dependency in declared.not_vendored() {
            let folder = dependency::folder::<T::Error>(dependency, path)?;
            let problem = |problem: String| dependency::problem::<T::Error>(dependency, path, problem);
            if depth >= MAX_INCLUDED {
                return Err(problem(format!(
                    "and charts include each other more than {MAX_INCLUDED} deep; do they include themselves?"
                )));
            }
            let tree = locate::find(self.tree, self.root, &folder)
                .map_err(ChartError::Tree)?
                .map_err(|cause| problem(format!("but {folder} {cause}")))?;
            self.local.insert(folder.clone(), tree);
            if self.local.len() > MAX_LOCAL {
                return Err(problem(format!(
                    "and with it more than {MAX_LOCAL} folders are included; make fewer charts of them, or commit the folder charts"
                )));
            }
            let prefix = format!("{prefix}charts/{}/", dependency.name);
            if let Some(included) = self.add(&folder, &prefix, depth + 1)? {
                dependency::check(dependency, &included).map_err(problem)?;
            }
        }
        Ok(())
    }

    /// Everything below a folder but folders, without what has names that are left out.
    pub fn below(
        &mut self,
        tree: T::Id,
        path: &ChartPath,
        is_kept: fn(&[u8]) -> bool,
    ) -> Result<Vec<Below<T::Id>>, ChartError<T::Error>> {
        let mut all = Vec::new();
        let mut waiting = vec![(String::new(), tree, 0)];
        let mut folders = 0;
        while let Some((folder, tree, depth)) = waiting.pop() {
            folders += 1;
            let entries = self.tree.entries(tree).map_err(ChartError::Tree)?;
            for entry in entries.into_iter().filter(|entry| is_kept(&entry.name)) {
                let name = String::from_utf8_lossy(&entry.name);
                let below = if folder.is_empty() {
                    name.into_owned()
                } else {
                    format!("{folder}/{name}")
                };
                let refused = |problem| {
                    Err(ChartError::Refused {
                        path: excerpt(&path.below(&below), MAX_SHOWN),
                        problem,
                    })
                };
                if let Some(problem) = name_problem(&entry.name, &below) {
                    return refused(problem);
                }
                if entry.kind != EntryKind::Folder {
                    all.push(Below {
                        path: below,
                        kind: entry.kind,
                        id: entry.id,
                    });
                } else if depth >= MAX_DEPTH {
                    return refused("is a folder that is too deep; name a smaller folder in path");
                } else {
                    waiting.push((below, entry.id, depth + 1));
                }
                check_number::<T::Error>(all.len() + waiting.len() + folders)?;
            }
        }
        Ok(all)
    }

    /// The files that are a part of the chart.
    fn kept(
        &mut self,
        all: Vec<Below<T::Id>>,
        path: &ChartPath,
    ) -> Result<Vec<Below<T::Id>>, ChartError<T::Error>> {
        let rules = all
            .iter()
            .find(|below| below.path == HELMIGNORE && below.kind == EntryKind::File)
            .map(|below| below.id);
        let source = path.below(HELMIGNORE);
        let text = match rules {
            Some(id) => self.file(id, &source)?,
            None => Arc::default(),
        };
        let rules = Rules::parse(&String::from_utf8_lossy(&text));
        let rules = rules.map_err(|cause| ChartError::<T::Error>::Invalid {
            path: excerpt(&source, MAX_SHOWN),
            cause,
        })?;
        let mut kept = Vec::new();
        for below in all {
            if is_ignored(&rules, &below.path) {
                continue;
            }
            check_kind::<T>(&below, path)?;
            kept.push(below);
        }
        Ok(kept)
    }

    /// The name in the `Chart.yaml` of a subchart; `None` if it cannot be read.
    fn subchart(&mut self, id: T::Id, path: &str) -> Result<Option<String>, ChartError<T::Error>> {
        if let Some(known) = self.subcharts.get(&id) {
            return Ok(known.clone());
        }
        let parsed = ChartYaml::parse(&self.file(id, path)?, &mut self.quota);
        let name = parsed.ok().map(|chart| chart.name);
        self.subcharts.insert(id, name.clone());
        Ok(name)
    }

    fn file(&mut self, id: T::Id, path: &str) -> Result<Arc<[u8]>, ChartError<T::Error>> {
        file(self.tree, id, path)
    }
}

/// The content of a file.
pub(crate) fn file<T: FileTree>(
    tree: &mut T,
    id: T::Id,
    path: &str,
) -> Result<Arc<[u8]>, ChartError<T::Error>> {
    tree.file(id).map_err(|error| match error {
        FileError::TooLarge { limit } => ChartError::FileTooLarge {
            path: excerpt(path, MAX_SHOWN),
            limit,
        },
        FileError::Tree(error) => ChartError::Tree(error),
    })
}

/// Whether a rule names a file, or a folder that it is in.
fn is_ignored(rules: &Rules, path: &str) -> bool {
    let folders = path.match_indices('/').filter_map(|(at, _)| path.get(..at));
    let mut folders = folders.map(|folder| rules.ignore(folder, true));
    folders.any(|is_ignored| is_ignored) || rules.ignore(path, false)
}

fn check_number<E>(files: usize) -> Result<(), ChartError<E>> {
    let limit = Limits::HELM.files;
    if files > limit {
        return Err(ChartError::TooManyFiles { limit });
    }
    Ok(())
}

/// Refuses what is no file.
pub(crate) fn check_kind<T: FileTree>(
    below: &Below<T::Id>,
    path: &ChartPath,
) -> Result<(), ChartError<T::Error>> {
    let refused = |problem| ChartError::Refused {
        path: excerpt(&path.below(&below.path), MAX_SHOWN),
        problem,
    };
    kind_problem(below.kind).map_or(Ok(()), |problem| Err(refused(problem)))
}

fn kind_problem(kind: EntryKind) -> Option<&'static str> {
    match kind {
        EntryKind::File | EntryKind::Folder => None,
        EntryKind::Link => Some(
            "is a symbolic link, which may lead anywhere and is not followed; replace it by what it leads to, move it out of the folder, or name it in the .helmignore of a chart",
        ),
        EntryKind::Submodule => Some(
            "is a submodule, which is another repository and is not fetched; commit its files, move it out of the folder, or name it in the .helmignore of a chart",
        ),
    }
}

fn name_problem(name: &[u8], path: &str) -> Option<&'static str> {
    let text = std::str::from_utf8(name);
    let has_control = |text: &str| text.contains(|c: char| c.is_control() || bounded_text::is_control(c));
    let problems = [
        (text.is_err(), "has a name that is not UTF-8 text; rename it"),
        (
            text.is_ok_and(has_control),
            "has a control character in its name; rename it",
        ),
        (name.contains(&b'\\'), "has a backslash in its name; rename it"),
        (
            path.len() + name.len() > MAX_PATH,
            "has a path that is too long; shorten it",
        ),
    ];
    problems.iter().find(|(is, _)| *is).map(|(_, problem)| *problem)
}
