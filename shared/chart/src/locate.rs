//! Finds the folder of a chart.

use std::collections::VecDeque;

use bounded_text::{excerpt, listed};

use crate::{
    ChartPath, FileTree,
    error::ChartError,
    tree::{Entry, EntryKind},
};

/// The file that describes a chart.
pub const CHART_YAML: &str = "Chart.yaml";
/// How many folders are searched for charts, for a message.
const MAX_SEARCHED: usize = 2000;
/// How many entries these folders may have. One folder may be in many places.
const MAX_ENTRIES: usize = 60_000;
/// How many charts a message names.
const MAX_LISTED: usize = 10;
/// The longest path in a message, in bytes.
pub const MAX_SHOWN: usize = 200;

/// The folder at a path.
///
/// # Errors
/// If there is none, with the folders that have charts.
pub fn folder<T: FileTree>(
    files: &mut T,
    root: T::Id,
    path: &ChartPath,
) -> Result<T::Id, ChartError<T::Error>> {
    let found = find(files, root, path).map_err(ChartError::Tree)?;
    found.map_err(|problem| no_chart(files, root, path, problem))
}

/// The folder at a path, or what is there in place of it.
///
/// # Errors
/// If a folder cannot be read.
pub fn find<T: FileTree>(
    files: &mut T,
    root: T::Id,
    path: &ChartPath,
) -> Result<Result<T::Id, &'static str>, T::Error> {
    let mut tree = root;
    for part in path.parts() {
        let found = files.entries(tree)?;
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
pub fn no_chart<T: FileTree>(
    files: &mut T,
    root: T::Id,
    path: &ChartPath,
    problem: &'static str,
) -> ChartError<T::Error> {
    ChartError::NoChart {
        path: path.clone(),
        problem,
        charts: charts(files, root),
    }
}

/// The folders with charts, for a message. Folders that cannot be read are left out.
fn charts<T: FileTree>(files: &mut T, root: T::Id) -> String {
    let mut found = Vec::new();
    let mut waiting = VecDeque::from([(String::new(), root)]);
    let (mut searched, mut read) = (0, 0);
    let mut is_complete = true;
    while let Some((path, tree)) = waiting.pop_front() {
        let all = files.entries(tree).unwrap_or_default();
        searched += 1;
        read += all.len();
        if searched > MAX_SEARCHED || read > MAX_ENTRIES {
            is_complete = false;
            break;
        }
        let is_chart =
            |entry: &Entry<T::Id>| entry.kind == EntryKind::File && entry.name == CHART_YAML.as_bytes();
        if all.iter().any(is_chart) {
            let shown = if path.is_empty() { "." } else { &path };
            found.push(excerpt(shown, MAX_SHOWN));
            // What is below are its subcharts.
            continue;
        }
        let folders = all.iter().filter(|entry| entry.kind == EntryKind::Folder);
        let folders = folders.filter_map(|entry| Some((std::str::from_utf8(&entry.name).ok()?, entry.id)));
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
