//! Charts in buckets.
//!
//! ```text
//! prefix ─► list of objects (cached by what is listed) ─► folders ─► changed? ─► objects ─► archive
//! ```
//!
//! A poll is one list, and nothing else if the chart is the same in it. Only of a chart that has changed the objects are fetched that belong
//! to it. The crate `object_store` writes and signs requests; they are sent by the client for all others ([`exchange`]), so what holds for
//! these holds for buckets.

mod chart;
pub mod error;
mod exchange;
mod listing;
mod session;
mod store;
mod version;

use std::{sync::Arc, time::Instant};

use helmops_bucket::{BucketChart, BucketLocation, ChartObject, Credentials, Limits, Operation};
use helmops_chart::{ListedContent, ListedFolders, PackedListedChart};
use helmops_fair::ByteBudget;
use helmops_runtime::compute::Compute;

pub use self::error::BucketError;
use self::{listing::ListingKey, session::Session};
use super::{
    access::Access,
    bounds::ReadMemory,
    cache::{Cache, CacheSettings, Sizes},
    http::HttpClient,
    metrics::FetchMetrics,
    permits::RequestPermit,
};

/// Buckets, and what is cached of them.
#[derive(Debug)]
pub struct Buckets {
    listings: Cache<ListingKey, ListedFolders, BucketError>,
    limits: Limits,
    budget: ByteBudget,
    /// The permits for reading lists and packing charts.
    pub compute: Compute,
}

/// What a poll has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BucketPoll {
    /// The chart is the same.
    SameContent,
    /// The chart is another one.
    Changed(Box<PackedListedChart>),
}

/// The limits of one operation.
#[derive(Clone, Copy, Debug)]
pub struct BucketQuery<'a> {
    /// What the chart consisted of; `None` if it has to be fetched in any case.
    pub known: Option<&'a ListedContent>,
    /// A list is fresh if its first request started at this time or later.
    pub since: Instant,
    /// Maximum size of the archive, in bytes.
    pub archive: usize,
}

/// A bucket with the access of one HelmOp.
#[derive(Clone, Copy)]
struct Source<'a> {
    buckets: &'a Buckets,
    http: &'a Arc<HttpClient>,
    access: &'a Arc<Access>,
    location: &'a BucketLocation,
    credentials: &'a Credentials,
}

impl Buckets {
    /// Creates an empty cache.
    pub fn new(
        settings: CacheSettings,
        limits: Limits,
        budget: ByteBudget,
        compute: Compute,
        fetches: FetchMetrics,
    ) -> Self {
        let sizes = Sizes {
            key: ListingKey::bytes,
            value: ListedFolders::bytes,
        };
        Self {
            listings: Cache::new(settings, sizes, fetches),
            limits,
            budget,
            compute,
        }
    }

    /// Polls for a chart.
    ///
    /// # Errors
    /// If the bucket cannot be read, or has no such chart.
    pub async fn poll(
        &self,
        http: &Arc<HttpClient>,
        access: &Arc<Access>,
        chart: &BucketChart,
        query: BucketQuery<'_>,
    ) -> Result<BucketPoll, BucketError> {
        let keys = access.bucket.as_deref().cloned().unwrap_or_default();
        let credentials = keys.credentials(chart.location.provider);
        let credentials = credentials.map_err(|source| BucketError::Credentials {
            secret: access.secret.clone(),
            source,
        })?;
        let source = Source {
            buckets: self,
            http,
            access,
            location: &chart.location,
            credentials: &credentials,
        };
        match &chart.object {
            ChartObject::Folder { path, strategy } => source.folder(path, *strategy, query).await,
            ChartObject::Archive { path } => source.archive(path, query).await,
        }
    }
}

impl Source<'_> {
    /// Waits until the namespace of the HelmOp may send requests to the server.
    async fn acquire_permit(&self) -> RequestPermit {
        let url = &self.location.endpoint;
        self.http.permits.request(&self.access.namespace, url).await
    }

    /// The memory of responses.
    fn memory(&self) -> ReadMemory {
        ReadMemory::new(&self.buckets.budget, &self.access.namespace)
    }

    /// Requests with a permit, one after the other, each with a response of at most `limit` bytes.
    fn session(
        &self,
        permit: RequestPermit,
        operation: Operation,
        limit: usize,
    ) -> Result<Session, BucketError> {
        Session::new(*self, permit, operation, limit)
    }
}
