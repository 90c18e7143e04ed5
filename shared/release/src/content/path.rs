//! Paths, as Go's `path/filepath` has them.

/// The folder of the chart with the files that a kustomization reads. `helmops-helm` takes them out of the chart.
pub const FOLDER: &str = ".helmops-content/";

/// A relative path without `.` and empty parts. Those of files have no `..`.
pub fn clean(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/').filter(|part| !matches!(*part, "" | ".")) {
        if part == ".." && parts.last().is_some_and(|last| *last != "..") {
            parts.pop();
        } else {
            parts.push(part);
        }
    }
    parts.join("/")
}

/// A file in a folder.
pub fn join(folder: &str, file: &str) -> String {
    clean(&format!("{folder}/{file}"))
}

/// The folder of a file; empty for the first one.
pub fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// What the paths of all files in a folder start with.
pub fn prefix(folder: &str) -> String {
    if folder.is_empty() {
        String::new()
    } else {
        format!("{folder}/")
    }
}
