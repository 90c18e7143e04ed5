//! Why a chart could not be downloaded.

use std::{fmt, io};

use helmops_model::reason::Reason;
use helmops_runtime::error_class::{Class, Classified, ClassifiedError, classified};
use thiserror::Error;

use crate::{
    http::FetchError, oci::RegistryError, packed::PackedError, repository::RepositoryError,
    secret::SecretError,
};

/// Why a chart could not be downloaded.
#[derive(Debug, Error)]
pub enum DownloadError {
    /// The Secret is missing or invalid.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// The version is not one.
    #[error("spec.options.helm.version {version:?} is not a version: {cause}")]
    Version {
        /// The text.
        version: String,
        /// What is wrong with it.
        cause: String,
    },
    /// The repository could not be read, or lacks the version.
    #[error(transparent)]
    Repository(RepositoryError),
    /// The registry could not be read, or lacks the version.
    #[error(transparent)]
    Registry(RegistryError),
    /// The chart could not be packed from its files.
    #[error(transparent)]
    Packed(PackedError),
    /// The chart is packed from files, of which no agent reads anything.
    #[error(
        "the chart is packed from {repo}, which only the controller reads: it is deployed with the content that the controller stores, and \
         the Bundle has none; deploy it with a HelmOp (spec.chartSource)"
    )]
    NotDelivered {
        /// Where its files are, without credentials.
        repo: String,
    },
    /// The archive could not be fetched.
    #[error(transparent)]
    Fetch(FetchError),
    /// The entry of the index has a URL that is not used.
    #[error("the index of {repo} has a URL for version {version} that is not used: {url:?}: {cause}")]
    EntryUrl {
        /// The repository, without credentials.
        repo: String,
        /// The version.
        version: String,
        /// The URL, without credentials.
        url: String,
        /// Why.
        cause: &'static str,
    },
    /// The registry does not have the manifest any more that was recorded when the version was resolved.
    #[error(
        "{url}: the registry does not have this manifest any more, which was resolved for version {version:?}: {source}; publish it again, or \
         another version; if the version was published again with another content, spec.onDigestChange: Follow deploys it"
    )]
    Deleted {
        /// The manifest.
        url: String,
        /// The version.
        version: String,
        /// The response.
        source: Box<RegistryError>,
    },
    /// The archive or the manifest has another digest than expected.
    #[error(transparent)]
    Digest(#[from] DigestMismatch),
    /// The archive could not be written.
    #[error("cannot store the archive of the chart: {0}")]
    Write(#[source] io::Error),
    /// The download took too long.
    #[error("downloading the chart took longer than {seconds} s in total; check the server and the network")]
    Deadline {
        /// The time limit in seconds.
        seconds: u64,
    },
}

/// An archive or a manifest has another digest than expected: it changed after its publication, or on its way.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error(
    "{url} has the digest {actual}, but {origin} has {expected}; publish the chart under a new version instead of replacing it{}",
    .origin.remedy()
)]
pub struct DigestMismatch {
    /// Its URL, without credentials.
    pub url: String,
    /// The source of the required digest.
    pub origin: Origin,
    /// The expected digest.
    pub expected: String,
    /// Its digest.
    pub actual: String,
}

/// The source of a required digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The record of the resolution.
    Recorded,
    /// The index of the repository.
    Index,
    /// The manifest in the registry.
    Manifest,
    /// The request for the digest itself.
    Requested,
}

impl Origin {
    const fn remedy(self) -> &'static str {
        match self {
            Self::Recorded => ", or set spec.onDigestChange: Follow to deploy it as it is now",
            Self::Index | Self::Manifest | Self::Requested => "",
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Recorded => "the record of its version (annotation helmops.fleet.cattle.io/resolved)",
            Self::Index => "the index of the repository",
            Self::Manifest => "the manifest of the version",
            Self::Requested => "the request",
        })
    }
}

impl ClassifiedError for DownloadError {
    fn classify(&self) -> Classified {
        match self {
            Self::Secret(error) => error.classify(),
            Self::Version { .. } => classified(Reason::InvalidVersion, Class::Permanent),
            Self::Repository(error) => error.classify(),
            Self::Registry(error) => error.classify(),
            Self::Packed(error) => error.classify(),
            Self::NotDelivered { .. } => classified(Reason::InvalidURL, Class::Absent),
            Self::Fetch(error) => error.kind.classify(),
            Self::EntryUrl { .. } => classified(Reason::InvalidIndex, Class::Absent),
            Self::Deleted { .. } => classified(Reason::NoMatchingVersion, Class::Absent),
            // A proxy or a mirror may be behind; nothing is deployed meanwhile.
            Self::Digest(_) => classified(Reason::DigestMismatch, Class::Absent),
            Self::Write(_) => classified(Reason::StorageError, Class::TRANSIENT),
            Self::Deadline { .. } => classified(Reason::Timeout, Class::TRANSIENT),
        }
    }
}
