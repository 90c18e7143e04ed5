//! Downloads the archive of a chart.
//!
//! ```text
//! repository ─► entry of the version ─┬─► archive (GET) ─────────────────────────────┬─► store: digest, output
//! archive ────────────────────────────┘                                              │
//! registry ───► recorded digest, or that of the tag ─► manifest ─► layer ─► blob (GET) ─┘
//! ```
//!
//! Requests follow the rules of resolutions: credentials stay on their host, addresses and redirects are checked, the certificates
//! that the Secret names are trusted. An archive passes to its output in chunks, and is never in memory as a whole.

mod archive;
mod error;
mod registry;
mod store;

use std::{
    io::Write,
    time::{Duration, Instant},
};

use helm_index::VersionRequest;
use helmops_model::chart::{source::ChartSource, url};

pub use self::error::{DigestMismatch, DownloadError, Origin};
pub use self::registry::Pull;
use self::{archive::Found, store::Stored};
use crate::{
    access::Access,
    http::HttpClient,
    oci::Registries,
    repository::{ChartInterest, ChartRef, Repositories},
};

/// The maximum size of an archive in bytes, by default. Helm has no limit for what it downloads, but a release whose chart,
/// compressed, has more than 1 MiB does not fit into its Secret: twenty times that leaves space for files that Helm does not keep.
pub const MAX_ARCHIVE: u64 = 20 << 20;

/// How old a cached index may be if it has the version that is downloaded.
const RECENT: Duration = Duration::from_mins(5);

/// Which chart to download.
#[derive(Clone, Copy, Debug)]
pub struct ChartDownload<'a> {
    /// Where it comes from.
    pub source: ChartSource<'a>,
    /// Its exact version; empty for an archive, or if the reference has a tag.
    pub version: &'a str,
    /// Whether it is known that the version was resolved: then `1.2` is a version, and no range.
    pub is_resolved: bool,
    /// The digest that was recorded when the version was resolved; empty if there is none. Of the archive for a repository, of
    /// the manifest for a registry.
    pub expected_digest: &'a str,
    /// The maximum size of the archive in bytes.
    pub limit: u64,
}

/// A downloaded archive.
#[derive(Debug)]
pub struct Downloaded<W> {
    /// The output, with the archive.
    pub output: W,
    /// SHA-256 of the archive, in hexadecimal digits.
    pub sha256: String,
    /// The size of the archive in bytes.
    pub bytes: u64,
    /// Where it came from, without credentials.
    pub url: String,
}

impl<W> Downloaded<W> {
    fn of(stored: Stored<W>, url: String) -> Self {
        Self {
            output: stored.output,
            sha256: stored.sha256,
            bytes: stored.bytes,
            url,
        }
    }
}

/// What downloads have in common with resolutions.
#[derive(Clone, Copy)]
pub struct Sources<'a> {
    /// Sends requests.
    pub http: &'a HttpClient,
    /// Helm repositories.
    pub repositories: &'a Repositories,
    /// OCI registries.
    pub registries: &'a Registries,
}

/// Downloads the archive of a chart to `output`. After an error the content of the output is of no use.
///
/// # Errors
/// If the chart cannot be fetched, has another digest than expected, or cannot be written.
pub async fn download<W: Write + Send + 'static>(
    sources: Sources<'_>,
    access: &Access,
    interest: &ChartInterest<'_>,
    chart: ChartDownload<'_>,
    output: W,
) -> Result<Downloaded<W>, DownloadError> {
    let since = Instant::now();
    let pull = Pull {
        sources,
        access,
        limit: chart.limit,
        since,
    };
    match chart.source {
        ChartSource::Packed { repo, .. } => Err(DownloadError::NotDelivered {
            repo: url::redacted(repo),
        }),
        ChartSource::Archive { url } => archive::at_url(sources.http, access, url, chart, output).await,
        ChartSource::Oci { repo } => {
            let version = version(&chart)?;
            pull.version(repo, &version, chart.expected_digest, output).await
        }
        ChartSource::Repository { repo, chart: name } => {
            let version = version(&chart)?;
            let named = ChartRef { repo, chart: name };
            let find = async |since| {
                let entry = sources
                    .repositories
                    .entry(sources.http, access, interest, named, &version, since)
                    .await
                    .map_err(DownloadError::Repository)?;
                Found::of(repo, &entry, chart.expected_digest)
            };
            // What a version is does not change, so a recent index is sufficient if it has the version as it was recorded.
            let recent = since.checked_sub(RECENT).unwrap_or(since);
            let found = match Box::pin(find(recent)).await {
                Err(DownloadError::Repository(error)) if error.is_of_request() => {
                    return Err(DownloadError::Repository(error));
                }
                Err(_) => Box::pin(find(since)).await?,
                Ok(found) => found,
            };
            match found.registry() {
                Some(reference) => pull.archive(reference, &version, &found.digests, output).await,
                None => archive::of_entry(sources.http, access, found, chart.limit, output).await,
            }
        }
    }
}

fn version<'a>(chart: &ChartDownload<'a>) -> Result<VersionRequest<'a>, DownloadError> {
    let text = chart.version;
    if chart.is_resolved {
        return Ok(VersionRequest::resolved(text));
    }
    VersionRequest::parse(text).map_err(|error| DownloadError::Version {
        version: text.to_owned(),
        cause: error.to_string(),
    })
}
