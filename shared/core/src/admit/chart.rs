//! The charts that `spec.helm` and the targets request.

use go_formats::regexp::compile;
use helm_index::{VersionFilter, VersionRequest};
use helmops_api::{HelmOpSpec, HelmOptions};
use helmops_model::{
    chart::{
        delivery::Delivery,
        registry::{query::query, reference::Reference},
        request::{ChartRequest, OnDigestChange, or_inherited},
        source::{self, ChartSource, SourceError},
        url::{self, Url},
    },
    reason::Reason,
    validation::{FieldErrors, Path},
};

/// Maximum size of a compiled filter, in bytes.
const MAX_FILTER: usize = 64 << 10;

/// Checks the chart of the HelmOp itself.
pub fn check<'a>(
    errors: &mut FieldErrors,
    path: &Path<'_>,
    helm: &'a HelmOptions,
) -> Option<ChartRequest<'a>> {
    let fields = ChartFields::of(helm);
    let has_name = check_name(errors, path, fields.chart);
    let mut form_errors = fields.form_errors();
    if !has_name {
        // The error about the name explains which field to set.
        form_errors.retain(|error| *error != SourceError::NoRepo);
    }
    for error in &form_errors {
        push_error(errors, path, helm, describe(*error, fields.chart));
    }
    check_url(errors, path, fields.source());
    let version = check_version(errors, path, fields.source(), fields.version)?;
    check_tag(errors, path, fields.source(), &version);
    (has_name && form_errors.is_empty()).then_some(fields.request(version))
}

/// Checks the filter of versions. An exact version needs none.
pub fn check_filter(errors: &mut FieldErrors, path: &Path<'_>, text: &str) -> Option<VersionFilter> {
    if text.is_empty() {
        return None;
    }
    match compile(text, MAX_FILTER) {
        Ok(expression) => Some(VersionFilter {
            text: text.into(),
            expression,
        }),
        Err(error) => {
            errors.invalid(path, Reason::InvalidVersion, text, error.to_string());
            None
        }
    }
}

/// Checks what happens when a version is published again.
pub fn check_digest_policy(errors: &mut FieldErrors, path: &Path<'_>, text: &str) -> Option<OnDigestChange> {
    let policy = OnDigestChange::parse(text);
    if policy.is_none() && !text.is_empty() {
        let detail = "expected Hold or Follow; Hold keeps the chart that is deployed, Follow releases what was published again";
        errors.invalid(path, Reason::InvalidVersion, text, detail);
    }
    policy
}

/// Checks how the charts get to the clusters. An archive at a URL has no version, so its content is not recorded.
pub fn check_delivery<'r>(
    errors: &mut FieldErrors,
    chart_source: &Path<'_>,
    spec: &HelmOpSpec,
    mut charts: impl Iterator<Item = &'r ChartRequest<'r>>,
) -> Delivery {
    let (path, text) = (chart_source.field("deliver"), spec.deliver());
    if spec.packed().is_some() && matches!(text, "" | "Content") {
        return Delivery::Content;
    }
    let Some(delivery) = Delivery::parse(text) else {
        let detail = "expected Direct or Content; with Direct agents download the chart, with Content they read it from the management cluster";
        errors.invalid(&path, Reason::InvalidDelivery, text, detail);
        return Delivery::default();
    };
    if spec.packed().is_some() {
        let detail = "only the controller reads the source of this chart, so agents cannot fetch it; use Content, or remove deliver";
        errors.invalid(&path, Reason::InvalidDelivery, text, detail);
    }
    let is_archive = |chart: &ChartRequest<'_>| matches!(chart.source(), ChartSource::Archive { .. });
    if delivery == Delivery::Content
        && let Some(archive) = charts.find(|chart| is_archive(chart))
    {
        let detail = format!(
            "the archive {} has no version that could be recorded; name the chart in a repository or registry (helm.repo), or use Direct",
            url::redacted(archive.chart)
        );
        errors.invalid(&path, Reason::InvalidDelivery, text, detail);
    }
    delivery
}

/// Checks the chart of a target's own `helm` block, including what it inherits from `main`.
///
/// A block that sets none of repository, chart and version adds nothing to check. A block with its own OCI repository
/// cannot clear the inherited chart, and need not: the chart is ignored then.
pub fn check_target<'a>(
    errors: &mut FieldErrors,
    path: &Path<'_>,
    main: &'a HelmOptions,
    own: &'a HelmOptions,
) -> Option<ChartRequest<'a>> {
    let fields = ChartFields::of(own).inheriting(ChartFields::of(main));
    let mut form_errors = Vec::new();
    if ChartFields::of(own) != ChartFields::default() {
        form_errors = fields.form_errors();
        form_errors.retain(|error| *error != SourceError::OciWithChart);
    }
    for error in &form_errors {
        push_error(errors, path, own, describe_for_target(*error, own));
    }
    let has_name = check_name(errors, path, &own.chart);
    if !own.repo.is_empty() || !own.chart.is_empty() {
        check_url(errors, path, fields.source());
    }
    let version = if own.version.is_empty() {
        // An invalid one is reported at spec.helm.version.
        VersionRequest::parse(fields.version).ok()?
    } else {
        check_version(errors, path, fields.source(), fields.version)?
    };
    if ChartFields::of(own) != ChartFields::default() {
        check_tag(errors, path, fields.source(), &version);
    }
    (has_name && form_errors.is_empty()).then_some(fields.request(version))
}

