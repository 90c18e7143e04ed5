//! The pages that users read, and the sources.

use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

/// Files and folders with pages.
const SOURCES: [&str; 9] = [
    "README.md",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "TESTING.md",
    "certs/README.md",
    "docs",
    "manifests",
];

/// Folders with sources.
const CODE: [&str; 10] = [
    "agent",
    "certs",
    "cli",
    "controller",
    "fuzz",
    "notifier",
    "receiver",
    "shared",
    "tests",
    "webhook",
];

/// What else has text: programs in other languages, the pages of `kubectl helmop ui`, scripts and workflows, READMEs of crates.
const OTHERS: [&str; 10] = [
    ".github",
    "Makefile",
    "agent/helm",
    "cli/release",
    "cli/src/ui/assets",
    "image",
    "shared",
    "tests/lint",
    "tests/tools",
    "tests/truth",
];

/// Their extensions; scripts have none.
const OTHER_EXTENSIONS: [&str; 7] = ["css", "go", "html", "js", "md", "yaml", "yml"];

/// A file of text.
#[derive(Clone, Debug)]
pub struct Page {
    /// Its path in the repository, with `/`.
    pub path: String,
    pub text: String,
}

impl Page {
    pub fn new(path: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            text: text.into(),
        }
    }

    pub fn is_markdown(&self) -> bool {
        Path::new(&self.path)
            .extension()
            .is_some_and(|extension| extension == "md")
    }

    /// Its lines, with their index.
    pub fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate()
    }

    /// Its lines outside of fenced blocks of code, with their index.
    pub fn prose(&self) -> impl Iterator<Item = (usize, &str)> {
        let mut is_code = false;
        self.lines().filter(move |(_, line)| {
            let is_fence = line.trim_start().starts_with("```");
            is_code ^= is_fence;
            !is_code && !is_fence
        })
    }
}

/// The pages that users read.
pub fn read(root: &Path) -> Result<Vec<Page>> {
    pages(root, &SOURCES, |path| {
        path.extension()
            .is_some_and(|extension| extension != "tpl" && extension != "rs")
    })
}

/// The sources, tests included.
pub fn sources(root: &Path) -> Result<Vec<Page>> {
    pages(root, &CODE, |path| {
        path.extension().is_some_and(|extension| extension == "rs")
    })
}

/// The other texts of the repository.
pub fn others(root: &Path) -> Result<Vec<Page>> {
    pages(root, &OTHERS, |path| {
        let extension = path.extension().map(OsStr::to_str);
        extension.is_none_or(|one| one.is_some_and(|one| OTHER_EXTENSIONS.contains(&one)))
    })
}

fn pages(root: &Path, sources: &[&str], is_included: fn(&Path) -> bool) -> Result<Vec<Page>> {
    let mut files = Vec::new();
    for source in sources {
        collect(&root.join(source), is_included, &mut files)?;
    }
    files.sort();
    files.into_iter().map(|file| page(root, &file)).collect()
}

fn collect(path: &Path, is_included: fn(&Path) -> bool, files: &mut Vec<PathBuf>) -> Result<()> {
    if path.is_dir() {
        let entries = fs::read_dir(path).with_context(|| format!("cannot list {}", path.display()))?;
        for entry in entries {
            collect(&entry?.path(), is_included, files)?;
        }
    } else if is_included(path) {
        files.push(path.to_owned());
    }
    Ok(())
}

fn page(root: &Path, file: &Path) -> Result<Page> {
    let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let path = file.strip_prefix(root).unwrap_or(file);
    Ok(Page::new(path.to_string_lossy().replace('\\', "/"), text))
}
