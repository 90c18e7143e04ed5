//! From a chart and a range of versions to one version: the part of the work that asks repositories and registries.
//!
//! ```text
//! Secret ─► access ─┐
//! chart request ────┴► repository (index.yaml) ─┬► cache: one request for all who ask the same ─► http ─► server
//!                      oci (tags, manifests) ───┘
//! ```

mod access;
mod bounds;
mod budget;
mod cache;
mod choice;
mod clock;
mod error;
mod http;
mod metrics;
mod oci;
mod overflow;
mod repository;
mod secret;
mod turns;

use std::{io, sync::Arc, time::Instant};

pub use self::http::{Addresses, Cidr, CidrError};
use self::{
    access::Access,
    budget::Budget,
    cache::Terms,
    choice::Choices,
    clock::Clock,
    http::{HttpClient, Timeouts},
    oci::Registries,
    repository::{LIMITS, Repositories},
    turns::{ResolvePermit, ResolvePermits},
};
pub use self::{
    access::CaCertificate,
    bounds::Bounds,
    error::ResolveError,
    metrics::Fetches,
    repository::{Interest, index_of},
};
use helmops_shared::{
    admit::ValidHelmOp,
    chart::{request::ChartRequest, resolved::ChartVersion, source::ChartSource},
};
use kube::Client;

use crate::metrics::Metrics;

/// How much of the memory for reads one namespace has: one in so many parts.
const SHARE_OF_READS: usize = 4;

/// Looks versions up.
#[derive(Debug)]
pub struct Resolver {
    web: HttpClient,
    repositories: Repositories,
    registries: Registries,
    turns: ResolvePermits,
}

/// What a look-up works with, besides what it looks up.
#[derive(Clone, Copy)]
pub struct ResolveContext<'a> {
    /// The API server, for Secrets.
    pub client: &'a Client,
    /// Where look-ups are counted.
    pub metrics: &'a Metrics,
    /// Authorities that are trusted where a Secret names none.
    pub authorities: &'a [CaCertificate],
    /// What else is wanted of a repository.
    pub interest: &'a Interest<'a>,
    /// From when on an answer is fresh enough.
    pub since: Instant,
}

impl Resolver {
    /// A resolver that takes so much memory for answers, and connects to these addresses.
    ///
    /// # Errors
    /// Where the system refuses what it needs.
    pub fn new(bounds: &Bounds, addresses: Addresses, fetches: Fetches) -> io::Result<Self> {
        let terms = Terms::new(bounds).part(2);
        let (budget, choices) = (Budget::new(bounds.reads, SHARE_OF_READS), Choices::default());
        Ok(Self {
            web: HttpClient::new(Timeouts::default(), addresses, fetches.clone())?,
            repositories: Repositories::new(
                terms.clone(),
                LIMITS,
                budget.clone(),
                choices.clone(),
                fetches.clone(),
            ),
            registries: Registries::new(&terms, budget, choices, fetches),
            turns: ResolvePermits::default(),
        })
    }

    /// Waits until a HelmOp of a namespace may look up what it asks for.
    pub async fn turn(&self, namespace: &Arc<str>) -> ResolvePermit {
        self.turns.look_up(namespace).await
    }

    /// Begins to look up what one HelmOp asks for. The time for all of it begins now.
    pub fn asker<'a>(&'a self, around: ResolveContext<'a>, valid: &'a ValidHelmOp<'a>) -> ChartResolver<'a> {
        ChartResolver {
            resolver: self,
            around,
            valid,
            clock: Clock::default(),
            access: None,
        }
    }
}

/// Looks up what one HelmOp asks for.
pub struct ChartResolver<'a> {
    resolver: &'a Resolver,
    around: ResolveContext<'a>,
    valid: &'a ValidHelmOp<'a>,
    clock: Clock,
    /// With the right to hold it, where that takes one.
    access: Option<(Access, Option<ResolvePermit>)>,
}

impl ChartResolver<'_> {
    /// The version of a chart that the HelmOp asks for.
    ///
    /// # Errors
    /// Where there is none, whoever knows cannot be asked, or all look-ups together take too long.
    pub async fn ask(&mut self, request: &ChartRequest<'_>) -> Result<ChartVersion, ResolveError> {
        let (started, clock) = (Instant::now(), self.clock.clone());
        let found = Box::pin(clock.bound(self.look_up(request))).await;
        let found = found.unwrap_or(Err(ResolveError::Deadline { limit: clock::LIMIT }));
        let failure = found.as_ref().err().map(ResolveError::reason);
        self.around.metrics.resolved(failure, started.elapsed());
        found
    }

    async fn look_up(&mut self, request: &ChartRequest<'_>) -> Result<ChartVersion, ResolveError> {
        let Self {
            resolver,
            around,
            valid,
            ..
        } = *self;
        // The Secret is read when the first repository is asked, and once.
        let (access, _) = match &mut self.access {
            Some(access) => access,
            none => none.insert(read_access(resolver, around, valid, &self.clock).await?),
        };
        match request.source() {
            // It has no versions, and is never looked up.
            ChartSource::Archive { .. } => Ok(ChartVersion::default()),
            ChartSource::Oci { repo } => resolver
                .registries
                .version(&resolver.web, access, repo, &request.version, around.since)
                .await
                .map_err(ResolveError::Registry),
            ChartSource::Repository { repo, chart } => resolver
                .repositories
                .version(
                    &resolver.web,
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

async fn read_access(
    resolver: &Resolver,
    around: ResolveContext<'_>,
    valid: &ValidHelmOp<'_>,
    clock: &Clock,
) -> Result<(Access, Option<ResolvePermit>), ResolveError> {
    let namespace: Arc<str> = valid
        .helmop
        .metadata
        .namespace
        .as_deref()
        .unwrap_or_default()
        .into();
    let read = || secret::access(around.client, valid.helmop, around.authorities);
    // Waits for the API server do not count either.
    let reading = resolver.turns.secret(&namespace, Access::secret_bytes, read);
    let (mut access, turn) = clock.stopped(reading).await.map_err(ResolveError::Secret)?;
    access.home = access::home(valid.chart.repo, access.plain_http);
    access.namespace = namespace;
    access.clock = clock.clone();
    Ok((access, turn))
}

#[cfg(test)]
mod tests;