/// Rejects chart names in the forms that only Helm's command line accepts: no index has such an entry. Returns whether the
/// name is valid or empty.
fn check_name(errors: &mut FieldErrors, path: &Path<'_>, chart: &str) -> bool {
    if source::is_archive(chart) {
        // This is a URL.
        return true;
    }
    let path = path.field("chart");
    let problem = if chart.trim() != chart {
        "begins or ends with whitespace; remove it"
    } else if source::is_oci(chart) {
        "a chart in an OCI registry is named in repo; move the reference there and remove chart"
    } else if ["./", "../", "/", "~"]
        .iter()
        .any(|start| chart.starts_with(start))
        || chart == "."
    {
        "is a path on your machine; push the chart to a Helm repository or an OCI registry, and name it there"
    } else {
        return true;
    };
    errors.invalid(&path, Reason::InvalidChartName, &url::redacted(chart), problem);
    false
}

/// The three fields that name a chart and its versions.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct ChartFields<'a> {
    repo: &'a str,
    chart: &'a str,
    version: &'a str,
}

impl<'a> ChartFields<'a> {
    fn of(helm: &'a HelmOptions) -> Self {
        let (repo, chart, version) = (&*helm.repo, &*helm.chart, &*helm.version);
        Self { repo, chart, version }
    }

    /// Empty fields are inherited from `main`.
    fn inheriting(self, main: Self) -> Self {
        Self {
            repo: or_inherited(self.repo, main.repo),
            chart: or_inherited(self.chart, main.chart),
            version: or_inherited(self.version, main.version),
        }
    }

    fn source(self) -> ChartSource<'a> {
        ChartSource::of(self.repo, self.chart)
    }

    fn form_errors(self) -> Vec<SourceError> {
        ChartSource::errors(self.repo, self.chart, self.version)
    }

    fn request(self, version: VersionRequest<'a>) -> ChartRequest<'a> {
        let Self { repo, chart, .. } = self;
        ChartRequest {
            repo,
            chart,
            packed: None,
            version,
            on_digest_change: None,
        }
    }
}

/// An invalid field of the `helm` block, the reason, and what to do.
#[derive(Clone, Copy)]
struct HelmFieldError {
    field: &'static str,
    reason: Reason,
    detail: &'static str,
}

fn push_error(errors: &mut FieldErrors, path: &Path<'_>, helm: &HelmOptions, error: HelmFieldError) {
    let HelmFieldError {
        field,
        reason,
        detail,
    } = error;
    let offending = match field {
        "repo" => &helm.repo,
        "chart" => &helm.chart,
        _ => &helm.version,
    };
    let path = path.field(field);
    if offending.is_empty() {
        errors.required(&path, reason, detail);
    } else {
        errors.forbidden(&path, reason, &url::redacted(offending), detail);
    }
}

/// The error for `spec.helm`. The words in parentheses are those of Fleet's own controller, so that a search finds them.
fn describe(error: SourceError, chart: &str) -> HelmFieldError {
    let (field, reason, detail) = match error {
        SourceError::ArchiveWithRepo => (
            "repo",
            Reason::RepoForbidden,
            "spec.helm.chart is the URL of a chart archive already (tarball chart with a non-empty repo field); remove repo, or give the chart's name instead of an archive",
        ),
        SourceError::ArchiveWithVersion => (
            "version",
            Reason::VersionForbidden,
            "a chart archive has no versions to choose from (tarball chart with a non-empty version field); remove version",
        ),
        SourceError::OciWithChart => (
            "chart",
            Reason::ChartForbidden,
            "spec.helm.repo names the chart in the registry already (OCI repository with a non-empty chart field); remove chart, and append it to repo if it is missing there",
        ),
        SourceError::NoChart => (
            "chart",
            Reason::ChartRequired,
            "a Helm repository needs the name of a chart (non-OCI repository with an empty chart field); for a chart in an OCI registry let repo begin with oci://",
        ),
        SourceError::NoRepo if source::is_alias(chart) => (
            "repo",
            Reason::RepoRequired,
            "a chart that is not an archive (.tgz) needs the URL of its repository (non-tarball chart with an empty repo field); \
             repository names, as for helm install, are known only on your machine: set the URL that helm repo list shows, \
             and the chart without the name of the repository",
        ),
        SourceError::NoRepo => (
            "repo",
            Reason::RepoRequired,
            "a chart that is not an archive (.tgz) needs the URL of its repository (non-tarball chart with an empty repo field)",
        ),
    };
    HelmFieldError {
        field,
        reason,
        detail,
    }
}

