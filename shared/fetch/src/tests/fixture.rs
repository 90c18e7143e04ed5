//! A resolver like that of the controller, and assertions on its results.

use std::{
    fmt::Debug,
    io::Write,
    sync::Arc,
    time::{Duration, Instant},
};

use helm_index::{ChartFilter, Outlook, VersionRequest};
use helmops_bucket::BucketChart;
use helmops_git::GitChart;
use helmops_model::{
    chart::{artifact::ArtifactChart, resolved::ChartVersion, source::ChartSource},
    reason::Reason,
};
use helmops_runtime::{
    compute::Compute,
    error_class::{Class, ClassifiedError},
};
use prometheus::{Registry, TextEncoder};
use tokio::time::timeout;

use super::{
    responses::CHART,
    server::{Ca, DEADLINE, Server},
};
use crate::{
    ChartExplanation, Listing, ResolveError,
    access::{self, Access},
    artifact::{ArtifactError, Artifacts},
    bounds::MemoryBounds,
    bucket::{BucketError, BucketPoll, BucketQuery, Buckets},
    cache::CacheSettings,
    download::{ChartDownload, DownloadError, Downloaded, Pull, Sources, download},
    git::{GitError, GitPoll, GitQuery, GitRepositories, KnownChart},
    http::{Addresses, Connection, FetchErrorKind, HttpClient, Limits, Timeouts, TlsConfig},
    login::Login,
    metrics::FetchMetrics,
    oci::{Registries, RegistryError},
    poll::{DeployedChart, PollQuery},
    repository::{ChartRef, LIMITS, Repositories, RepositoryError},
};

/// The password of every login here. No message may contain it.
pub const PASSWORD: &str = "geheim";
/// The limit for archives in tests.
pub const ARCHIVE_LIMIT: u64 = 64 << 10;
/// The limit of the manifests.
const MEMORY: usize = 256 << 20;
/// Far above the duration of any response that is expected to arrive.
pub const LONG_TIMEOUTS: Timeouts = Timeouts {
    connect: DEADLINE,
    read: DEADLINE,
    total: DEADLINE,
};

/// The result of a resolution.
pub type ResolveResult = Result<ChartVersion, ResolveError>;

/// The repositories and registries of a resolver, with its metrics.
#[derive(Debug)]
pub struct TestResolver {
    http: Arc<HttpClient>,
    repositories: Repositories,
    registries: Registries,
    git: GitRepositories,
    buckets: Buckets,
    artifacts: Artifacts,
    metrics: Registry,
    charts: ChartFilter,
}

impl TestResolver {
    /// With timeouts that no test reaches.
    pub fn new() -> Self {
        Self::with_timeouts(LONG_TIMEOUTS)
    }

    /// With these timeouts.
    pub fn with_timeouts(timeouts: Timeouts) -> Self {
        Self::with_limits(LIMITS, timeouts)
    }

    /// With these limits for the size of an index, and these timeouts.
    pub fn with_limits(limits: Limits, timeouts: Timeouts) -> Self {
        Self::build(
            &MemoryBounds::of(MEMORY, None),
            limits,
            timeouts,
            allow_loopback(),
        )
    }

    /// With this much memory for responses.
    pub fn with_memory(responses: usize) -> Self {
        let cache = responses / 4;
        Self::with_bounds(&MemoryBounds { responses, cache })
    }

    /// With these memory limits.
    pub fn with_bounds(bounds: &MemoryBounds) -> Self {
        Self::build(bounds, LIMITS, LONG_TIMEOUTS, allow_loopback())
    }

    /// With these addresses, and the default limits and timeouts.
    pub fn with_addresses(addresses: Addresses) -> Self {
        Self::build(&MemoryBounds::of(MEMORY, None), LIMITS, LONG_TIMEOUTS, addresses)
    }

