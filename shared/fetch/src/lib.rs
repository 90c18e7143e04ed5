//! Chart repositories, registries, Git repositories, buckets and artifacts: resolves a chart and a version range to one version, and downloads it.
//!
//! ```text
//! Secret ─► access ─┐
//! chart request ────┴► repository (index.yaml) ─┬► cache: one request for all that need the same response ─► http ─► server
//!                      oci (tags, manifests) ───┤
//!                      git (references, packs) ─┤
//!                      artifact (manifests, layers) ─┤
//!                      bucket (lists, objects) ─┘
//! ```

#![warn(missing_docs)]

mod access;
mod args;
mod artifact;
mod bounds;
mod bucket;
mod cache;
mod chart_errors;
mod config_maps;
mod download;
mod endpoint;
mod error;
mod explain;
mod files;
mod git;
mod http;
mod login;
mod metrics;
mod oci;
mod packed;
mod permits;
mod poll;
mod repository;
mod secret;
mod selection;
mod storage;

use std::{
    io::{self, Write},
    sync::Arc,
    time::{Duration, Instant},
};

use helmops_api::HelmOp;
use helmops_fair::{ByteBudget, Deadline, DeadlineExceeded, Reservation, deadline::excluded};
use helmops_model::chart::{request::ChartRequest, resolved::ChartVersion, source::ChartSource};
use helmops_runtime::{compute::Compute, error_class::ClassifiedError};
use kube::Client;

use self::{
    access::Access,
    artifact::Artifacts,
    bucket::Buckets,
    cache::CacheSettings,
    download::Sources,
    git::GitRepositories,
    http::{HttpClient, Timeouts},
    oci::Registries,
    permits::ResolvePermit,
    poll::PollQuery,
    repository::{ChartRef, LIMITS, Repositories},
    secret::Server,
};
pub use self::{
    args::{AddressArgs, AddressArgsError},
    artifact::ArtifactError,
    bounds::MemoryBounds,
    bucket::BucketError,
    config_maps::ConfigMapError,
    download::{ChartDownload, DigestMismatch, DownloadError, Downloaded, MAX_ARCHIVE, Origin},
    endpoint::{EndpointError, EndpointRequest},
    error::ResolveError,
    explain::{ChartExplanation, JudgedVersion, Listed, ListedVersion, Listing},
    git::{GitError, HostKeyError, SshProblem},
    http::Limits,
    http::{
        Addresses, CaCertificate, Cidr, CidrError, Exchange, ExchangeError, ExchangeRequest,
        ExchangeResponse, PostError, PostRequest, Poster, ProxyConfig, TlsConfig,
    },
    metrics::{FetchMetrics, ResolutionMetrics, resolution_failures},
    packed::PackedError,
    poll::{DeployedChart, Polled},
    repository::{ChartInterest, LIMITS as INDEX_LIMITS, normalized_index_url},
    secret::{AccessSource, SecretError, ca_bundle},
    storage::StorageError,
};

/// The time for all resolutions of one HelmOp together, or for a download. Waits for permits do not count: they depend on the
/// number of other resolutions, and not on the server.
///
/// Each request has its own timeout, but a registry that sends page after page within it could take hours, while the HelmOp
/// and the Policies change. An index of 128 MiB over 10 Mbit/s takes two minutes.
const TIME_LIMIT: Duration = Duration::from_mins(5);

/// The field of a HelmOp with certificates.
pub const OWN_CA_BUNDLE: &str = "spec.caBundle";

/// Resolves versions.
#[derive(Debug)]
pub struct Resolver {
    http: Arc<HttpClient>,
    poster: Poster,
    repositories: Repositories,
    registries: Registries,
    git: GitRepositories,
    buckets: Buckets,
    artifacts: Artifacts,
    budget: ByteBudget,
}

