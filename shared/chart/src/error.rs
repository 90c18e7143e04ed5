//! Why a folder cannot be deployed as a chart.

use helm_archive::ArchiveError;
use thiserror::Error;

use crate::ChartPath;

/// Why a folder cannot be deployed as a chart. Paths are those in the repository or bucket.
#[derive(Debug, Error)]
pub enum ChartError<E> {
    /// What stores the files has an error.
    #[error(transparent)]
    Tree(E),
    /// The folder is not there, or has no chart.
    #[error("{path} {problem}; {charts}")]
    NoChart {
        /// The path that is requested.
        path: ChartPath,
        /// What is there.
        problem: &'static str,
        /// Which folders have charts.
        charts: String,
    },
    /// The folder is not there, or has no manifests.
    #[error("{path} {problem}; {fix}")]
    NoManifests {
        /// The path that is requested.
        path: ChartPath,
        /// What is there.
        problem: &'static str,
        /// What to do.
        fix: &'static str,
    },
    /// A file that is not read.
    #[error("{path:?} {problem}")]
    Refused {
        /// The path, cut.
        path: String,
        /// What it is, and the fix.
        problem: &'static str,
    },
    /// A file is too large.
    #[error(
        "{path:?} has more than {limit} bytes, and Helm reads no larger files; move it out of the folder, or name it in the .helmignore of a chart"
    )]
    FileTooLarge {
        /// The path, cut.
        path: String,
        /// The limit.
        limit: usize,
    },
    /// There are too many files.
    #[error("there are more than {limit} files and folders; name a smaller folder in path")]
    TooManyFiles {
        /// The limit.
        limit: usize,
    },
    /// A file cannot be parsed.
    #[error("{path:?} cannot be used: {cause}")]
    Invalid {
        /// The path, cut.
        path: String,
        /// The cause.
        cause: String,
    },
    /// A subchart is not in the folder.
    #[error(
        "{path:?} declares the dependency {name:?} of {repository:?}, which is not in its folder charts, and is not downloaded for charts in Git; \
         commit the folder charts that `helm dependency build` writes, or refer to a folder of the repository with file://"
    )]
    NotVendored {
        /// The path of the `Chart.yaml`.
        path: String,
        /// The name of the subchart.
        name: String,
        /// Its repository, without credentials.
        repository: String,
    },
    /// A subchart in another folder cannot be used.
    #[error("{path:?} declares the dependency {name:?} of {repository:?}, {problem}")]
    Local {
        /// The path of the `Chart.yaml`.
        path: String,
        /// The name of the subchart.
        name: String,
        /// Its repository.
        repository: String,
        /// What is wrong with it, and the fix.
        problem: String,
    },
    /// The archive of the chart is none that Helm reads.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
}
