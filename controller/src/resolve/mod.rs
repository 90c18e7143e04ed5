//! From a chart and a range of versions to one version: the part of the work that asks repositories and registries.
//!
//! ```text
//! Secret ─► access ─┐
//! chart request ────┴► repository (index.yaml) ─┬► cache: one request for all who ask the same ─► http ─► server
//!                      oci (tags, manifests) ───┘
//! ```

mod access;
mod cache;
mod error;
mod http;
mod metrics;
mod oci;
mod repository;
mod secret;

use std::time::Instant;

use self::{
    access::Access,
    http::{Timeouts, Web},
    oci::Registries,
    repository::{LIMITS, Repositories},
};
pub use self::{access::Authority, error::ResolveError, metrics::Fetches, repository::Interest};
use helmops_shared::{
    admit::ValidHelmOp,
    api::{HelmOp, ResolvedChart},
    bundle::lookups,
    chart::{request::ChartRequest, resolved::ChartVersion, source::ChartSource},
};
use kube::Client;

use crate::metrics::Metrics;

/// Looks versions up.
#[derive(Debug)]
pub struct Resolver {
    web: Web,
    repositories: Repositories,
    registries: Registries,
}

/// What a look-up works with, besides what it looks up.
#[derive(Clone, Copy)]
pub struct Surroundings<'a> {
    /// The API server, for Secrets.
    pub client: &'a Client,
    /// Where look-ups are counted.
    pub metrics: &'a Metrics,
    /// Authorities that are trusted where a Secret names none.
    pub authorities: &'a [Authority],
    /// What else is wanted of a repository.
    pub interest: &'a Interest<'a>,
    /// From when on an answer is fresh enough.
    pub since: Instant,
}

impl Resolver {
    /// A resolver that keeps `capacity` bytes of answers at the most.
    pub fn new(capacity: usize, fetches: Fetches) -> Self {
        Self {
            web: Web::new(Timeouts::default(), fetches.clone()),
            repositories: Repositories::new(capacity / 2, LIMITS, fetches.clone()),
            registries: Registries::new(capacity / 2, fetches),
        }
    }

    /// Adds to `known` what a HelmOp asks for beyond it.
    ///
    /// # Errors
    /// The first look-up that fails.
    pub async fn complete(
        &self,
        around: Surroundings<'_>,
        valid: &ValidHelmOp<'_>,
        mut known: Vec<ResolvedChart>,
    ) -> Result<Vec<ResolvedChart>, ResolveError> {
        let mut access = None;
        let mut resolved = Vec::new();
        for (lookup, request) in lookups(valid) {
            let record = if let Some(position) = known.iter().position(|record| lookup.is_answered_by(record))
            {
                known.swap_remove(position)
            } else {
                let started = Instant::now();
                let found = self.look_up(around, valid, &mut access, request).await;
                let failure = found.as_ref().err().map(ResolveError::reason);
                around.metrics.resolved(failure, started.elapsed());
                lookup.answered(found?)
            };
            resolved.push(record);
        }
        Ok(resolved)
    }

    async fn look_up(
        &self,
        around: Surroundings<'_>,
        valid: &ValidHelmOp<'_>,
        access: &mut Option<Access>,
        request: &ChartRequest<'_>,
    ) -> Result<ChartVersion, ResolveError> {
        // The Secret is read when the first repository is asked, and once.
        let access = match access {
            Some(access) => access,
            None => access.insert(read_access(around, valid.helmop, valid.chart.repo).await?),
        };
        match request.source() {
            // It has no versions, and is never looked up.
            ChartSource::Archive { .. } => Ok(ChartVersion::default()),
            ChartSource::Oci { repo } => self
                .registries
                .version(&self.web, access, repo, &request.version, around.since)
                .await
                .map_err(ResolveError::Registry),
            ChartSource::Repository { repo, chart } => self
                .repositories
                .version(
                    &self.web,
                    access,
                    around.interest,
                    (repo, chart),
                    &request.version,
                    around.since,
                )
                .await
                .map_err(ResolveError::Repository),
        }
    }
}

async fn read_access(around: Surroundings<'_>, helmop: &HelmOp, repo: &str) -> Result<Access, ResolveError> {
    let mut access = secret::access(around.client, helmop, around.authorities)
        .await
        .map_err(ResolveError::Secret)?;
    access.home = access::home(repo, access.plain_http);
    Ok(access)
}

#[cfg(test)]
mod tests;
