//! The resolver of the controller, in this process.

use std::time::{Duration, Instant};

use helmops_core::admit::ValidHelmOp;
use helmops_fetch::{
    Addresses, CaCertificate, ChartExplanation, ChartInterest, ChartResolver, Cidr, ExplainedSelection,
    FetchMetrics, Listing, MemoryBounds, ResolutionMetrics, ResolveContext, ResolveError, Resolver,
};
use helmops_model::chart::request::ChartRequest;
use kube::Client;
use prometheus::Registry;
use tokio::time::timeout_at;

use crate::{cluster::duration::timeout, failure::Failure};

/// Memory for responses and their cache, in bytes: the limits of the controller with a container of this size.
const MEMORY: usize = 1 << 30;

/// The flags of all commands that send requests to repositories.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Requests")]
pub struct FetchArgs {
    /// How long to wait for the repositories of a HelmOp, such as 30s or 2m
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = timeout)]
    pub timeout: Duration,
    /// CIDRs to connect to although they are denied by default: loopback, link-local and metadata addresses
    #[arg(long, value_name = "CIDRS", value_delimiter = ',')]
    pub allow_cidrs: Vec<Cidr>,
}

/// Sends the requests of one command. All responses are from after its start.
#[derive(Debug)]
pub struct Fetcher {
    resolver: Resolver,
    metrics: ResolutionMetrics,
    since: Instant,
    timeout: Duration,
}

/// Why versions could not be determined.
#[derive(Debug, thiserror::Error)]
pub enum FetchFailure {
    /// The resolution failed.
    #[error(transparent)]
    Resolve(Box<ResolveError>),
    /// It took too long.
    #[error("no complete response within {} s (--timeout)", .0.as_secs_f64())]
    Timeout(Duration),
}

/// What is used to resolve the charts of one HelmOp.
#[derive(Clone, Copy)]
pub struct Session<'a> {
    /// To read its Secret.
    pub client: &'a Client,
    /// CAs that are trusted if the Secret has none.
    pub ca_certificates: &'a [CaCertificate],
    /// Other charts of the same repositories.
    pub interest: &'a ChartInterest<'a>,
}

/// Resolves the charts of one HelmOp.
pub struct HelmOpFetcher<'a> {
    charts: ChartResolver<'a>,
    deadline: tokio::time::Instant,
    timeout: Duration,
}

impl Fetcher {
    /// Creates the resolver.
    ///
    /// # Errors
    /// If the operating system refuses a resource.
    pub fn new(args: &FetchArgs) -> Result<Self, Failure> {
        // Without a default provider the first HTTPS connection would panic.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let cannot = |error: &dyn std::error::Error| Failure::because("cannot create the HTTP client", error);
        // No request reads them.
        let registry = Registry::new();
        let fetches = FetchMetrics::register(&registry).map_err(|error| cannot(&error))?;
        let addresses = Addresses {
            allow: args.allow_cidrs.clone(),
            deny: Vec::new(),
        };
        let resolver = Resolver::new(&MemoryBounds::of(MEMORY, None), addresses, fetches);
        Ok(Self {
            resolver: resolver.map_err(|error| cannot(&error))?.with_details(),
            metrics: ResolutionMetrics::register(&registry).map_err(|error| cannot(&error))?,
            since: Instant::now(),
            timeout: args.timeout,
        })
    }

    /// Resolves the charts of a HelmOp. The timeout for all of them starts now.
    pub fn helmop<'a>(&'a self, session: Session<'a>, valid: &'a ValidHelmOp<'a>) -> HelmOpFetcher<'a> {
        let context = ResolveContext {
            client: session.client,
            metrics: &self.metrics,
            ca_certificates: session.ca_certificates,
            interest: session.interest,
            since: self.since,
        };
        HelmOpFetcher {
            charts: self.resolver.chart_resolver(context, valid.helmop, &valid.chart),
            deadline: tokio::time::Instant::now() + self.timeout,
            timeout: self.timeout,
        }
    }
}

impl HelmOpFetcher<'_> {
    /// The version that the controller would select now, and why.
    ///
    /// # Errors
    /// If the repository cannot be read.
    pub async fn explain(&mut self, request: &ChartRequest<'_>) -> Result<ExplainedSelection, FetchFailure> {
        within(self.deadline, self.timeout, self.charts.explain(request)).await
    }

    /// All versions.
    ///
    /// # Errors
    /// If the repository cannot be read.
    pub async fn list(&mut self, request: &ChartRequest<'_>) -> Result<ChartExplanation, FetchFailure> {
        if request.packed.is_some() {
            // There is none, and no reason to read the Secret.
            return Ok(ChartExplanation::default());
        }
        let list = self.charts.list(request, Listing::Always);
        let list = within(self.deadline, self.timeout, list).await?;
        Ok(list.unwrap_or_default())
    }
}

async fn within<T>(
    deadline: tokio::time::Instant,
    timeout: Duration,
    work: impl Future<Output = Result<T, ResolveError>>,
) -> Result<T, FetchFailure> {
    match timeout_at(deadline, work).await {
        Ok(result) => result.map_err(|error| FetchFailure::Resolve(Box::new(error))),
        Err(_) => Err(FetchFailure::Timeout(timeout)),
    }
}

/// No other charts.
pub fn no_interest(_: &str, _: Option<&str>) -> helm_index::ChartFilter {
    helm_index::ChartFilter::new()
}
