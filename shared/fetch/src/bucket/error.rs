//! Why a chart cannot be read from a bucket.

use std::sync::Arc;

use helm_archive::ArchiveError;
use helmops_bucket::{CredentialsError, RefusalCause};
use helmops_chart::ListedChartError;
use helmops_model::reason::Reason;
use helmops_runtime::error_class::{Class, Classified, ClassifiedError, Scope, classified};
use thiserror::Error;

use crate::{chart_errors, http::FetchError};

/// Why a chart cannot be read from a bucket. Clones are shared by all that wait for the same request.
#[derive(Clone, Debug, Error)]
pub enum BucketError {
    /// There is no usable response.
    #[error("{}", in_terms_of_buckets(&.0.to_string()))]
    Fetch(FetchError),
    /// The keys of the Secret are no credentials for this bucket.
    #[error("Secret {secret} cannot be used for the bucket: {source}")]
    Credentials {
        /// The name of the Secret.
        secret: String,
        /// The cause.
        source: CredentialsError,
    },
    /// The server does not accept a request.
    #[error("bucket {bucket}{}: {text}", of(.object))]
    Refused {
        /// The URL of the bucket.
        bucket: String,
        /// The name of the object; empty for the list of all.
        object: String,
        /// What it is about.
        cause: RefusalCause,
        /// What it means, and the fix.
        text: String,
    },
    /// The server sends to another one.
    #[error(
        "bucket {bucket}: the server redirects to {to}, where the request is not accepted, because credentials are sent to one server only: \
         write the endpoint and the region of the bucket itself"
    )]
    Redirected {
        /// The URL of the bucket.
        bucket: String,
        /// The other server.
        to: String,
    },
    /// A response is not what it should be.
    #[error(
        "bucket {bucket}{}: the response is not that of such a server ({cause}): check provider and endpoint, and whether an object has an odd \
         name, such as one with two slashes in a row",
        of(.object)
    )]
    Response {
        /// The URL of the bucket.
        bucket: String,
        /// The name of the object; empty for the list of all.
        object: String,
        /// The cause, cut.
        cause: String,
    },
    /// There is too much below the prefix.
    #[error(
        "bucket {bucket}: {what} that begin with {prefix:?}, which is the limit; name a smaller folder in prefix"
    )]
    TooManyObjects {
        /// The URL of the bucket.
        bucket: String,
        /// The start of their names.
        prefix: String,
        /// What there is too much of.
        what: String,
    },
    /// An object is another one than when it was listed.
    #[error("bucket {bucket}, object {object:?}: it has changed while the chart was read; retrying")]
    Changed {
        /// The URL of the bucket.
        bucket: String,
        /// The name of the object.
        object: String,
    },
    /// There is no such archive.
    #[error(
        "bucket {bucket}: there is no object {object:?}; check path and prefix, and upload the archive that `helm package` writes"
    )]
    NoArchive {
        /// The URL of the bucket.
        bucket: String,
        /// The name of the object.
        object: String,
    },
    /// The archive is too large.
    #[error("bucket {bucket}, object {object:?}: it has more than {} MiB, which is the limit for an archive", .limit >> 20)]
    ArchiveTooLarge {
        /// The URL of the bucket.
        bucket: String,
        /// The name of the object.
        object: String,
        /// The limit, in bytes.
        limit: usize,
    },
    /// The archive is none of a chart.
    #[error("bucket {bucket}, object {object:?}: {source}")]
    Archive {
        /// The URL of the bucket.
        bucket: String,
        /// The name of the object.
        object: String,
        /// The cause.
        source: Arc<ArchiveError>,
    },
    /// The objects of the chart are too large together.
    #[error("bucket {bucket}: the files have more than {} MiB, which is the limit; move large objects out of the folder, or name them in the .helmignore of a chart", .limit >> 20)]
    ChartTooLarge {
        /// The URL of the bucket.
        bucket: String,
        /// The limit, in bytes.
        limit: u64,
    },
    /// The bucket has no such chart, or one that is refused.
    #[error("bucket {bucket}: {}", in_terms_of_buckets(&.source.to_string()))]
    Chart {
        /// The URL of the bucket.
        bucket: String,
        /// The cause.
        source: Arc<ListedChartError>,
    },
    /// The chart has changed since its version was resolved.
    #[error(
        "{url} has changed since its version was recorded, and a bucket keeps nothing of before; what is deployed stays until another version is \
         recorded: with spec.pollingInterval by the next poll, without it by a requested one; if only Chart.yaml decides about versions \
         (reconcileStrategy: ChartVersion, or an archive), raise the version in it"
    )]
    OtherContent {
        /// Where the chart is, without credentials.
        url: String,
    },
    /// Reading the objects leads to others, again and again.
    #[error(
        "bucket {bucket}: the chart includes charts that include others too often; include each with file:// once"
    )]
    MissingObjects {
        /// The URL of the bucket.
        bucket: String,
    },
    /// There is no memory for it.
    #[error("the memory for reading charts is in use by other charts; retrying")]
    Memory,
}