/// What a resolution uses besides the HelmOp.
#[derive(Clone, Copy)]
pub struct ResolveContext<'a> {
    /// The client for the API server, to read Secrets.
    pub client: &'a Client,
    /// Counts resolutions.
    pub metrics: &'a ResolutionMetrics,
    /// CAs that are trusted if neither the Secret nor the HelmOp has any.
    pub ca_certificates: &'a [CaCertificate],
    /// The charts that other HelmOps use from a repository.
    pub interest: &'a ChartInterest<'a>,
    /// A response is fresh if its request started at this time or later.
    pub since: Instant,
}

impl Resolver {
    /// Creates a resolver with these limits for the memory of responses, which connects to these addresses only.
    ///
    /// # Errors
    /// If the operating system refuses a resource.
    pub fn new(bounds: &MemoryBounds, addresses: Addresses, fetches: FetchMetrics) -> io::Result<Self> {
        let (budget, compute) = (bounds.budget(), Compute::default());
        let settings = CacheSettings::new(bounds, budget.clone());
        Ok(Self {
            poster: Poster::new(addresses.clone()),
            http: HttpClient::new(Timeouts::default(), addresses, fetches.clone())?.into(),
            repositories: Repositories::new(
                settings.part(2),
                LIMITS,
                budget.clone(),
                compute.clone(),
                fetches.clone(),
            ),
            git: GitRepositories::new(
                // It has two caches.
                &settings.part(8),
                helmops_git::Limits::default(),
                budget.clone(),
                compute.clone(),
                &fetches,
            ),
            buckets: Buckets::new(
                // The objects of a bucket are read when the chart has changed, and not again: none is kept.
                CacheSettings {
                    idle: 0,
                    ..settings.clone()
                },
                helmops_bucket::Limits::default(),
                budget.clone(),
                compute.clone(),
                fetches.clone(),
            ),
            artifacts: Artifacts::new(
                settings.part(16),
                budget.clone(),
                compute.clone(),
                fetches.clone(),
            ),
            registries: Registries::new(&settings.part(4), budget.clone(), compute, fetches),
            budget,
        })
    }

    /// Keeps what [`ChartResolver::explain`] shows to a person, besides what a selection needs.
    #[must_use]
    pub const fn with_details(mut self) -> Self {
        self.repositories.keep_details();
        self
    }

    /// Selects from long lists with the permits for computations of the process.
    #[must_use]
    pub fn computing_with(mut self, compute: &Compute) -> Self {
        self.repositories.compute = compute.clone();
        self.registries.compute = compute.clone();
        self.git.compute = compute.clone();
        self.buckets.compute = compute.clone();
        self.artifacts.compute = compute.clone();
        self
    }

    /// Waits until a HelmOp of a namespace may resolve its charts.
    pub async fn acquire_permit(&self, namespace: &Arc<str>) -> ResolvePermit {
        self.http.permits.resolution(namespace).await
    }

