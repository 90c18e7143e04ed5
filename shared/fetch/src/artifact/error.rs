//! Why a chart cannot be read from an artifact.

use std::sync::Arc;

use helm_archive::ArchiveError;
use helmops_chart::ListedChartError;
use helmops_model::reason::Reason;
use helmops_runtime::error_class::{Class, Classified, ClassifiedError, Scope, classified};
use thiserror::Error;

use crate::{chart_errors, download::DownloadError};

/// Why a chart cannot be read from an artifact. Clones are shared by all that wait for the same request.
#[derive(Clone, Debug, Error)]
pub enum ArtifactError {
    /// The registry cannot be read, or has no such artifact.
    #[error("{}", in_terms_of_artifacts(&.0.to_string()))]
    Download(Arc<DownloadError>),
    /// The archive of the artifact is refused.
    #[error("{url}: {}", in_terms_of_artifacts(&.source.to_string()))]
    Archive {
        /// The artifact.
        url: String,
        /// The cause.
        source: Arc<ArchiveError>,
    },
    /// The artifact has no such chart, or one that is refused.
    #[error("{url}: {}", in_terms_of_artifacts(&.source.to_string()))]
    Chart {
        /// The artifact.
        url: String,
        /// The cause.
        source: Arc<ListedChartError>,
    },
    /// The chart is another one than when its version was resolved.
    #[error("{url}: the artifact has other files than when its version was recorded; request a poll")]
    Changed {
        /// The artifact.
        url: String,
    },
    /// There is no memory for it.
    #[error("the memory for reading charts is in use by other charts; retrying")]
    Memory,
}

impl ClassifiedError for ArtifactError {
    fn classify(&self) -> Classified {
        match self {
            Self::Download(error) => error.classify(),
            Self::Archive { .. } => classified(Reason::InvalidChart, Class::Absent),
            Self::Chart { source, .. } => chart_errors::of_listed(source),
            Self::Changed { .. } => classified(Reason::DigestMismatch, Class::Absent),
            Self::Memory => classified(Reason::Busy, Class::Transient(Scope::Namespace)),
        }
    }
}

/// Errors that other sources of charts have, too, in the words of an artifact.
pub fn in_terms_of_artifacts(message: &str) -> String {
    [
        (
            "could not read Helm auth from secret",
            "could not read the access to the registry from secret",
        ),
        ("spec.helmSecretName", "spec.chartSource.oci.secretRef"),
        (
            "check spec.helm.repo, whose last part must be the chart's name",
            "check spec.chartSource.oci.url",
        ),
        ("spec.helm.repo", "spec.chartSource.oci.url"),
        (
            "has no such version",
            "has no such artifact; check url and ref in spec.chartSource.oci",
        ),
        ("spec.helm.version", "spec.chartSource.oci.ref"),
        ("chart repository or registry", "registry"),
        ("it is not a chart archive (.tgz)", "it is not an archive (tar+gzip)"),
        (
            "and a chart has files only; package the chart again with `helm package`, which puts the file in place of a link",
            "and only files are read; push the files without it",
        ),
        (
            "package the chart again with `helm package`",
            "push the files with `flux push artifact`",
        ),
        ("leads out of the folder of the chart", "leads out of the artifact"),
        ("is not in the repository at this commit", "is not in the artifact"),
        ("the top of the repository", "the top of the artifact"),
        ("leads out of the repository", "leads out of the artifact"),
        ("from the same repository only", "from the same artifact only"),
        ("so check url and ref", "so check what was pushed"),
        ("or check url and ref", "or check what was pushed"),
        ("for charts in Git", "for charts in an artifact"),
        ("commit the folder charts", "push the folder charts"),
        (
            "a folder of the repository with file://",
            "a folder of the artifact with file://",
        ),
        ("commit the file itself", "push the file itself"),
    ]
    .iter()
    .fold(message.to_owned(), |text, (from, to)| text.replace(from, to))
}
