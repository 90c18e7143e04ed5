//! Why a chart is not in the management cluster.

use std::sync::Arc;

use helmops_content::ChartContentError;
use helmops_fetch::DownloadError;
use helmops_model::reason::Reason;
use helmops_runtime::{
    client::CallError,
    error_class::{Class, Classified, ClassifiedError, Scope, classified},
};
use thiserror::Error;

use super::{
    buffer::is_over_budget,
    quota::{OverQuota, QuotaScope},
};

/// Why a chart is not in the management cluster.
#[derive(Debug, Error)]
pub enum ContentError {
    /// This process does not deliver Bundles to clusters.
    #[error(
        "a chart that travels through the management cluster (spec.chartSource) needs the bundle controller of helmops (--controllers=helmop,bundle): Fleet's would let the agents \
         download the chart; run that controller, or use spec.chartSource.deliver: Direct with a chart of a repository or registry"
    )]
    Unsupported,
    /// The archive could not be downloaded.
    #[error("the chart cannot be stored in the management cluster: {0}")]
    Download(#[source] Box<DownloadError>),
    /// It is not a chart.
    #[error("{url}: {source}")]
    Invalid {
        /// Where it came from, without credentials.
        url: String,
        /// The cause.
        source: Box<ChartContentError>,
    },
    /// It has too many files or bytes.
    #[error(
        "{url}: the chart is too large to be stored in the management cluster: {source}; make the chart smaller, or publish \
         it in a repository or registry and use spec.chartSource.deliver: Direct"
    )]
    TooLarge {
        /// Where it came from, without credentials.
        url: String,
        /// The cause.
        source: Box<ChartContentError>,
    },
    /// The process has not enough memory for it, even if it does nothing else.
    #[error(
        "{url}: the chart is too large to be stored in the management cluster: that takes {} MiB of memory, and the controller has {} MiB for \
         it; raise its memory (--memory-limit), make the chart smaller, or publish it in a repository or registry and use \
         spec.chartSource.deliver: Direct",
        needed.div_ceil(1 << 20), limit >> 20
    )]
    Memory {
        /// Where it came from, without credentials.
        url: String,
        /// The bytes that it takes.
        needed: usize,
        /// The bytes that one chart may take.
        limit: usize,
    },
    /// It was refused before, and nothing has changed since.
    #[error(transparent)]
    Refused(Arc<ContentError>),
    /// Other charts take the memory at the moment.
    #[error(
        "the memory for charts that are stored in the management cluster is in use, of which a namespace may take three quarters of what is \
         free; retrying, and more memory of the controller (--memory-limit) stores more at a time"
    )]
    Busy,
    /// It was deleted before the Bundle could refer to it.
    #[error(
        "Content {0} with the chart was deleted before the Bundle was written, and is stored again; if that repeats itself, raise \
         --content-grace-period of the controller"
    )]
    Gone(String),
    /// As many bytes are stored as may be.
    #[error(
        "the chart is not stored in the management cluster: it takes at least {} KiB, and the charts of {whose} take {} KiB already, of at most \
         {} KiB; delete HelmOps whose charts are in the management cluster, raise {raised}, or publish the chart in a repository or \
         registry and use spec.chartSource.deliver: Direct",
        over.needed.div_ceil(1 << 10), over.stored >> 10, over.limit >> 10
    )]
    Full {
        /// Whose charts these are.
        whose: String,
        /// Where the limit is set.
        raised: &'static str,
        /// The numbers.
        over: OverQuota,
    },
    /// Another client has written something else into the object of the content.
    #[error(
        "Content {0} exists, has no label of helmops, and has other files than its name says, so that no agent deploys it; delete it, so that it \
         can be written"
    )]
    Foreign(String),
    /// A request failed.
    #[error(transparent)]
    Api(#[from] CallError),
}

impl ContentError {
    /// There is no room for a chart of a namespace.
    pub fn full(namespace: &str, over: OverQuota) -> Self {
        let whose = match over.scope {
            QuotaScope::All => "all namespaces".to_owned(),
            QuotaScope::Namespace | QuotaScope::Policy => format!("namespace {namespace}"),
        };
        let raised = match over.scope {
            QuotaScope::All | QuotaScope::Namespace => "--content-size of the controller",
            QuotaScope::Policy => "helmOp.contentSize of a Policy",
        };
        Self::Full { whose, raised, over }
    }

