//! Asking repositories and registries as the controller does, and judging what comes of it.

use std::{
    fmt::Debug,
    sync::Arc,
    time::{Duration, Instant},
};

use helmops_shared::{
    chart::{index::ChartFilter, request::VersionRequest, resolved::ChartVersion},
    reason::Reason,
};
use prometheus::{Registry, TextEncoder};
use tokio::time::timeout;

use super::{
    answers::CHART,
    rig::{Ca, DEADLINE, Server},
};
use crate::{
    backoff::Pace,
    resolve::{
        ResolveError, SHARE_OF_READS,
        access::{self, Access, Login, TlsConfig},
        bounds::Bounds,
        budget::Budget,
        cache::Terms,
        choice::Choices,
        http::{Addresses, Fault, HttpClient, LeastRate, Limits, Timeouts},
        metrics::Fetches,
        oci::{Registries, RegistryError},
        repository::{LIMITS, Repositories, RepositoryError},
    },
};

/// The password of every login here. No message may hold it.
pub const PASSWORD: &str = "geheim";
/// The limit of the manifests.
const MEMORY: usize = 256 << 20;
/// Far above what any answer takes that is meant to come.
pub const PATIENT: Timeouts = Timeouts {
    connect: DEADLINE,
    read: DEADLINE,
    total: DEADLINE,
    rate: LeastRate {
        grace: DEADLINE,
        window: DEADLINE,
        bytes: 1,
    },
};

/// What came of a look-up.
pub type Outcome = Result<ChartVersion, ResolveError>;

/// The controller's way to repositories and registries.
#[derive(Debug)]
pub struct Asking {
    web: HttpClient,
    repositories: Repositories,
    registries: Registries,
    metrics: Registry,
    charts: ChartFilter,
}

impl Asking {
    /// With all the time in the world.
    pub fn new() -> Self {
        Self::within(PATIENT)
    }

    /// With these timeouts.
    pub fn within(timeouts: Timeouts) -> Self {
        Self::reading(LIMITS, timeouts)
    }

    /// With these limits to the size of an index, and timeouts.
    pub fn reading(limits: Limits, timeouts: Timeouts) -> Self {
        Self::connecting(&Bounds::of(MEMORY, None), limits, timeouts, near())
    }

    /// With so much memory for all that is read at a time.
    pub fn budgeted(reads: usize) -> Self {
        let bounds = Bounds::of(MEMORY, None);
        Self::bounded(&Bounds { reads, ..bounds })
    }

    /// With so much memory.
    pub fn bounded(bounds: &Bounds) -> Self {
        Self::connecting(bounds, LIMITS, PATIENT, near())
    }

    /// With these addresses alone, and the limits and timeouts of the rest.
    pub fn to(addresses: Addresses) -> Self {
        Self::connecting(&Bounds::of(MEMORY, None), LIMITS, PATIENT, addresses)
    }

