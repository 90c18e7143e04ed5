//! The files of an archive so far: their number, sizes, folder and paths.

use std::collections::BTreeSet;

use crate::{
    ArchiveError, Limits,
    meter::Remaining,
    path::{EntryPath, shown},
};

/// The files so far.
pub struct Files {
    limits: Limits,
    remaining: Remaining,
    paths: BTreeSet<String>,
    root: Option<String>,
}

impl Files {
    /// A reader that has read no files yet.
    pub fn new(limits: Limits, remaining: Remaining) -> Self {
        Self {
            limits,
            remaining,
            paths: BTreeSet::new(),
            root: None,
        }
    }

    /// Checks a file against the limits and against those before it.
    pub fn add(&mut self, path: &EntryPath, size: u64) -> Result<(), ArchiveError> {
        let limits = self.limits;
        let shown = || shown(path.as_str().as_bytes());
        self.remaining
            .take_file()
            .ok_or(ArchiveError::TooManyFiles { limit: limits.files })?;
        if size > limits.file {
            return Err(ArchiveError::FileTooLarge {
                path: shown(),
                bytes: size,
                limit: limits.file,
            });
        }
        let root = self.root.get_or_insert_with(|| path.root().to_owned());
        if root != path.root() {
            return Err(ArchiveError::SeveralRoots {
                first: root.clone(),
                second: path.root().to_owned(),
            });
        }
        if !self.paths.insert(path.in_chart().to_owned()) {
            return Err(ArchiveError::Duplicate { path: shown() });
        }
        Ok(())
    }

    /// Whether there is a file with this path in the chart.
    pub fn contains(&self, path: &str) -> bool {
        self.paths.contains(path)
    }
}
