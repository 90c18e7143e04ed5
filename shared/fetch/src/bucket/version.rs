//! The version of a chart in a bucket, as it is recorded: what it consists of is its digest.

use std::{sync::Arc, time::Instant};

use helmops_bucket::BucketChart;
use helmops_chart::{EntryId, ListedContent, PackedListedChart};
use helmops_model::chart::resolved::ChartVersion;

use super::{Access, BucketError, BucketPoll, BucketQuery, Buckets, HttpClient};
use crate::poll::DeployedChart;

impl Buckets {
    /// The version that is requested now: the deployed one, if the chart is the same.
    ///
    /// # Errors
    /// If the bucket cannot be read, or has no such chart.
    pub async fn version(
        &self,
        http: &Arc<HttpClient>,
        access: &Arc<Access>,
        chart: &BucketChart,
        deployed: DeployedChart<'_>,
        since: Instant,
    ) -> Result<ChartVersion, BucketError> {
        // What is held counts as what the chart is: it is compared, and not read again.
        let recorded = deployed.version.cloned().unwrap_or_default();
        let digest = match deployed.changed_digest {
            "" => &*recorded.digest,
            held => held,
        };
        let known = ListedContent::parse(digest, EntryId::from_hex);
        let query = BucketQuery {
            known: known.as_ref(),
            since,
            archive: crate::MAX_ARCHIVE.try_into().unwrap_or(usize::MAX),
        };
        Ok(match self.poll(http, access, chart, query).await? {
            BucketPoll::SameContent => ChartVersion {
                digest: digest.to_owned(),
                ..recorded
            },
            BucketPoll::Changed(packed) => ChartVersion {
                version: packed.version,
                digest: packed.content.to_string(),
                url: url(chart),
            },
        })
    }

    /// The archive of a version that was resolved.
    ///
    /// # Errors
    /// If the bucket cannot be read, or has another chart by now.
    pub async fn archive(
        &self,
        http: &Arc<HttpClient>,
        access: &Arc<Access>,
        chart: &BucketChart,
        version: &ChartVersion,
        limit: u64,
    ) -> Result<PackedListedChart, BucketError> {
        let query = BucketQuery {
            known: None,
            since: Instant::now(),
            archive: limit.try_into().unwrap_or(usize::MAX),
        };
        match self.poll(http, access, chart, query).await? {
            BucketPoll::Changed(packed) if packed.content.to_string() == version.digest => Ok(*packed),
            // A bucket keeps nothing of before.
            BucketPoll::Changed(_) | BucketPoll::SameContent => {
                Err(BucketError::OtherContent { url: url(chart) })
            }
        }
    }
}

/// Where the chart is, for records.
fn url(chart: &BucketChart) -> String {
    let (identity, path) = (chart.location.identity(), chart.path());
    match path {
        "" => identity,
        path => format!("{identity}/{path}"),
    }
}
