//! The path of an entry: which folder it is in, and which file of the chart it is.

use bounded_text::cut;

use crate::{ArchiveError, PathProblem};

/// The longest path, in bytes.
pub const MAX_PATH: usize = 512;
/// The longest text in a message, in bytes.
pub const MAX_SHOWN: usize = 200;

/// Where the files of an archive are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// In the folder of a chart, as `helm package` writes it.
    Chart,
    /// At the top, or in any folder. Paths may begin with `./`, as `tar` writes them.
    Top,
}

/// The path of a file or folder of an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryPath {
    path: String,
    root_len: usize,
}

impl EntryPath {
    /// Checks the path of an entry. A folder may end with `/`.
    pub fn parse(bytes: &[u8], layout: Layout, is_folder: bool) -> Result<Self, ArchiveError> {
        let refused = |problem| ArchiveError::Path {
            path: shown(bytes),
            problem,
        };
        if bytes.len() > MAX_PATH {
            return Err(refused(PathProblem::TooLong));
        }
        let path = std::str::from_utf8(bytes).map_err(|_| refused(PathProblem::NotText))?;
        let path = path.strip_suffix('/').filter(|_| is_folder).unwrap_or(path);
        if layout == Layout::Top {
            return Self::at_top(path, is_folder).map_err(refused);
        }
        match problem(path) {
            Some(problem) => Err(refused(problem)),
            None if !is_folder && !path.contains('/') => Err(refused(PathProblem::NoFolder)),
            None => Ok(Self {
                root_len: path.find('/').unwrap_or(path.len()),
                path: path.to_owned(),
            }),
        }
    }

    fn at_top(path: &str, is_folder: bool) -> Result<Self, PathProblem> {
        let path = path.strip_prefix("./").unwrap_or(path);
        let is_top = is_folder && matches!(path, "" | ".");
        match problem(path) {
            Some(problem) if !is_top => Err(problem),
            _ => Ok(Self {
                path: path.to_owned(),
                root_len: 0,
            }),
        }
    }

    /// The whole path.
    pub fn as_str(&self) -> &str {
        &self.path
    }

    /// The folder of the chart; empty if the files are at the top.
    pub fn root(&self) -> &str {
        self.path.split_at(self.root_len).0
    }

    /// The path in the folder of the chart; the whole path if the files are at the top.
    pub fn in_chart(&self) -> &str {
        self.path.split_at(self.root_len).1.trim_start_matches('/')
    }
}

/// Whether a file of an archive may have this path.
pub fn is_path(path: &str) -> bool {
    EntryPath::parse(path.as_bytes(), Layout::Chart, false).is_ok()
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
