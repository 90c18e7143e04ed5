//! Why an archive is refused.

use std::{fmt, io};

use thiserror::Error;

/// Why an archive is refused. Names in it are cut.
#[derive(Debug, Error)]
pub enum ArchiveError {
    /// The archive cannot be read.
    #[error("cannot read the archive: {0}")]
    Input(#[source] io::Error),
    /// It is not compressed with gzip, or damaged.
    #[error("it is not a chart archive (.tgz): {0}")]
    Gzip(String),
    /// It is not a tar archive, or damaged.
    #[error("the archive is damaged: {0}")]
    Tar(String),
    /// An entry has a path that no chart needs.
    #[error(
        "the archive contains the path {path:?}, which {problem}; package the chart again with `helm package`"
    )]
    Path {
        /// The path, cut.
        path: String,
        /// What is wrong with it.
        problem: PathProblem,
    },
    /// An entry is neither a file nor a folder.
    #[error(
        "{path} in the archive is {kind}, and a chart has files only; package the chart again with `helm package`, which puts the \
         file in place of a link"
    )]
    Special {
        /// The path, cut.
        path: String,
        /// What it is.
        kind: &'static str,
    },
    /// Two entries have the same path.
    #[error("the archive contains {path} twice")]
    Duplicate {
        /// The path, cut.
        path: String,
    },
    /// Files are in several folders.
    #[error(
        "the archive contains the folders {first:?} and {second:?}; all files of a chart are in one folder with its Chart.yaml"
    )]
    SeveralRoots {
        /// The folder of the first file.
        first: String,
        /// Another one.
        second: String,
    },
    /// A file is too large.
    #[error("{path} in the archive has {bytes} bytes; Helm reads files of at most {limit} bytes")]
    FileTooLarge {
        /// The path, cut.
        path: String,
        /// Its size.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// All files together are too large.
    #[error("the archive has more than {limit} bytes after decompression; Helm reads at most that")]
    TooLarge {
        /// The limit.
        limit: u64,
    },
    /// There are too many files.
    #[error("the archive has more than {limit} files")]
    TooManyFiles {
        /// The limit.
        limit: usize,
    },
    /// There is no `Chart.yaml`.
    #[error("the archive has no Chart.yaml in its folder, so it is not a chart")]
    NoChartYaml,
    /// `Chart.yaml` is invalid.
    #[error("Chart.yaml in the archive cannot be used: {0}")]
    ChartYaml(String),
    /// A subchart is missing.
    #[error(transparent)]
    MissingDependency(#[from] MissingDependency),
    /// A file in a folder `crds` has a Secret, or may have one.
    #[error("{path} in the archive {problem}")]
    Crds {
        /// Its path, cut.
        path: String,
        /// What is wrong with it.
        problem: CrdProblem,
    },
    /// The archive of a subchart is refused.
    #[error("{path} in the archive: {source}")]
    Nested {
        /// Its path, cut.
        path: String,
        /// Why.
        source: Box<ArchiveError>,
    },
    /// Archives of subcharts contain archives of subcharts, and so on.
    #[error("{path} in the archive: archives of subcharts nest more than {limit} deep")]
    TooDeep {
        /// Its path, cut.
        path: String,
        /// The limit.
        limit: usize,
    },
}

impl ArchiveError {
    /// Whether the disk is the cause, and not the archive: it may succeed later.
    pub fn is_io(&self) -> bool {
        matches!(self, Self::Input(_))
    }
}

/// A dependency that `Chart.yaml` declares is not in the archive. Helm refuses to install such a chart, and downloading it here
/// would need credentials that are not configured, for servers that are not allowed.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error(
    "Chart.yaml declares the dependency {name:?}{}, which is not in charts/ of the archive; run `helm dependency build` before \
     `helm package`, and publish the chart again", from(.repository)
)]
pub struct MissingDependency {
    /// Its name.
    pub name: String,
    /// Its repository, without credentials; empty if there is none.
    pub repository: String,
}

fn from(repository: &str) -> String {
    if repository.is_empty() {
        String::new()
    } else {
        format!(" of {repository}")
    }
}

/// What is wrong with a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathProblem {
    /// It begins with `/`.
    Absolute,
    /// It contains `..`.
    Parent,
    /// It contains `.` or an empty part.
    Odd,
    /// It contains `\`.
    Backslash,
    /// It begins with a letter and a colon.
    Drive,
    /// It contains a control character.
    Control,
    /// It is not UTF-8 text.
    NotText,
    /// It is too long.
    TooLong,
    /// It is not in a folder.
    NoFolder,
}

impl fmt::Display for PathProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Absolute => "is absolute",
            Self::Parent => "leads out of the folder of the chart",
            Self::Odd => "contains `.` or an empty part",
            Self::Backslash => "contains a backslash",
            Self::Drive => "begins with a drive",
            Self::Control => "contains a control character",
            Self::NotText => "is not UTF-8 text",
            Self::TooLong => "is too long",
            Self::NoFolder => "is not in the folder of the chart",
        })
    }
}

/// What is wrong with a file in a folder `crds`. Texts of the file are cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CrdProblem {
    /// It is not UTF-8 text.
    NotText,
    /// It has a Secret, a list, or an object without a kind.
    Kind {
        /// The API version of the object; empty if there is none.
        api_version: String,
        /// Its kind; empty if there is none.
        kind: String,
    },
    /// It has an object with a field that makes it a list.
    Field {
        /// The field.
        field: String,
    },
    /// It is not written as objects usually are, so that programs could read it in different ways.
    Line {
        /// The first line of that kind, counted from 1.
        line: usize,
    },
}

impl fmt::Display for CrdProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotText => f.write_str("is not UTF-8 text; save it in this encoding"),
            Self::Kind { api_version, kind } => write!(
                f,
                "contains an object of kind {kind:?} and apiVersion {api_version:?}; a folder crds is for \
                 CustomResourceDefinitions, and must not have Secrets or lists, so move it to the folder templates of the chart"
            ),
            Self::Field { field } => write!(
                f,
                "contains an object with the field {field:?}, which makes it a list; write each object as a document of its own"
            ),
            Self::Line { line } => write!(
                f,
                "cannot be read with certainty from line {line} on; write each object as JSON, or with apiVersion, kind, metadata \
                 and spec at the start of lines, and everything else indented"
            ),
        }
    }
}