    fn connecting(bounds: &Bounds, limits: Limits, timeouts: Timeouts, addresses: Addresses) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let metrics = Registry::new();
        let fetches = Fetches::register(&metrics).unwrap();
        let budget = Budget::new(bounds.reads, SHARE_OF_READS);
        let terms = Terms {
            // Tests count requests that follow each other at once.
            apart: Duration::ZERO,
            ..Terms::new(bounds).part(2)
        };
        let choices = Choices::default();
        Self {
            web: HttpClient::new(timeouts, addresses, fetches.clone()).unwrap(),
            repositories: Repositories::new(
                terms.clone(),
                limits,
                budget.clone(),
                choices.clone(),
                fetches.clone(),
            ),
            registries: Registries::new(&terms, budget, choices, fetches),
            metrics,
            charts: ChartFilter::new(),
        }
    }

    /// Other HelmOps want these charts of the same repository.
    pub fn beside(self, charts: &[&str]) -> Self {
        let charts = charts.iter().map(|chart| (*chart).to_owned()).collect();
        Self { charts, ..self }
    }

    /// The newest version of the chart in a repository, asked for just now.
    pub async fn repository(&self, access: &Access, repo: &str) -> Outcome {
        self.chart(access, (repo, CHART), Instant::now()).await
    }

    /// The newest version of a chart in a repository.
    pub async fn chart(&self, access: &Access, chart: (&str, &str), since: Instant) -> Outcome {
        let newest = VersionRequest::parse("").unwrap();
        let interest = |_: &str, namespace: Option<&str>| match namespace {
            None => self.charts.clone(),
            Some(_) => ChartFilter::new(),
        };
        let look_up = self
            .repositories
            .version(&self.web, access, &interest, chart, &newest, since);
        in_time(look_up).await.map_err(ResolveError::Repository)
    }

    /// A version of a chart in a registry, asked for just now.
    pub async fn registry(&self, access: &Access, repo: &str, version: &str) -> Outcome {
        self.registry_since(access, repo, version, Instant::now()).await
    }

    /// A version of a chart in a registry.
    pub async fn registry_since(
        &self,
        access: &Access,
        repo: &str,
        version: &str,
        since: Instant,
    ) -> Outcome {
        let version = VersionRequest::parse(version).unwrap();
        let look_up = self.registries.version(&self.web, access, repo, &version, since);
        in_time(look_up).await.map_err(ResolveError::Registry)
    }

    /// The same over and over until it succeeds: a host that was in trouble is spared for a while.
    pub async fn repository_in_the_end(&self, access: &Access, repo: &str) -> ChartVersion {
        let look_ups = async {
            loop {
                if let Ok(found) = self.repository(access, repo).await {
                    return found;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        in_time(look_ups).await
    }

    /// What Prometheus sees of a series, such as `helmops_fetch_requests_total{kind="index",outcome="success"}`.
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

    /// How many bytes answers of a kind had, on the wire.
    pub fn bytes(&self, kind: &str) -> u64 {
        self.metric(&format!("helmops_fetch_received_bytes_total{{kind=\"{kind}\"}}"))
    }

    /// No request is under way, and each that was has been counted and timed.
    #[track_caller]
    pub fn assert_idle(&self, requests: u64) {
        assert_eq!(self.metric("helmops_fetch_in_flight"), 0);
        let timed = ["index", "tags", "manifest", "token"].map(|kind| {
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

/// The servers of tests are on this machine.
pub fn near() -> Addresses {
    Addresses {
        allow: ["127.0.0.0/8", "::1/128"]
            .map(|range| range.parse().unwrap())
            .to_vec(),
        deny: Vec::new(),
    }
}

/// Waits for what should have come long before the deadline.
pub async fn in_time<T>(work: impl Future<Output = T>) -> T {
    // On the heap, since some of it is large.
    timeout(2 * DEADLINE, Box::pin(work))
        .await
        .expect("it takes for ever")
}

/// Nothing but what everybody may have.
pub fn anonymous() -> Access {
    Access::default()
}

/// The same access, for HelmOps of a namespace.
pub fn within(namespace: &str, access: Access) -> Access {
    Access {
        namespace: namespace.into(),
        ..access
    }
}

/// A login for a server.
pub fn login(server: &Server, username: &str) -> Access {
    login_at(&server.url(), username)
}

/// A login for a place.
pub fn login_at(home: &str, username: &str) -> Access {
    Access {
        login: Some(Login {
            username: username.to_owned(),
            password: PASSWORD.to_owned(),
        }),
        home: access::home(home, false),
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

/// The same access, trusting an authority.
pub fn trusting(access: Access, ca: &Ca) -> Access {
    let transport = TlsConfig {
        authorities: vec![(ca.pem.clone().into_bytes(), "key cacerts of the Secret")],
        ..TlsConfig::default()
    };
    Access {
        transport: Arc::new(transport),
        ..access
    }
}

/// The same access, with `basicHTTP`.
pub fn in_the_clear(access: Access) -> Access {
    Access {
        plain_http: true,
        ..access
    }
}

/// The reference of the chart in a registry.
pub fn reference(server: &Server) -> String {
    format!("oci://{}/{CHART}", server.host())
}

/// What a look-up must fail with, and what a person must read.
#[track_caller]
pub fn assert_fails(outcome: Outcome, reason: Reason, pace: Pace, words: &[&str]) -> ResolveError {
    let Err(error) = outcome else {
        panic!("it succeeds: {outcome:?}")
    };
    let message = error.to_string();
    assert_eq!(error.reason(), reason, "{message}");
    assert_eq!(error.pace(), Some(pace), "{message}");
    for word in words {
        assert!(message.contains(word), "{word:?} is not in: {message}");
    }
    assert!(!format!("{message}{error:?}").contains(PASSWORD), "{message}");
    // It goes into conditions and events.
    assert!(message.len() < 1024, "{message}");
    error
}

/// What was wrong with the request.
pub fn fault(error: &ResolveError) -> &Fault {
    match error {
        ResolveError::Repository(RepositoryError::Fetch(error))
        | ResolveError::Registry(RegistryError::Fetch(error)) => &error.fault,
        other => panic!("{other}"),
    }
}

/// The version that was found.
#[track_caller]
pub fn version(outcome: Outcome) -> String {
    outcome.unwrap().version
}