    /// Whether it is a matter of the chart, so that the same archive will never be stored by this process.
    pub const fn is_of_chart(&self) -> bool {
        matches!(
            self,
            Self::Invalid { .. } | Self::TooLarge { .. } | Self::Memory { .. }
        )
    }

    /// What is wrong with an archive.
    pub fn chart(url: &str, source: ChartContentError) -> Self {
        let is_size = source.is_size();
        let (url, source) = (url.to_owned(), Box::new(source));
        if is_size {
            Self::TooLarge { url, source }
        } else {
            Self::Invalid { url, source }
        }
    }
}

impl From<DownloadError> for ContentError {
    fn from(error: DownloadError) -> Self {
        match error {
            DownloadError::Write(error) if is_over_budget(&error) => Self::Busy,
            error => Self::Download(Box::new(error)),
        }
    }
}

impl ClassifiedError for ContentError {
    fn classify(&self) -> Classified {
        match self {
            Self::Unsupported => classified(Reason::ContentUnsupported, Class::Permanent),
            Self::Download(error) => error.classify(),
            // It may be published again.
            Self::Invalid { .. } => classified(Reason::InvalidChart, Class::Absent),
            Self::TooLarge { .. } | Self::Memory { .. } => classified(Reason::ChartTooLarge, Class::Absent),
            // A deletion makes room, or an administrator.
            Self::Full { .. } => classified(Reason::ContentQuotaExceeded, Class::Absent),
            Self::Refused(error) => error.classify(),
            Self::Busy => classified(Reason::Busy, Class::Transient(Scope::Namespace)),
            Self::Gone(_) => classified(Reason::ContentMissing, Class::TRANSIENT),
            Self::Foreign(_) => classified(Reason::InvalidContent, Class::Absent),
            Self::Api(error) => error.classify(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use helm_archive::ArchiveError;
    use helmops_fair::OverBudget;

    use super::*;

    #[test]
    fn a_chart_that_is_too_large_has_a_reason_of_its_own() {
        let of = |error: ArchiveError| ContentError::chart("https://h/web.tgz", error.into());
        let memory = ContentError::Memory {
            url: "https://h/web.tgz".to_owned(),
            needed: (50 << 20) + 1,
            limit: 48 << 20,
        };
        for (error, reason, text) in [
            (
                of(ArchiveError::NoChartYaml),
                Reason::InvalidChart,
                "no Chart.yaml",
            ),
            (
                of(ArchiveError::TooLarge { limit: 7 }),
                Reason::ChartTooLarge,
                "deliver: Direct",
            ),
            (
                memory,
                Reason::ChartTooLarge,
                "51 MiB of memory, and the controller has 48 MiB",
            ),
            (
                ContentError::full(
                    "team",
                    OverQuota {
                        needed: 2048,
                        stored: 255 << 20,
                        limit: 256 << 20,
                        scope: QuotaScope::Namespace,
                    },
                ),
                Reason::ContentQuotaExceeded,
                "2 KiB, and the charts of namespace team take 261120 KiB already, of at most 262144 KiB",
            ),
            (
                ContentError::Foreign("s-0".to_owned()),
                Reason::InvalidContent,
                "s-0",
            ),
        ] {
            assert_eq!(error.classify(), classified(reason, Class::Absent), "{error}");
            assert!(error.to_string().contains(text), "{error}");
        }
        let unsupported = ContentError::Unsupported.classify();
        assert_eq!(
            unsupported,
            classified(Reason::ContentUnsupported, Class::Permanent)
        );
    }

    #[test]
    fn a_download_without_memory_is_retried() {
        let busy = DownloadError::Write(io::Error::other(OverBudget));
        assert_eq!(ContentError::from(busy).reason(), Reason::Busy);
        let full = DownloadError::Write(io::ErrorKind::StorageFull.into());
        assert_eq!(ContentError::from(full).reason(), Reason::StorageError);
    }
}
