//! The charts of a HelmOp, and which versions it requests of them.

use helmops_api::{Bundle, HelmOp};
use helmops_core::{
    admit::ValidHelmOp,
    bundle::{RequestedChart, RequestedCharts},
};
use helmops_fetch::ResolveError;
use helmops_git::GIT_PREFIX;
use helmops_model::{
    chart::{resolved::ChartVersion, source::ChartSource, url},
    reason::Reason,
};
use helmops_runtime::error_class::ClassifiedError;
use serde::Serialize;

use super::{fetcher::FetchFailure, subject::Origin};
use crate::{failure::Failure, terminal::table::one_line};

/// Which chart, and who requests it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ChartId {
    /// URL of the repository, or of the chart in a registry, without credentials.
    pub repo: String,
    /// Name of the chart, or its folder in a Git repository; empty in a registry, and for the top of a Git repository.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub chart: String,
    /// The requested version or range, or the reference in a Git repository; empty for the latest release.
    pub requested: String,
    /// The fields that request it, such as `spec.helm`; empty if there is no HelmOp.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<String>,
}

/// A version, with its digest and URL.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Version {
    /// The version, as listed.
    pub version: String,
    /// Digest of its archive or manifest; empty if unknown.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub digest: String,
    /// URL of its archive or manifest, or of its Git repository with the commit at its end; empty if unknown.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub url: String,
}

impl Version {
    /// Whether its chart is packed from files: of a Git repository or a bucket.
    pub fn is_packed(&self) -> bool {
        matches!(ChartSource::of(&self.url, ""), ChartSource::Packed { .. })
    }

    /// The commit, if it is a version of a Git repository.
    pub fn commit(&self) -> Option<&str> {
        commit_of(&self.url)
    }
}

/// The commit in the URL of a recorded version, if that is one of a Git repository.
pub fn commit_of(url: &str) -> Option<&str> {
    // The name of an object in a bucket may have the character, too.
    let (_, commit) = url
        .rsplit_once('#')
        .filter(|(repo, _)| repo.starts_with(GIT_PREFIX))?;
    Some(commit)
}

impl From<&ChartVersion> for Version {
    fn from(version: &ChartVersion) -> Self {
        Self {
            version: version.version.clone(),
            digest: version.digest.clone(),
            url: version.url.clone(),
        }
    }
}

/// Why something failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    /// The reason, as in conditions.
    pub reason: &'static str,
    pub message: String,
}

impl From<&ResolveError> for Problem {
    fn from(error: &ResolveError) -> Self {
        Self {
            reason: error.reason().as_str(),
            message: error.to_string(),
        }
    }
}

impl From<&FetchFailure> for Problem {
    fn from(failure: &FetchFailure) -> Self {
        match failure {
            FetchFailure::Resolve(error) => (&**error).into(),
            FetchFailure::Timeout(_) => Self {
                reason: Reason::Timeout.as_str(),
                message: failure.to_string(),
            },
        }
    }
}

impl ChartId {
    /// The chart of one or more requests of a HelmOp.
    pub fn of(
        chart: &RequestedChart<'_, '_>,
        charts: &RequestedCharts<'_, '_>,
        valid: &ValidHelmOp<'_>,
        origin: Origin,
    ) -> Self {
        let is =
            |other: Option<&RequestedChart<'_, '_>>| other.is_some_and(|other| other.lookup == chart.lookup);
        let packed = chart.request.packed.as_ref();
        let main = is(charts.main()).then(|| match packed {
            Some(packed) => format!("spec.chartSource.{}", packed.source.field()),
            None => "spec.helm".to_owned(),
        });
        let fields = (0..valid.targets.len())
            .filter(|&target| packed.is_none() && is(charts.of_target(target)))
            .map(|target| format!("spec.targets[{target}].helm"));
        Self {
            repo: packed.map_or_else(|| url::redacted(chart.request.repo), |packed| packed.repo.clone()),
            chart: chart.lookup.chart.clone(),
            requested: chart.lookup.constraint.clone(),
            fields: match origin {
                Origin::Cluster | Origin::File => main.into_iter().chain(fields).collect(),
                Origin::Flags => Vec::new(),
            },
        }
    }

