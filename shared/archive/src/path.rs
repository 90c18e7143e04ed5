//! The path of an entry: which folder it is in, and which file of the chart it is.

use bounded_text::cut;

use crate::{ArchiveError, PathProblem};

/// The longest path, in bytes.
pub const MAX_PATH: usize = 512;
/// The longest text in a message, in bytes.
pub const MAX_SHOWN: usize = 200;

/// The path of a file or folder of a chart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryPath {
    path: String,
    root_len: usize,
}

impl EntryPath {
    /// Checks the path of an entry. A folder may end with `/`.
    pub fn parse(bytes: &[u8], is_folder: bool) -> Result<Self, ArchiveError> {
        let refused = |problem| ArchiveError::Path {
            path: shown(bytes),
            problem,
        };
        if bytes.len() > MAX_PATH {
            return Err(refused(PathProblem::TooLong));
        }
        let path = std::str::from_utf8(bytes).map_err(|_| refused(PathProblem::NotText))?;
        let path = path.strip_suffix('/').filter(|_| is_folder).unwrap_or(path);
        match problem(path) {
            Some(problem) => Err(refused(problem)),
            None if !is_folder && !path.contains('/') => Err(refused(PathProblem::NoFolder)),
            None => Ok(Self {
                root_len: path.find('/').unwrap_or(path.len()),
                path: path.to_owned(),
            }),
        }
    }

    /// The whole path.
    pub fn as_str(&self) -> &str {
        &self.path
    }

    /// The folder of the chart.
    pub fn root(&self) -> &str {
        self.path.split_at(self.root_len).0
    }

    /// The path in the folder of the chart.
    pub fn in_chart(&self) -> &str {
        self.path.split_at(self.root_len).1.trim_start_matches('/')
    }
}

/// Whether a file of an archive may have this path.
pub fn is_path(path: &str) -> bool {
    EntryPath::parse(path.as_bytes(), false).is_ok()
}

/// What is wrong with a path.
fn problem(path: &str) -> Option<PathProblem> {
    let is_drive = |part: &str| {
        let mut chars = part.chars();
        chars.next().is_some_and(|first| first.is_ascii_alphabetic()) && chars.next() == Some(':')
    };
    if path.starts_with('/') {
        Some(PathProblem::Absolute)
    } else if path.contains('\\') {
        Some(PathProblem::Backslash)
    } else if path.chars().any(char::is_control) {
        Some(PathProblem::Control)
    } else if path.split('/').any(|part| part == "..") {
        Some(PathProblem::Parent)
    } else if path.split('/').any(|part| part.is_empty() || part == ".") {
        Some(PathProblem::Odd)
    } else if path.split('/').any(is_drive) {
        Some(PathProblem::Drive)
    } else {
        None
    }
}

/// A path for a message.
pub fn shown(bytes: &[u8]) -> String {
    let (shown, _) = bytes.split_at(bytes.len().min(2 * MAX_SHOWN));
    cut(String::from_utf8_lossy(shown).into_owned(), MAX_SHOWN)
}