    /// Downloads the archive of one chart to `output`, with the credentials and the trust of a Secret. After an error the content
    /// of the output is of no use.
    ///
    /// # Errors
    /// If the Secret cannot be used, or the chart cannot be fetched, has another digest than expected, or cannot be written.
    pub async fn download<W: Write + Send + 'static>(
        &self,
        client: &Client,
        source: AccessSource<'_>,
        interest: &ChartInterest<'_>,
        chart: ChartDownload<'_>,
        output: W,
    ) -> Result<Downloaded<W>, DownloadError> {
        let (mut access, _memory) = self.access(client, source).await?;
        access.origin = access::chart_origin(chart.source, access.plain_http);
        let download = Box::pin(download::download(
            self.sources(),
            &access,
            interest,
            chart,
            output,
        ));
        let downloaded = helmops_fair::deadline::bounded(TIME_LIMIT, download).await;
        downloaded.unwrap_or_else(|DeadlineExceeded| {
            Err(DownloadError::Deadline {
                seconds: TIME_LIMIT.as_secs(),
            })
        })
    }

    fn sources(&self) -> Sources<'_> {
        Sources {
            http: &self.http,
            repositories: &self.repositories,
            registries: &self.registries,
        }
    }

    /// The credentials and the trust of a Secret for charts, with the memory that it is charged for.
    async fn access(
        &self,
        client: &Client,
        source: AccessSource<'_>,
    ) -> Result<(Access, Reservation), SecretError> {
        self.access_to(client, source, Server::Charts).await
    }

    /// The same for a kind of servers.
    async fn access_to(
        &self,
        client: &Client,
        source: AccessSource<'_>,
        server: Server,
    ) -> Result<(Access, Reservation), SecretError> {
        let reading = async {
            let _permit = match source.secret {
                "" => None,
                _ => Some(self.http.permits.secret(&source.charged_to.into()).await),
            };
            secret::access(client, source, server).await
        };
        let access = reading.await?;
        let memory = secret::hold(&self.budget, &access)?;
        Ok((access, memory))
    }

    /// Creates the resolver for the charts of one HelmOp. Their deadline starts now. Its credentials are for `chart`, which it requests.
    pub fn chart_resolver<'a>(
        &'a self,
        context: ResolveContext<'a>,
        helmop: &'a HelmOp,
        chart: &'a ChartRequest<'a>,
    ) -> ChartResolver<'a> {
        ChartResolver {
            resolver: self,
            context,
            helmop,
            chart,
            deadline: Deadline::new(TIME_LIMIT),
            access: None,
        }
    }
}

/// The selection of a version, with its explanation.
#[derive(Debug)]
pub struct ExplainedSelection {
    /// The version that a reconciliation would get now, or its error.
    pub selected: Result<ChartVersion, ResolveError>,
    /// The versions of the chart; `None` if they were not listed.
    pub explanation: Option<ChartExplanation>,
}

/// Resolves the charts of one HelmOp.
pub struct ChartResolver<'a> {
    resolver: &'a Resolver,
    context: ResolveContext<'a>,
    helmop: &'a HelmOp,
    chart: &'a ChartRequest<'a>,
    deadline: Deadline,
    access: Option<(Arc<Access>, Reservation)>,
}

