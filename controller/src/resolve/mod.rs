//! From a chart and a range of versions to one version: the part of the work that asks repositories.

mod credentials;
mod error;
mod http;

use std::time::Instant;

pub use self::error::ResolveError;
use self::{credentials::Credentials, http::Fetcher};
use helmops_shared::{
    admit::ValidHelmOp,
    api::{HelmOp, ResolvedChart},
    bundle::lookups,
    chart::{
        index,
        request::{ChartRequest, VersionRequest},
        select::select,
        source::ChartSource,
        url::redacted,
    },
};
use kube::Client;

use crate::metrics::Metrics;

/// Looks versions up.
#[derive(Debug, Default)]
pub struct Resolver {
    fetcher: Fetcher,
}

impl Resolver {
    /// Adds to `known` what a HelmOp asks for beyond it.
    ///
    /// # Errors
    /// The first look-up that fails.
    pub async fn complete(
        &self,
        client: &Client,
        metrics: &Metrics,
        valid: &ValidHelmOp<'_>,
        mut known: Vec<ResolvedChart>,
    ) -> Result<Vec<ResolvedChart>, ResolveError> {
        let mut way = Way::new(client, valid.helmop);
        let mut resolved = Vec::new();
        for (lookup, request) in lookups(valid) {
            let record = if let Some(position) = known.iter().position(|record| lookup.is_answered_by(record))
            {
                known.swap_remove(position)
            } else {
                let started = Instant::now();
                let version = self.version(&mut way, request).await;
                let failure = version.as_ref().err().map(ResolveError::reason);
                metrics.resolved(failure, started.elapsed());
                lookup.answered(version?)
            };
            resolved.push(record);
        }
        Ok(resolved)
    }

    async fn version(&self, way: &mut Way<'_>, request: &ChartRequest<'_>) -> Result<String, ResolveError> {
        match request.source() {
            // It has no versions, and is never looked up.
            ChartSource::Archive { .. } => Ok(String::new()),
            ChartSource::Oci { .. } if request.version.is_exact() => Ok(request.version.text().to_owned()),
            ChartSource::Oci { repo } => Err(ResolveError::OciRange {
                repo: redacted(repo),
                version: request.version.text().to_owned(),
            }),
            ChartSource::Repository { repo, chart } => {
                self.in_repository(way.credentials().await?, repo, chart, &request.version)
                    .await
            }
        }
    }

    async fn in_repository(
        &self,
        credentials: &Credentials,
        repo: &str,
        chart: &str,
        asked: &VersionRequest<'_>,
    ) -> Result<String, ResolveError> {
        let fetched = self
            .fetcher
            .index(repo, credentials)
            .await
            .map_err(ResolveError::Fetch)?;
        let url = fetched.url;
        let entries = match index::versions(&fetched.text, chart) {
            Ok(entries) => entries,
            Err(source) => return Err(ResolveError::Index { url, source }),
        };
        match select(chart, &entries, asked) {
            Ok(entry) => Ok(entry.version.clone()),
            Err(source) => Err(ResolveError::Select { url, source }),
        }
    }
}

/// The way to a HelmOp's repositories. The Secret is read when the first of them is asked, and once.
struct Way<'a> {
    client: &'a Client,
    helmop: &'a HelmOp,
    credentials: Option<Credentials>,
}

impl<'a> Way<'a> {
    const fn new(client: &'a Client, helmop: &'a HelmOp) -> Self {
        Self {
            client,
            helmop,
            credentials: None,
        }
    }

    async fn credentials(&mut self) -> Result<&Credentials, ResolveError> {
        let credentials = match self.credentials.take() {
            Some(credentials) => credentials,
            None => credentials::read(self.client, self.helmop)
                .await
                .map_err(ResolveError::Credentials)?,
        };
        Ok(self.credentials.insert(credentials))
    }
}