    fn build(bounds: &MemoryBounds, limits: Limits, timeouts: Timeouts, addresses: Addresses) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let metrics = Registry::new();
        let fetches = FetchMetrics::register(&metrics).unwrap();
        let budget = bounds.budget();
        let settings = CacheSettings {
            // Tests count requests that follow each other immediately.
            min_interval: Duration::ZERO,
            ..CacheSettings::new(bounds, budget.clone()).part(2)
        };
        let compute = Compute::default();
        Self {
            http: HttpClient::new(timeouts, addresses, fetches.clone())
                .unwrap()
                .into(),
            repositories: Repositories::new(
                settings.clone(),
                limits,
                budget.clone(),
                compute.clone(),
                fetches.clone(),
            ),
            git: GitRepositories::new(
                &settings,
                helmops_git::Limits::default(),
                budget.clone(),
                compute.clone(),
                &fetches,
            ),
            buckets: Buckets::new(
                settings.clone(),
                helmops_bucket::Limits::default(),
                budget.clone(),
                compute.clone(),
                fetches.clone(),
            ),
            artifacts: Artifacts::new(settings.clone(), budget.clone(), compute.clone(), fetches.clone()),
            registries: Registries::new(&settings, budget, compute, fetches),
            metrics,
            charts: ChartFilter::new(),
        }
    }

    /// Other HelmOps use these charts of the same repository.
    pub fn with_interest(self, charts: &[&str]) -> Self {
        let charts = charts.iter().map(|chart| (*chart).to_owned()).collect();
        Self { charts, ..self }
    }

    /// Resolves the newest version of the chart in a repository, with a fresh request.
    pub async fn repository(&self, access: &Access, repo: &str) -> ResolveResult {
        self.chart(access, (repo, CHART), Instant::now()).await
    }

    /// Resolves the newest version of a chart in a repository.
    pub async fn chart(&self, access: &Access, (repo, chart): (&str, &str), since: Instant) -> ResolveResult {
        let chart = ChartRef { repo, chart };
        let newest = VersionRequest::parse("").unwrap();
        let interest = |_: &str, namespace: Option<&str>| match namespace {
            None => self.charts.clone(),
            Some(_) => ChartFilter::new(),
        };
        let resolution = self
            .repositories
            .version(&self.http, access, &interest, chart, &newest, since);
        within_deadline(resolution)
            .await
            .map_err(ResolveError::Repository)
    }

    /// Resolves a version of the chart in a repository, and explains it, as [`crate::ChartResolver::explain`] does.
    pub async fn explained_repository(
        &mut self,
        repo: &str,
        version: &str,
    ) -> (ResolveResult, Result<ChartExplanation, ResolveError>) {
        self.repositories.keep_details();
        let (since, request) = (Instant::now(), VersionRequest::parse(version).unwrap());
        let (repositories, access) = (&self.repositories, Access::default());
        let chart = ChartRef { repo, chart: CHART };
        let interest = |_: &str, _: Option<&str>| ChartFilter::new();
        let selected = repositories.version(&self.http, &access, &interest, chart, &request, since);
        let selected = within_deadline(selected).await.map_err(ResolveError::Repository);
        let explained = repositories.explain(&self.http, &access, &interest, chart, &request, since);
        let explained = within_deadline(explained).await.map_err(ResolveError::Repository);
        (selected, explained)
    }

    /// Polls for a chart in a repository.
    pub async fn polled_repository(
        &self,
        repo: &str,
        version: &str,
        deployed: &str,
    ) -> Result<(ResolveResult, Outlook), ResolveError> {
        let (since, request) = (Instant::now(), VersionRequest::parse(version).unwrap());
        let query = PollQuery {
            request: &request,
            deployed,
        };
        let chart = ChartRef { repo, chart: CHART };
        let (interest, access) = (|_: &str, _: Option<&str>| ChartFilter::new(), Access::default());
        let polled = self
            .repositories
            .poll(&self.http, &access, &interest, chart, query, since);
        let (version, outlook) = within_deadline(polled).await.map_err(ResolveError::Repository)?;
        Ok((version.map_err(ResolveError::Repository), outlook))
    }

    /// The same in a registry.
    pub async fn polled_registry(
        &self,
        access: &Access,
        repo: &str,
        version: &str,
        deployed: &str,
    ) -> Result<(ResolveResult, Option<Outlook>), ResolveError> {
        let (since, request) = (Instant::now(), VersionRequest::parse(version).unwrap());
        let query = PollQuery {
            request: &request,
            deployed,
        };
        let polled = self.registries.poll(&self.http, access, repo, query, since);
        let (version, outlook) = within_deadline(polled).await.map_err(ResolveError::Registry)?;
        Ok((version.map_err(ResolveError::Registry), outlook))
    }

    /// The same in a registry.
    pub async fn explained_registry(
        &self,
        access: &Access,
        repo: &str,
        version: &str,
        listing: Listing,
    ) -> (ResolveResult, Result<Option<ChartExplanation>, ResolveError>) {
        let (since, request) = (Instant::now(), VersionRequest::parse(version).unwrap());
        let selected = self.registry_since(access, repo, version, since).await;
        let chart = self.registries.chart(&self.http, access, repo).unwrap();
        let explained = self.registries.explain(&chart, &request, listing, since);
        let explained = within_deadline(explained).await.map_err(ResolveError::Registry);
        (selected, explained)
    }

    /// Resolves a version of a chart in a registry, with a fresh request.
    pub async fn registry(&self, access: &Access, repo: &str, version: &str) -> ResolveResult {
        self.registry_since(access, repo, version, Instant::now()).await
    }

    /// Resolves a version of a chart in a registry.
    pub async fn registry_since(
        &self,
        access: &Access,
        repo: &str,
        version: &str,
        since: Instant,
    ) -> ResolveResult {
        let version = VersionRequest::parse(version).unwrap();
        let resolution = self.registries.version(&self.http, access, repo, &version, since);
        within_deadline(resolution).await.map_err(ResolveError::Registry)
    }

    /// Downloads a version of a chart, and returns the archive with its digest.
    pub async fn download(
        &self,
        access: &Access,
        source: ChartSource<'_>,
        expected_digest: &str,
    ) -> Result<Downloaded<Vec<u8>>, DownloadError> {
        let chart = ChartDownload {
            source,
            version: match source {
                ChartSource::Archive { .. } | ChartSource::Packed { .. } => "",
                ChartSource::Oci { .. } | ChartSource::Repository { .. } => "1.0.0",
            },
            is_resolved: false,
            expected_digest,
            limit: ARCHIVE_LIMIT,
        };
        self.download_to(access, chart, Vec::new()).await
    }

    /// Downloads a chart to an output.
    pub async fn download_to<W: Write + Send + 'static>(
        &self,
        access: &Access,
        chart: ChartDownload<'_>,
        output: W,
    ) -> Result<Downloaded<W>, DownloadError> {
        let interest = |_: &str, _: Option<&str>| ChartFilter::new();
        within_deadline(download(self.sources(), access, &interest, chart, output)).await
    }

    /// Downloads the files of a Bundle from a registry.
    pub async fn content(
        &self,
        access: &Access,
        reference: &str,
        id: &str,
    ) -> Result<Downloaded<Vec<u8>>, DownloadError> {
        let pull = Pull {
            sources: self.sources(),
            access,
            limit: ARCHIVE_LIMIT,
            since: Instant::now(),
        };
        within_deadline(pull.content(reference, id, Vec::new())).await
    }

    /// Polls for a chart in a bucket, with a fresh list.
    pub async fn bucket(
        &self,
        access: &Access,
        chart: &BucketChart,
        known: Option<&helmops_chart::ListedContent>,
    ) -> Result<BucketPoll, BucketError> {
        let query = BucketQuery {
            known,
            since: Instant::now(),
            archive: 1 << 20,
        };
        self.bucket_query(access, chart, query).await
    }

    /// Polls for a chart in a bucket.
    pub async fn bucket_query(
        &self,
        access: &Access,
        chart: &BucketChart,
        query: BucketQuery<'_>,
    ) -> Result<BucketPoll, BucketError> {
        let access = Arc::new(access.clone());
        within_deadline(self.buckets.poll(&self.http, &access, chart, query)).await
    }

    /// The version of a chart in a bucket, and its archive.
    pub async fn bucket_version(
        &self,
        access: &Access,
        chart: &BucketChart,
        deployed: DeployedChart<'_>,
    ) -> Result<ChartVersion, BucketError> {
        let (access, since) = (Arc::new(access.clone()), Instant::now());
        within_deadline(self.buckets.version(&self.http, &access, chart, deployed, since)).await
    }

    pub async fn bucket_archive(
        &self,
        access: &Access,
        chart: &BucketChart,
        version: &ChartVersion,
    ) -> Result<helmops_chart::PackedListedChart, BucketError> {
        let access = Arc::new(access.clone());
        within_deadline(self.buckets.archive(&self.http, &access, chart, version, 1 << 20)).await
    }

    fn sources(&self) -> Sources<'_> {
        Sources {
            http: &self.http,
            repositories: &self.repositories,
            registries: &self.registries,
        }
    }

    /// The version of a chart in an artifact, and its archive.
    pub async fn artifact_version(
        &self,
        access: &Access,
        chart: &ArtifactChart,
        deployed: DeployedChart<'_>,
    ) -> Result<ChartVersion, ArtifactError> {
        let version = self
            .artifacts
            .version(self.sources(), access, chart, deployed, Instant::now());
        within_deadline(version).await
    }

    pub async fn artifact_archive(
        &self,
        access: &Access,
        chart: &ArtifactChart,
        version: &ChartVersion,
    ) -> Result<helmops_chart::PackedListedChart, ArtifactError> {
        let sources = self.sources();
        within_deadline(
            self.artifacts
                .archive(sources, access, chart, version, ARCHIVE_LIMIT),
        )
        .await
    }

    /// The version of a chart in a Git repository, and its archive.
    pub async fn git_version(
        &self,
        access: &Access,
        chart: &GitChart,
        deployed: DeployedChart<'_>,
    ) -> Result<ChartVersion, GitError> {
        let since = Instant::now();
        within_deadline(self.git.version(&self.http, access, chart, deployed, since)).await
    }

    pub async fn git_archive(
        &self,
        access: &Access,
        chart: &GitChart,
        version: &ChartVersion,
    ) -> Result<helmops_git::chart::PackedChart, GitError> {
        within_deadline(self.git.archive(&self.http, access, chart, version, 1 << 20)).await
    }

    /// Polls for a chart in a Git repository, with a fresh request.
    pub async fn git(
        &self,
        access: &Access,
        chart: &GitChart,
        known: Option<KnownChart<'_>>,
    ) -> Result<GitPoll, GitError> {
        let query = GitQuery {
            known,
            since: Instant::now(),
            archive: 1 << 20,
        };
        self.git_query(access, chart, query).await
    }

    /// Polls for a chart in a Git repository.
    pub async fn git_query(
        &self,
        access: &Access,
        chart: &GitChart,
        query: GitQuery<'_>,
    ) -> Result<GitPoll, GitError> {
        within_deadline(self.git.poll(&self.http, access, chart, query)).await
    }

    /// Repeats the resolution until it succeeds: a failed host backs off for a while.
    pub async fn repository_until_success(&self, access: &Access, repo: &str) -> ChartVersion {
        let resolutions = async {
            loop {
                if let Ok(found) = self.repository(access, repo).await {
                    return found;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        within_deadline(resolutions).await
    }

    /// The value of a series, such as `helmops_fetch_requests_total{kind="index",reason="",result="success"}`.
    pub fn metric(&self, series: &str) -> u64 {
        let text = TextEncoder::new()
            .encode_to_string(&self.metrics.gather())
            .unwrap();
        let value = text
            .lines()
            .find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        value
            .unwrap_or_else(|| panic!("no {series} in\n{text}"))
            .parse()
            .unwrap()
    }

    /// How many requests of a kind had this result, or failed for this reason.
    pub fn requests(&self, kind: &str, outcome: &str) -> u64 {
        let is_reason = outcome.starts_with(char::is_uppercase);
        let (reason, result) = if is_reason {
            (outcome, "error")
        } else {
            ("", outcome)
        };
        self.metric(&format!(
            "helmops_fetch_requests_total{{kind=\"{kind}\",reason=\"{reason}\",result=\"{result}\"}}"
        ))
    }

    /// How many bytes were received in responses of a kind.
    pub fn bytes(&self, kind: &str) -> u64 {
        self.metric(&format!("helmops_fetch_received_bytes_total{{kind=\"{kind}\"}}"))
    }

    /// No request is in flight, and each one has been counted and timed.
    #[track_caller]
    pub fn assert_idle(&self, requests: u64) {
        assert_eq!(self.metric("helmops_fetch_in_flight"), 0);
        let timed = [
            "index",
            "tags",
            "manifest",
            "token",
            "archive",
            "references",
            "pack",
            "listing",
            "object",
        ]
        .map(|kind| {
            self.metric(&format!(
                "helmops_fetch_duration_seconds_count{{kind=\"{kind}\"}}"
            ))
        });
        assert_eq!(timed.iter().sum::<u64>(), requests);
        let text = TextEncoder::new()
            .encode_to_string(&self.metrics.gather())
            .unwrap();
        let lines = text
            .lines()
            .filter_map(|line| line.strip_prefix("helmops_fetch_requests_total{"));
        let counted = lines.map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap());
        assert_eq!(counted.sum::<u64>(), requests, "{text}");
    }
}

/// Allows the servers of tests, which listen on loopback addresses.
pub fn allow_loopback() -> Addresses {
    Addresses {
        allow: ["127.0.0.0/8", "::1/128"]
            .map(|range| range.parse().unwrap())
            .to_vec(),
        deny: Vec::new(),
    }
}

/// Waits for a future that completes long before the deadline.
pub async fn within_deadline<T>(work: impl Future<Output = T>) -> T {
    // On the heap, because some futures are large.
    timeout(2 * DEADLINE, Box::pin(work))
        .await
        .expect("the future does not complete before the deadline")
}

/// Access without credentials.
pub fn anonymous() -> Access {
    Access::default()
}

/// The same access, for HelmOps of a namespace.
pub fn in_namespace(namespace: &str, access: Access) -> Access {
    Access {
        namespace: namespace.into(),
        ..access
    }
}

/// A login for a server.
pub fn login(server: &Server, username: &str) -> Access {
    login_at(&server.url(), username)
}

/// A login for an origin.
pub fn login_at(repo: &str, username: &str) -> Access {
    Access {
        login: Some(Login {
            username: username.to_owned(),
            password: PASSWORD.to_owned(),
        }),
        origin: access::repository_origin(repo, false),
        secret: "access".to_owned(),
        ..Access::default()
    }
}

/// The value of `Authorization` for a login here.
pub fn basic(username: &str) -> String {
    let access = login_at("http://h", username);
    let value = access.login.unwrap().basic();
    value.to_str().unwrap().to_owned()
}

/// The same access, with a trusted CA.
pub fn trusting(access: Access, ca: &Ca) -> Access {
    let tls = TlsConfig {
        ca_certificates: vec![(ca.pem.clone().into_bytes(), "key cacerts of the Secret")],
        ..TlsConfig::default()
    };
    Access {
        connection: Connection {
            tls: Arc::new(tls),
            proxy: None,
        },
        ..access
    }
}

/// The same access, with `basicHTTP`.
pub fn over_plain_http(access: Access) -> Access {
    Access {
        plain_http: true,
        ..access
    }
}

/// The reference of the chart in a registry.
pub fn reference(server: &Server) -> String {
    format!("oci://{}/{CHART}", server.host())
}

/// Asserts the reason, the retry and the message of a failed resolution.
#[track_caller]
pub fn assert_fails(outcome: ResolveResult, reason: Reason, class: Class, expected: &[&str]) -> ResolveError {
    let Err(error) = outcome else {
        panic!("the resolution succeeds: {outcome:?}")
    };
    let message = error.to_string();
    let retry = |class: Class| (class.backoff_policy(), class.is_transient());
    assert_eq!(error.reason(), reason, "{message}");
    assert_eq!(retry(error.class()), retry(class), "{message}");
    for word in expected {
        assert!(message.contains(word), "{word:?} is missing in: {message}");
    }
    assert!(!format!("{message}{error:?}").contains(PASSWORD), "{message}");
    // It is copied into conditions and events.
    assert!(message.len() < 1024, "{message}");
    error
}

/// The error of the request.
pub fn fetch_error_kind(error: &ResolveError) -> &FetchErrorKind {
    match error {
        ResolveError::Repository(RepositoryError::Fetch(error))
        | ResolveError::Registry(RegistryError::Fetch(error)) => &error.kind,
        other => panic!("{other}"),
    }
}

/// The resolved version.
#[track_caller]
pub fn version(outcome: ResolveResult) -> String {
    outcome.unwrap().version
}
