//! Why there is no archive of a chart.

use std::io;

use helm_archive::ArchiveError;
use helmops_fetch::DownloadError;
use helmops_model::reason::Reason;
use helmops_runtime::error_class::{Class, Classified, ClassifiedError, classified};
use thiserror::Error;

/// Why there is no archive of a chart.
#[derive(Debug, Error)]
pub enum ChartError {
    /// The options name no chart.
    #[error("spec.options.helm names no chart: set chart, or repo and chart")]
    NoChart,
    /// The CA certificates cannot be decoded.
    #[error("spec.helmChartOptions.helmOpCABundle is not Base64 of certificates: {0}")]
    CaBundle(#[from] base64::DecodeError),
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
            Self::Download(error) => error.classify(),
            Self::Archive { source, .. } | Self::Crds(source) if source.is_io() => {
                classified(Reason::StorageError, Class::TRANSIENT)
            }
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
            Self::Archive { source, .. } | Self::Crds(source) => source.is_io(),
            Self::NoChart | Self::CaBundle(_) => false,
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