impl ChartResolver<'_> {
    /// Resolves a chart request of the HelmOp to a version.
    ///
    /// # Errors
    /// If no version matches, the repository or registry cannot be reached, or all resolutions together take too long.
    pub async fn resolve(&mut self, request: &ChartRequest<'_>) -> Result<ChartVersion, ResolveError> {
        let (started, deadline) = (Instant::now(), self.deadline.clone());
        let result = Box::pin(deadline.run(self.resolve_unlimited(request))).await;
        let result = result.unwrap_or(Err(ResolveError::Deadline { limit: TIME_LIMIT }));
        let failure = result.as_ref().err().map(ClassifiedError::reason);
        self.context.metrics.resolved(failure, started.elapsed());
        result
    }

    /// Resolves a chart request as [`Self::resolve`] does, with what the same response says about the deployed version.
    pub async fn poll(&mut self, request: &ChartRequest<'_>, deployed: DeployedChart<'_>) -> Polled {
        let (started, deadline) = (Instant::now(), self.deadline.clone());
        let polled = Box::pin(deadline.run(self.poll_unlimited(request, deployed))).await;
        let polled = polled.unwrap_or(Err(ResolveError::Deadline { limit: TIME_LIMIT }));
        let polled = polled.unwrap_or_else(|error| Polled::from(Err(error)));
        let failure = polled.version.as_ref().err().map(ClassifiedError::reason);
        self.context.metrics.resolved(failure, started.elapsed());
        polled
    }

    /// Selects a version as [`Self::resolve`] does, and explains the selection from the same response.
    ///
    /// # Errors
    /// If the repository or registry cannot be read. That no version is selected is no error.
    pub async fn explain(&mut self, request: &ChartRequest<'_>) -> Result<ExplainedSelection, ResolveError> {
        let (selected, listing) = match self.resolve(request).await {
            Ok(version) => (Ok(version), Listing::AsNeeded),
            Err(error) if error.is_of_selection() => (Err(error), Listing::Always),
            Err(error) => return Err(error),
        };
        Ok(ExplainedSelection {
            explanation: self.list(request, listing).await?,
            selected,
        })
    }

    /// The versions of a chart, and what the selection makes of each; `None` for an archive, and if they are listed only as needed.
    ///
    /// # Errors
    /// If the repository or registry cannot be read.
    pub async fn list(
        &mut self,
        request: &ChartRequest<'_>,
        listing: Listing,
    ) -> Result<Option<ChartExplanation>, ResolveError> {
        let deadline = self.deadline.clone();
        let list = Box::pin(deadline.run(self.list_unlimited(request, listing))).await;
        list.unwrap_or(Err(ResolveError::Deadline { limit: TIME_LIMIT }))
    }

    /// If a selection preceded it, its response is cached and recent enough.
    async fn list_unlimited(
        &mut self,
        request: &ChartRequest<'_>,
        listing: Listing,
    ) -> Result<Option<ChartExplanation>, ResolveError> {
        let Self {
            resolver, context, ..
        } = *self;
        let access = self.access().await.map_err(ResolveError::Secret)?;
        match request.source() {
            ChartSource::Archive { .. } | ChartSource::Packed { .. } => Ok(None),
            ChartSource::Oci { repo } => {
                let registries = &resolver.registries;
                let chart = registries
                    .chart(&resolver.http, access, repo)
                    .map_err(ResolveError::Registry)?;
                let explanation = registries.explain(&chart, &request.version, listing, context.since);
                explanation.await.map_err(ResolveError::Registry)
            }
            ChartSource::Repository { repo, chart } => {
                let explanation = resolver.repositories.explain(
                    &resolver.http,
                    access,
                    context.interest,
                    ChartRef { repo, chart },
                    &request.version,
                    context.since,
                );
                explanation.await.map(Some).map_err(ResolveError::Repository)
            }
        }
    }

    /// Downloads the archive of a chart of the HelmOp to `output`, in a version that was resolved. After an error the content of the output is
    /// of no use.
    ///
    /// # Errors
    /// If the chart cannot be fetched, has another digest than the version, or more than `limit` bytes, or cannot be written.
    pub async fn download<W: Write + Send + 'static>(
        &mut self,
        request: &ChartRequest<'_>,
        version: &ChartVersion,
        limit: u64,
        output: W,
    ) -> Result<Downloaded<W>, DownloadError> {
        let deadline = self.deadline.clone();
        let download = Box::pin(deadline.run(self.download_unlimited(request, version, limit, output))).await;
        download.unwrap_or_else(|DeadlineExceeded| {
            Err(DownloadError::Deadline {
                seconds: TIME_LIMIT.as_secs(),
            })
        })
    }

    async fn download_unlimited<W: Write + Send + 'static>(
        &mut self,
        request: &ChartRequest<'_>,
        version: &ChartVersion,
        limit: u64,
        output: W,
    ) -> Result<Downloaded<W>, DownloadError> {
        let Self {
            resolver, context, ..
        } = *self;
        if let Some(packed) = &request.packed {
            return self.packed_archive(packed, version, limit, output).await;
        }
        let chart = ChartDownload {
            source: request.source(),
            version: &version.version,
            is_resolved: true,
            expected_digest: &version.digest,
            limit,
        };
        let access = self.access().await?;
        download::download(resolver.sources(), access, context.interest, chart, output).await
    }

    /// The credentials and the trust. The Secret is read once, before the first request to a repository.
    async fn access(&mut self) -> Result<&Arc<Access>, SecretError> {
        let Self {
            resolver,
            context,
            helmop,
            chart,
            ..
        } = *self;
        let (access, _) = match &mut self.access {
            Some(access) => access,
            none => none.insert(read_access(resolver, context, helmop, chart).await?),
        };
        Ok(access)
    }

    async fn poll_unlimited(
        &mut self,
        request: &ChartRequest<'_>,
        deployed: DeployedChart<'_>,
    ) -> Result<Polled, ResolveError> {
        let Self {
            resolver, context, ..
        } = *self;
        if let Some(packed) = &request.packed {
            return Ok(Polled::from(self.packed_version(packed, deployed).await));
        }
        let access = self.access().await.map_err(ResolveError::Secret)?;
        let query = PollQuery {
            request: &request.version,
            deployed: deployed.version.map_or("", |version| &version.version),
        };
        Ok(match request.source() {
            ChartSource::Archive { .. } | ChartSource::Packed { .. } => {
                Polled::from(Ok(ChartVersion::default()))
            }
            ChartSource::Oci { repo } => {
                let registries = &resolver.registries;
                let polled = registries.poll(&resolver.http, access, repo, query, context.since);
                let (version, outlook) = polled.await.map_err(ResolveError::Registry)?;
                Polled {
                    version: version.map_err(ResolveError::Registry),
                    outlook,
                }
            }
            ChartSource::Repository { repo, chart } => {
                let (repositories, chart) = (&resolver.repositories, ChartRef { repo, chart });
                let polled = repositories.poll(
                    &resolver.http,
                    access,
                    context.interest,
                    chart,
                    query,
                    context.since,
                );
                let (version, outlook) = polled.await.map_err(ResolveError::Repository)?;
                Polled {
                    version: version.map_err(ResolveError::Repository),
                    outlook: Some(outlook),
                }
            }
        })
    }

    async fn resolve_unlimited(&mut self, request: &ChartRequest<'_>) -> Result<ChartVersion, ResolveError> {
        let Self {
            resolver, context, ..
        } = *self;
        if let Some(packed) = &request.packed {
            return self.packed_version(packed, DeployedChart::default()).await;
        }
        let access = self.access().await.map_err(ResolveError::Secret)?;
        match request.source() {
            // An archive has no versions, and is never resolved.
            ChartSource::Archive { .. } | ChartSource::Packed { .. } => Ok(ChartVersion::default()),
            ChartSource::Oci { repo } => resolver
                .registries
                .version(&resolver.http, access, repo, &request.version, context.since)
                .await
                .map_err(ResolveError::Registry),
            ChartSource::Repository { repo, chart } => resolver
                .repositories
                .version(
                    &resolver.http,
                    access,
                    context.interest,
                    ChartRef { repo, chart },
                    &request.version,
                    context.since,
                )
                .await
                .map_err(ResolveError::Repository),
        }
    }
}