impl ClassifiedError for BucketError {
    fn classify(&self) -> Classified {
        match self {
            Self::Fetch(error) => error.kind.classify(),
            Self::Credentials { .. } => classified(Reason::InvalidSecret, Class::Absent),
            Self::Refused { cause, .. } => of_refusal(*cause),
            Self::Redirected { .. } | Self::Response { .. } | Self::MissingObjects { .. } => {
                classified(Reason::RepositoryError, Class::Absent)
            }
            Self::TooManyObjects { .. } | Self::ArchiveTooLarge { .. } => {
                classified(Reason::ResponseTooLarge, Class::Absent)
            }
            Self::Changed { .. } => classified(Reason::RepositoryError, Class::TRANSIENT),
            Self::OtherContent { .. } => classified(Reason::DigestMismatch, Class::Absent),
            Self::NoArchive { .. } => classified(Reason::ChartNotFound, Class::Absent),
            Self::Archive { .. } | Self::ChartTooLarge { .. } => {
                classified(Reason::InvalidChart, Class::Absent)
            }
            Self::Chart { source, .. } => chart_errors::of_listed(source),
            Self::Memory => busy(),
        }
    }
}

fn of_refusal(cause: RefusalCause) -> Classified {
    match cause {
        RefusalCause::Credentials => classified(Reason::Unauthorized, Class::Absent),
        RefusalCause::Permission => classified(Reason::Forbidden, Class::Absent),
        RefusalCause::NoBucket => classified(Reason::RepositoryNotFound, Class::Absent),
        RefusalCause::NoObject => classified(Reason::ChartNotFound, Class::TRANSIENT),
        RefusalCause::Region | RefusalCause::Other => classified(Reason::RepositoryError, Class::Absent),
        // Clocks are corrected without a change of any object.
        RefusalCause::Clock => classified(Reason::Unauthorized, Class::TRANSIENT),
    }
}

fn busy() -> Classified {
    classified(Reason::Busy, Class::Transient(Scope::Namespace))
}

/// The object of a message.
fn of(object: &str) -> String {
    match object {
        "" => String::new(),
        object => format!(", object {object:?}"),
    }
}

/// Errors that other sources of charts have, too, in the words of a bucket.
pub fn in_terms_of_buckets(message: &str) -> String {
    [
        (
            "could not read Helm auth from secret",
            "could not read the access to the bucket",
        ),
        ("spec.helmSecretName", "spec.chartSource.bucket.secretRef"),
        ("spec.helm.repo", "spec.chartSource.bucket.endpoint"),
        ("chart repository or registry", "server of a bucket"),
        ("is not in the repository at this commit", "is not in the bucket"),
        ("the top of the repository", "the top of the prefix"),
        ("leads out of the repository", "leads out of the prefix"),
        ("from the same repository only", "from below the same prefix only"),
        ("so check url and ref", "so check bucketName and prefix"),
        ("or check url and ref", "or check bucketName and prefix"),
        ("for charts in Git", "for charts in a bucket"),
        ("commit the folder charts", "upload the folder charts"),
        (
            "a folder of the repository with file://",
            "a folder below the prefix with file://",
        ),
        ("commit the file itself", "upload the file itself"),
    ]
    .iter()
    .fold(message.to_owned(), |text, (from, to)| text.replace(from, to))
}

#[cfg(test)]
mod tests {
    use helmops_chart::{ChartPath, ListedFilesError};

    use super::*;

    #[test]
    fn every_error_has_a_reason_and_a_class() {
        let text = String::new;
        let absent = |reason| classified(reason, Class::Absent);
        let retried = |reason| classified(reason, Class::TRANSIENT);
        let refused = |cause| BucketError::Refused {
            bucket: text(),
            object: text(),
            cause,
            text: text(),
        };
        let chart = |source| BucketError::Chart {
            bucket: text(),
            source: Arc::new(source),
        };
        let no_chart = ListedChartError::NoChart {
            path: ChartPath::default(),
            problem: "",
            charts: text(),
        };
        let credentials = BucketError::Credentials {
            secret: text(),
            source: CredentialsError::Identity { present: "" },
        };
        let many = BucketError::TooManyObjects {
            bucket: text(),
            prefix: text(),
            what: text(),
        };
        let changed = BucketError::Changed {
            bucket: text(),
            object: text(),
        };
        for (error, expected) in [
            (refused(RefusalCause::Credentials), absent(Reason::Unauthorized)),
            (refused(RefusalCause::Permission), absent(Reason::Forbidden)),
            (
                refused(RefusalCause::NoBucket),
                absent(Reason::RepositoryNotFound),
            ),
            (refused(RefusalCause::NoObject), retried(Reason::ChartNotFound)),
            (refused(RefusalCause::Region), absent(Reason::RepositoryError)),
            (refused(RefusalCause::Other), absent(Reason::RepositoryError)),
            (refused(RefusalCause::Clock), retried(Reason::Unauthorized)),
            (chart(ListedChartError::Tree(ListedFilesError::Memory)), busy()),
            (chart(no_chart), absent(Reason::ChartNotFound)),
            (
                chart(ListedChartError::TooManyFiles { limit: 1 }),
                absent(Reason::InvalidChart),
            ),
            (credentials, absent(Reason::InvalidSecret)),
            (many, absent(Reason::ResponseTooLarge)),
            (changed, retried(Reason::RepositoryError)),
            (BucketError::Memory, busy()),
        ] {
            assert_eq!(error.classify(), expected, "{error}");
        }
    }

    #[test]
    fn errors_are_in_the_words_of_a_bucket() {
        let not_vendored = BucketError::Chart {
            bucket: "b".to_owned(),
            source: Arc::new(ListedChartError::NotVendored {
                path: "web/Chart.yaml".to_owned(),
                name: "db".to_owned(),
                repository: "https://h".to_owned(),
            }),
        };
        let text = not_vendored.to_string();
        for word in ["Git", "commit", "repository"] {
            assert!(!text.contains(word), "{text}");
        }
    }
}