    /// The chart and where it is.
    pub fn place(&self) -> String {
        if self.chart.is_empty() {
            self.repo.clone()
        } else {
            format!("{} of {}", self.chart, self.repo)
        }
    }

    /// The name of the chart: in a registry the last part of the reference, in a Git repository its folder.
    pub fn name(&self) -> &str {
        if self.chart.is_empty() {
            self.repo.rsplit('/').next().unwrap_or_default()
        } else {
            &self.chart
        }
    }

    /// The chart and a version, for scripts.
    pub fn with_version(&self, version: &str) -> String {
        let chart = if self.chart.is_empty() {
            &self.repo
        } else {
            &self.chart
        };
        one_line(&format!("{chart}:{version}"))
    }

    pub fn requested(&self) -> String {
        let range = if self.requested.is_empty() {
            "the latest release".to_owned()
        } else {
            self.requested.clone()
        };
        match self.fields.as_slice() {
            [] => range,
            [one] => format!("{range} ({one})"),
            [one, others @ ..] => format!("{range} ({one} and {} more)", others.len()),
        }
    }
}

/// The archives that a HelmOp names by URL, which have no versions.
pub fn archives(valid: &ValidHelmOp<'_>) -> Vec<String> {
    let requests = std::iter::once(&valid.chart).chain(valid.targets.iter().flatten());
    let mut archives: Vec<_> = requests
        .filter_map(|request| match request.source() {
            ChartSource::Archive { url } => Some(url::redacted(url)),
            ChartSource::Oci { .. } | ChartSource::Repository { .. } | ChartSource::Packed { .. } => None,
        })
        .collect();
    archives.sort();
    archives.dedup();
    archives
}

/// The version that the Bundle has for the chart of `spec.helm`.
pub fn current(bundle: Option<&Bundle>) -> Option<&str> {
    let helm = bundle?.spec.options.helm.as_ref()?;
    Some(helm.version.as_str()).filter(|version| !version.is_empty())
}

/// The failure for a chart of which no version is selected.
pub fn not_selected(error: &ResolveError) -> Failure {
    Failure::negative(one_line(&error.to_string())).with_hint(explain(error.reason()))
}

/// The failure for a chart whose versions could not be determined, with what a person can do next.
pub fn failure(error: &FetchFailure, origin: Origin, helmop: &HelmOp) -> Failure {
    let own_view = || {
        match (origin, &helmop.metadata.name, &helmop.metadata.namespace) {
        (Origin::Cluster, Some(name), Some(namespace)) => {
            format!("the controller may have other network access; its own result: kubectl helmop status {name} -n {namespace}")
        }
        _ => "check the network and the proxy (HTTPS_PROXY, NO_PROXY) of this machine; the controller may have other network access".to_owned(),
    }
    };
    let error = match error {
        FetchFailure::Resolve(error) => &**error,
        FetchFailure::Timeout(_) => {
            return Failure::unable(format!("requested from this machine: {error}")).with_hint(own_view());
        }
    };
    let (message, reason) = (one_line(&error.to_string()), error.reason());
    match error {
        ResolveError::Secret(_) => Failure::unable(message).with_hint(explain(reason)),
        ResolveError::Packed(error) if error.is_of_secret() => {
            Failure::unable(message).with_hint(explain(reason))
        }
        // The source was read: it has no such commit, or no such chart.
        ResolveError::Packed(cause) if cause.is_of_selection() => not_selected(error),
        error if error.is_of_selection() => not_selected(error),
        _ => {
            let hint = match reason {
                _ if message.contains("--allow-cidrs") => {
                    "this command has the flag --allow-cidrs too".to_owned()
                }
                Reason::DNSLookupFailed
                | Reason::ConnectionFailed
                | Reason::Timeout
                | Reason::CertificateError => own_view(),
                reason => explain(reason),
            };
            Failure::unable(format!("requested from this machine: {message}")).with_hint(hint)
        }
    }
}

/// The command that explains a reason.
fn explain(reason: Reason) -> String {
    format!("what it means: kubectl helmop explain {}", reason.as_str())
}