async fn read_access(
    resolver: &Resolver,
    context: ResolveContext<'_>,
    helmop: &HelmOp,
    chart: &ChartRequest<'_>,
) -> Result<(Arc<Access>, Reservation), SecretError> {
    let namespace = helmop.metadata.namespace.as_deref().unwrap_or_default();
    let own = ca_bundle(&helmop.spec.ca_bundle, OWN_CA_BUNDLE);
    let (secret, server) = match &chart.packed {
        Some(packed) => (&packed.secret, packed::server(&packed.source)),
        None => (&helmop.spec.helm_secret_name, Server::Charts),
    };
    let source = AccessSource {
        namespace,
        charged_to: namespace,
        secret,
        insecure_skip_tls_verify: helmop.spec.insecure_skip_tls_verify,
        ca_certificates: if own.is_empty() {
            context.ca_certificates
        } else {
            &own
        },
    };
    // Waits for the API server do not count for the deadline either.
    let (mut access, memory) = excluded(resolver.access_to(context.client, source, server)).await?;
    access.origin = match &chart.packed {
        None => access::repository_origin(chart.repo, access.plain_http),
        Some(packed) => {
            access.plain_http |= packed.source.is_insecure_registry();
            packed::origin(&packed.source, access.plain_http)
        }
    };
    Ok((Arc::new(access), memory))
}

#[cfg(test)]
mod tests;
