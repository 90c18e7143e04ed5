//! The archive of a chart, fetched as the agent fetches it.

use std::{
    fs::File,
    io::{BufReader, BufWriter, Write},
    path::Path,
    time::Instant,
};

use helm_archive::{ArchiveError, Chart, Limits, check};
use helmops_api::{Bundle, HelmOp, HelmOptions};
use helmops_core::{bundle::RequestedCharts, policy::Policies};
use helmops_fetch::{
    AccessSource, Addresses, ChartDownload, FetchMetrics, MAX_ARCHIVE, MemoryBounds, OWN_CA_BUNDLE,
    ResolutionMetrics, ResolveContext, Resolver, ca_bundle,
};
use helmops_model::chart::source::ChartSource;
use kube::Client;
use tempfile::NamedTempFile;

use crate::{
    charts::{fetcher::no_interest, subject::ca_certificates},
    failure::{Failure, causes},
};

/// What one command may use of the memory. An index of 50 MB is read in a part of it.
const MEMORY: usize = 512 << 20;

/// The resolver of one command, with its metrics. A person may reach every address.
///
/// # Errors
/// If the operating system refuses a resource.
pub fn resolver() -> Result<(Resolver, ResolutionMetrics), Failure> {
    let registry = prometheus::Registry::new();
    let unable = |error: &dyn std::error::Error| Failure::because("cannot read repositories", error);
    let fetches = FetchMetrics::register(&registry).map_err(|error| unable(&error))?;
    let metrics = ResolutionMetrics::register(&registry).map_err(|error| unable(&error))?;
    let allow = ["0.0.0.0/0", "::/0"].iter().filter_map(|all| all.parse().ok());
    let addresses = Addresses {
        allow: allow.collect(),
        deny: Vec::new(),
    };
    let bounds = MemoryBounds::of(MEMORY, None);
    let resolver = Resolver::new(&bounds, addresses, fetches).map_err(|error| unable(&error))?;
    Ok((resolver, metrics))
}

/// The credentials for a repository.
#[derive(Clone, Copy, Debug)]
pub struct ChartAccess<'a> {
    /// The namespace of the Secret.
    pub namespace: &'a str,
    /// Its name; empty for none.
    pub secret: &'a str,
    /// Do not verify certificates.
    pub insecure_skip_tls_verify: bool,
    /// Certificates to trust, PEM in base64; empty for none.
    pub ca_bundle: &'a str,
}

impl<'a> ChartAccess<'a> {
    /// The access of a HelmOp, in its namespace.
    pub fn of(helmop: &'a HelmOp, namespace: &'a str) -> Self {
        let spec = &helmop.spec;
        Self {
            namespace,
            secret: &spec.helm_secret_name,
            insecure_skip_tls_verify: spec.insecure_skip_tls_verify,
            ca_bundle: &spec.ca_bundle,
        }
    }
}

/// Fetches the archive of an exact version.
///
/// # Errors
/// If it cannot be fetched.
pub async fn fetch(
    client: &Client,
    helm: &HelmOptions,
    access: ChartAccess<'_>,
) -> Result<NamedTempFile, Failure> {
    let attempt = format!(
        "cannot fetch chart {} {} from {}",
        helm.chart, helm.version, helm.repo
    );
    let unable = |error: &dyn std::error::Error| {
        Failure::unable(format!("{attempt}: {}", causes(error))).with_hint(
            "check --repo, --chart, --version and --secret; see what there is with: kubectl helmop versions",
        )
    };
    let (resolver, _) = resolver()?;
    let file = NamedTempFile::new().map_err(|error| unable(&error))?;
    let output = BufWriter::new(file.reopen().map_err(|error| unable(&error))?);
    let source = AccessSource {
        namespace: access.namespace,
        charged_to: access.namespace,
        secret: access.secret,
        insecure_skip_tls_verify: access.insecure_skip_tls_verify,
        ca_certificates: &ca_bundle(access.ca_bundle, OWN_CA_BUNDLE),
    };
    let chart = ChartDownload {
        source: ChartSource::of(&helm.repo, &helm.chart),
        version: &helm.version,
        is_resolved: false,
        expected_digest: "",
        limit: MAX_ARCHIVE,
    };
    let interest = |_: &str, _: Option<&str>| std::iter::once(helm.chart.clone()).collect();
    let downloaded = resolver.download(client, source, &interest, chart, output).await;
    let mut output = downloaded.map_err(|error| unable(&error))?.output;
    output.flush().map_err(|error| unable(&error))?;
    Ok(file)
}

/// Fetches the chart of an exact version of a HelmOp: from its Git repository or bucket, if it is in one.
///
/// # Errors
/// If it cannot be fetched, or the repository has another version by now.
pub async fn fetch_of(
    client: &Client,
    helmop: &HelmOp,
    bundle: Option<&Bundle>,
    helm: &HelmOptions,
    access: ChartAccess<'_>,
) -> Result<NamedTempFile, Failure> {
    if helmop.spec.packed().is_none() {
        return fetch(client, helm, access).await;
    }
    let name = helmop.metadata.name.as_deref().unwrap_or_default();
    let attempt = format!(
        "cannot fetch version {} of the chart of HelmOp {name}",
        helm.version
    );
    if helmop.spec.has_manifests() {
        let text = format!(
            "the files of HelmOp {name} are manifests (spec.chartSource.manifests), of which the agent makes a chart: it cannot be rendered here"
        );
        return Err(
            Failure::unable(text).with_hint("leave --manifests out, which compares options and values")
        );
    }
    let unable = |error: &dyn std::error::Error| Failure::unable(format!("{attempt}: {}", causes(error)));
    let policies = Policies::default();
    let valid = policies
        .accept(helmop)
        .map_err(|errors| Failure::unable(format!("{attempt}: {errors}")))?;
    let (resolver, metrics) = resolver()?;
    let context = ResolveContext {
        client,
        metrics: &metrics,
        ca_certificates: &ca_certificates(bundle, &helmop.spec.ca_bundle),
        interest: &no_interest,
        since: Instant::now(),
    };
    let mut charts = resolver.chart_resolver(context, helmop, &valid.chart);
    let requested = RequestedCharts::of(&valid, bundle);
    let recorded = requested.main().and_then(|main| main.version.clone());
    let version = match recorded.filter(|recorded| recorded.version == helm.version) {
        Some(recorded) => recorded,
        None => charts
            .resolve(&valid.chart)
            .await
            .map_err(|error| unable(&error))?,
    };
    if version.version != helm.version {
        return Err(Failure::unable(format!(
            "{attempt}: the version that is requested now is {}; run the command again",
            version.version
        )));
    }
    let file = NamedTempFile::new().map_err(|error| unable(&error))?;
    let output = BufWriter::new(file.reopen().map_err(|error| unable(&error))?);
    let downloaded = charts.download(&valid.chart, &version, MAX_ARCHIVE, output).await;
    let mut output = downloaded.map_err(|error| unable(&error))?.output;
    output.flush().map_err(|error| unable(&error))?;
    Ok(file)
}

/// Checks an archive, and reads which chart it has.
///
/// # Errors
/// If it cannot be read, or has something that no chart needs.
pub fn chart_in(path: &Path) -> Result<Chart, ArchiveError> {
    let file = File::open(path).map_err(ArchiveError::Input)?;
    check(BufReader::new(file), Limits::default())
}
