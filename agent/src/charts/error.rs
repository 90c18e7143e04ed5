//! Why there is no archive of a chart.

use std::io;

use helm_archive::ArchiveError;
use helmops_content::ContentError;
use helmops_fetch::{DownloadError, StorageError};
use helmops_helm::Failure;
use helmops_model::reason::Reason;
use helmops_release::content::ContentChartError;
use helmops_runtime::{
    client::CallError,
    error_class::{Class, Classified, ClassifiedError, classified},
};
use thiserror::Error;

use super::content::UnreadableFiles;

/// Why there is no archive of a chart.
#[derive(Debug, Error)]
pub enum ChartError {
    /// The options name no chart.
    #[error("spec.options.helm names no chart: set chart, or repo and chart")]
    NoChart,
    /// The CA certificates cannot be decoded.
    #[error("spec.helmChartOptions.helmOpCABundle is not Base64 of certificates: {0}")]
    CaBundle(#[from] base64::DecodeError),
    /// The deployment names neither a chart nor files.
    #[error(
        "spec.deploymentID {0:?} does not start with the ID of a Content (s- and 61 digits), and there is no spec.helmChartOptions: the \
         BundleDeployment is not one that a controller has written"
    )]
    NoContent(String),
    /// The files of the Bundle, or a part of them, do not exist.
    #[error(
        "Content {name} with {} does not exist in the management cluster: its controller writes it again when it \
         reconciles the Bundle; if it does not, change a label of the Bundle",
        if *is_part { "a part of the files of the Bundle" } else { "the files of the Bundle" }
    )]
    ContentMissing {
        /// The name of the object.
        name: String,
        /// Whether it is a part of split content.
        is_part: bool,
    },
    /// The files of the Bundle cannot be fetched from their registry.
    #[error(transparent)]
    ContentStorage(#[from] Box<StorageError>),
    /// The management cluster cannot be read.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The files of the Bundle are damaged.
    #[error(transparent)]
    Unreadable(#[from] UnreadableFiles),
    /// The files of the Bundle make no chart.
    #[error(transparent)]
    Content(#[from] ContentChartError),
    /// The chart that they make is refused.
    #[error("the files of the Bundle make no chart: {0}")]
    Files(Box<ArchiveError>),
    /// Patches of overlays cannot be applied.
    #[error(transparent)]
    Patches(#[from] Box<Failure>),
    /// The archive could not be downloaded.
    #[error(transparent)]
    Download(Box<DownloadError>),
    /// The archive is refused.
    #[error("{url}: {source}")]
    Archive {
        /// Where it came from, without credentials.
        url: String,
        /// The cause.
        source: Box<ArchiveError>,
    },
    /// Helm would create Secrets, or something unknown, from its folders `crds`.
    #[error("{}", with_policy(.0))]
    Crds(Box<ArchiveError>),
    /// It could be stored neither in the cache nor elsewhere.
    #[error("cannot store the archive of the chart: {0}")]
    Storage(#[from] io::Error),
}

/// What the author of the chart can do, and what its user can do.
fn with_policy(error: &ArchiveError) -> String {
    if error.is_io() {
        return error.to_string();
    }
    format!(
        "{error}; or set lifecycle.install.crds: then only the CRDs are created, and nothing else from the folders crds"
    )
}

impl From<ContentError> for ChartError {
    fn from(error: ContentError) -> Self {
        Self::Content(error.into())
    }
}

impl From<DownloadError> for ChartError {
    fn from(error: DownloadError) -> Self {
        Self::Download(Box::new(error))
    }
}

impl ClassifiedError for ChartError {
    fn classify(&self) -> Classified {
        match self {
            Self::NoChart => classified(Reason::ChartRequired, Class::Permanent),
            Self::CaBundle(_) => classified(Reason::CertificateError, Class::Permanent),
            Self::NoContent(_) => classified(Reason::InvalidFiles, Class::Permanent),
            Self::ContentMissing { .. } => classified(Reason::ContentMissing, Class::Absent),
            // The Content may be written again, under the same name.
            Self::Unreadable(_) | Self::Content(_) | Self::Patches(_) => {
                classified(Reason::InvalidFiles, Class::Absent)
            }
            Self::Call(error) => error.classify(),
            Self::ContentStorage(error) => error.classify(),
            Self::Download(error) => error.classify(),
            Self::Archive { source, .. } | Self::Crds(source) | Self::Files(source) if source.is_io() => {
                classified(Reason::StorageError, Class::TRANSIENT)
            }
            Self::Files(_) => classified(Reason::InvalidFiles, Class::Absent),
            // It may be published again.
            Self::Archive { .. } | Self::Crds(_) => classified(Reason::InvalidChart, Class::Absent),
            Self::Storage(_) => classified(Reason::StorageError, Class::TRANSIENT),
        }
    }
}

impl ChartError {
    /// Whether the archive could not be stored: in another folder it may be.
    pub fn is_of_storage(&self) -> bool {
        match self {
            Self::Storage(_) => true,
            Self::Download(error) => matches!(**error, DownloadError::Write(_)),
            Self::ContentStorage(error) => matches!(
                &**error,
                StorageError::Download(error) if matches!(**error, DownloadError::Write(_))
            ),
            Self::Archive { source, .. } | Self::Crds(source) | Self::Files(source) => source.is_io(),
            Self::NoChart
            | Self::CaBundle(_)
            | Self::NoContent(_)
            | Self::ContentMissing { .. }
            | Self::Unreadable(_)
            | Self::Content(_)
            | Self::Patches(_)
            | Self::Call(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_has_a_reason_and_a_class() {
        let archive = |source| ChartError::Archive {
            url: "https://h/web.tgz".to_owned(),
            source: Box::new(source),
        };
        let crds = |source| ChartError::Crds(Box::new(source));
        let missing = ChartError::ContentMissing {
            name: "s-1-2".to_owned(),
            is_part: true,
        };
        assert!(
            missing
                .to_string()
                .starts_with("Content s-1-2 with a part of the files"),
            "{missing}"
        );
        assert_eq!(
            missing.to_string(),
            "Content s-1-2 with a part of the files of the Bundle does not exist in the management cluster: its controller writes it again \
             when it reconciles the Bundle; if it does not, change a label of the Bundle"
        );
        assert!(!ChartError::NoContent(String::new()).to_string().contains("  "));
        let full = || io::Error::from(io::ErrorKind::StorageFull);
        let digest = "not base64!";
        let encoding =
            base64::Engine::decode(&base64::engine::general_purpose::STANDARD, digest).unwrap_err();
        for (error, reason, class, is_of_storage) in [
            (
                ChartError::NoChart,
                Reason::ChartRequired,
                Class::Permanent,
                false,
            ),
            (missing, Reason::ContentMissing, Class::Absent, false),
            (
                ContentError::TooManyFiles { limit: 1 }.into(),
                Reason::InvalidFiles,
                Class::Absent,
                false,
            ),
            (
                ChartError::NoContent(":1".to_owned()),
                Reason::InvalidFiles,
                Class::Permanent,
                false,
            ),
            (encoding.into(), Reason::CertificateError, Class::Permanent, false),
            (
                archive(ArchiveError::NoChartYaml),
                Reason::InvalidChart,
                Class::Absent,
                false,
            ),
            (
                archive(ArchiveError::Input(full())),
                Reason::StorageError,
                Class::TRANSIENT,
                true,
            ),
            (
                ChartError::Files(Box::new(ArchiveError::NoChartYaml)),
                Reason::InvalidFiles,
                Class::Absent,
                false,
            ),
            (
                ChartError::Files(Box::new(ArchiveError::Input(full()))),
                Reason::StorageError,
                Class::TRANSIENT,
                true,
            ),
            (
                Box::new(StorageError::Download(Box::new(DownloadError::Write(full())))).into(),
                Reason::StorageError,
                Class::TRANSIENT,
                true,
            ),
            (
                crds(ArchiveError::NoChartYaml),
                Reason::InvalidChart,
                Class::Absent,
                false,
            ),
            (
                crds(ArchiveError::Input(full())),
                Reason::StorageError,
                Class::TRANSIENT,
                true,
            ),
            (full().into(), Reason::StorageError, Class::TRANSIENT, true),
            (
                DownloadError::Write(full()).into(),
                Reason::StorageError,
                Class::TRANSIENT,
                true,
            ),
        ] {
            assert_eq!(error.classify(), classified(reason, class), "{error}");
            assert_eq!(error.is_of_storage(), is_of_storage, "{error}");
        }
    }
}