/// The error for the block of a target, which cannot clear what it inherits.
fn describe_for_target(error: SourceError, own: &HelmOptions) -> HelmFieldError {
    let (field, reason, detail) = match error {
        SourceError::ArchiveWithRepo if own.chart.is_empty() => (
            "repo",
            Reason::RepoForbidden,
            "this target inherits the chart archive of spec.helm.chart, so it cannot name a repository; name the chart too",
        ),
        SourceError::ArchiveWithRepo => (
            "chart",
            Reason::RepoForbidden,
            "a chart archive names its own URL, but a repository is set here or inherited from spec.helm.repo, which a target cannot clear; create a separate HelmOp",
        ),
        SourceError::ArchiveWithVersion => (
            "version",
            Reason::VersionForbidden,
            "a chart archive has no versions to choose from, but one is set here or inherited from spec.helm.version, which a target cannot clear; create a separate HelmOp",
        ),
        SourceError::NoChart => (
            "chart",
            Reason::ChartRequired,
            "a Helm repository needs the name of a chart, here or in spec.helm.chart",
        ),
        SourceError::NoRepo => (
            "repo",
            Reason::RepoRequired,
            "a chart that is not an archive (.tgz) needs a repository, here or in spec.helm.repo",
        ),
        SourceError::OciWithChart => return describe(error, &own.chart),
    };
    HelmFieldError {
        field,
        reason,
        detail,
    }
}

fn check_url(errors: &mut FieldErrors, path: &Path<'_>, source: ChartSource<'_>) {
    let (field, text, problem) = match source {
        ChartSource::Archive { url } => ("chart", url, url_problem(url, &["https", "http", "oci"])),
        ChartSource::Oci { repo } => ("repo", repo, url_problem(repo, &["oci"])),
        ChartSource::Repository { repo, .. } | ChartSource::Packed { repo, .. } => {
            ("repo", repo, url_problem(repo, &["https", "http"]))
        }
    };
    let Some(detail) = problem else {
        return;
    };
    errors.invalid(
        &path.field(field),
        Reason::InvalidURL,
        &url::redacted(text),
        detail,
    );
}

/// What is wrong with a URL. An empty one is reported as another error.
fn url_problem(text: &str, schemes: &[&str]) -> Option<String> {
    const GIT: &str = "the address of a Git repository; name it in spec.chartSource.git.url, and the folder of the chart in \
                       spec.chartSource.git.path, in place of repo, chart and version";
    match Url::parse(text) {
        _ if text.is_empty() => None,
        _ if text.trim() != text => Some("begins or ends with whitespace; remove it".to_owned()),
        _ if url::is_git(text) => Some(GIT.to_owned()),
        Err(error) => Some(error.to_string()),
        Ok(url) if url.path.ends_with("/index.yaml") => Some(
            "the URL of a repository ends before index.yaml, which is added to it; remove /index.yaml"
                .to_owned(),
        ),
        Ok(url) if !schemes.iter().any(|scheme| url.has_scheme(scheme)) => Some(format!(
            "scheme {:?} is not supported; charts come from https://, http:// or oci://",
            url.scheme
        )),
        Ok(url) if url.has_scheme("oci") => Reference::parse(text).err().map(|error| error.to_string()),
        Ok(_) => None,
    }
}

/// A tag or digest in a registry reference must not contradict the version.
fn check_tag(
    errors: &mut FieldErrors,
    path: &Path<'_>,
    source: ChartSource<'_>,
    version: &VersionRequest<'_>,
) {
    let ChartSource::Oci { repo } = source else {
        return;
    };
    // An invalid reference is reported by `check_url`.
    let Ok(reference) = Reference::parse(repo) else {
        return;
    };
    if let Err(error) = query(&reference, version) {
        errors.invalid(
            &path.field("repo"),
            Reason::InvalidVersion,
            &url::redacted(repo),
            error.to_string(),
        );
    }
}

/// `None` if the version is invalid. The version of an archive is never read.
fn check_version<'a>(
    errors: &mut FieldErrors,
    path: &Path<'_>,
    source: ChartSource<'_>,
    text: &'a str,
) -> Option<VersionRequest<'a>> {
    match VersionRequest::parse(text) {
        Ok(version) if !version.constraint().is_satisfiable() => {
            let problem = "no version can satisfy this range: its conditions exclude each other; separate alternatives with ||";
            errors.invalid(&path.field("version"), Reason::InvalidVersion, text, problem);
            None
        }
        Ok(version) => Some(version),
        Err(_) if matches!(source, ChartSource::Archive { .. }) => None,
        Err(error) => {
            errors.invalid(
                &path.field("version"),
                Reason::InvalidVersion,
                text,
                error.to_string(),
            );
            None
        }
    }
}
