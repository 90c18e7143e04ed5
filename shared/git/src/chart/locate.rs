//! Finds the folder of a chart.

use std::collections::VecDeque;

use bounded_text::{excerpt, listed};

use super::{ChartPath, error::ChartError};
use crate::{
    ObjectId, ObjectKind, Objects, PackError,
    object::{EntryKind, TreeEntry, entries},
};

/// The file that describes a chart.
pub const CHART_YAML: &str = "Chart.yaml";
/// How many folders are searched for charts, for a message.
const MAX_SEARCHED: usize = 2000;
/// How many bytes these folders may have. One object may be many of them.
const MAX_BYTES: usize = 2 << 20;
/// How many charts a message names.
const MAX_LISTED: usize = 10;
/// The longest path in a message, in bytes.
pub const MAX_SHOWN: usize = 200;

/// An entry of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name.
    pub name: Vec<u8>,
    /// What it is.
    pub kind: EntryKind,
    /// Its object.
    pub id: ObjectId,
}

/// The entries of a folder.
pub fn read(objects: &mut Objects, tree: ObjectId) -> Result<Vec<Entry>, PackError> {
    let content = objects.content(tree, ObjectKind::Tree)?;
    let all = entries(objects.format(), &content).ok_or(PackError::Damaged("a folder is malformed"))?;
    let owned = all.into_iter().map(|entry| Entry {
        name: entry.name.to_vec(),
        kind: entry.kind,
        id: entry.id,
    });
    Ok(owned.collect())
}

/// The folder at a path.
///
/// # Errors
/// If there is none, with the folders that have charts.
pub fn folder(objects: &mut Objects, root: ObjectId, path: &ChartPath) -> Result<ObjectId, ChartError> {
    find(objects, root, path)?.map_err(|problem| no_chart(objects, root, path, problem))
}

/// The folder at a path, or what is there in place of it.
///
/// # Errors
/// If a folder cannot be read.
pub fn find(
    objects: &mut Objects,
    root: ObjectId,
    path: &ChartPath,
) -> Result<Result<ObjectId, &'static str>, PackError> {
    let mut tree = root;
    for part in path.parts() {
        let found = read(objects, tree)?;
        let found = found.into_iter().find(|entry| entry.name == part.as_bytes());
        let problem = match found {
            Some(entry) if entry.kind == EntryKind::Folder => {
                tree = entry.id;
                continue;
            }
            None => "is not in the repository at this commit",
            Some(entry) => match entry.kind {
                EntryKind::Link => "has a symbolic link in it, which is not followed",
                EntryKind::Submodule => {
                    "has a submodule in it, which is another repository and is not fetched"
                }
                EntryKind::File | EntryKind::Folder => "has a file in it, and not a folder",
            },
        };
        return Ok(Err(problem));
    }
    Ok(Ok(tree))
}

/// The error for a path without a chart.
pub fn no_chart(
    objects: &mut Objects,
    root: ObjectId,
    path: &ChartPath,
    problem: &'static str,
) -> ChartError {
    ChartError::NoChart {
        path: path.clone(),
        problem,
        charts: charts(objects, root),
    }
}

/// The folders with charts, for a message. Folders that cannot be read are left out.
fn charts(objects: &mut Objects, root: ObjectId) -> String {
    let mut found = Vec::new();
    let mut waiting = VecDeque::from([(String::new(), root)]);
    let (mut searched, mut bytes) = (0, 0);
    let mut is_complete = true;
    while let Some((path, tree)) = waiting.pop_front() {
        let content = objects.content(tree, ObjectKind::Tree).unwrap_or_default();
        searched += 1;
        bytes += content.len();
        if searched > MAX_SEARCHED || bytes > MAX_BYTES {
            is_complete = false;
            break;
        }
        let all = entries(objects.format(), &content).unwrap_or_default();
        let is_chart =
            |entry: &TreeEntry<'_>| entry.kind == EntryKind::File && entry.name == CHART_YAML.as_bytes();
        if all.iter().any(is_chart) {
            let shown = if path.is_empty() { "." } else { &path };
            found.push(excerpt(shown, MAX_SHOWN));
            // What is below are its subcharts.
            continue;
        }
        let folders = all.iter().filter(|entry| entry.kind == EntryKind::Folder);
        let folders = folders.filter_map(|entry| Some((std::str::from_utf8(entry.name).ok()?, entry.id)));
        let below = |name: &str| {
            if path.is_empty() {
                name.to_owned()
            } else {
                format!("{path}/{name}")
            }
        };
        let free = MAX_SEARCHED.saturating_sub(waiting.len());
        waiting.extend(folders.take(free).map(|(name, id)| (below(name), id)));
    }
    match &*found {
        [] if is_complete => "there is no Chart.yaml in any folder, so check url and ref".to_owned(),
        [] => "no Chart.yaml is in the folders near the top, so check url and ref".to_owned(),
        found => format!("charts are in {}", listed(found, MAX_LISTED)),
    }
}
