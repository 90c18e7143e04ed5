//! The chart that is asked for, in `spec.helm` and in targets of their own mind.

use super::{error::FieldErrors, path::Path};
use crate::{
    api::HelmOptions,
    chart::{
        registry::{ask::ask, reference::Reference},
        request::{ChartRequest, VersionRequest, or_inherited},
        source::{self, ChartSource, FormError},
        url::{self, Url},
    },
    reason::Reason,
};

/// Checks the chart of the HelmOp itself.
pub fn check<'a>(
    errors: &mut FieldErrors,
    path: &Path<'_>,
    helm: &'a HelmOptions,
) -> Option<ChartRequest<'a>> {
    let asked = Asked::of(helm);
    let has_name = check_name(errors, path, asked.chart);
    let mut faults = asked.faults();
    if !has_name {
        // That says what to put where.
        faults.retain(|fault| *fault != FormError::NoRepo);
    }
    for fault in &faults {
        tell(errors, path, helm, describe(*fault, asked.chart));
    }
    check_url(errors, path, asked.source());
    let version = check_version(errors, path, asked.source(), asked.version)?;
    check_tag(errors, path, asked.source(), &version);
    (has_name && faults.is_empty()).then_some(asked.request(version))
}

/// Checks the chart of a target's own `helm` block, after what it inherits from `main`.
///
/// A block that names none of repository, chart and version adds nothing to check. A block with an OCI repository of
/// its own need not clear the inherited chart, and could not: nobody reads it.
pub fn check_target<'a>(
    errors: &mut FieldErrors,
    path: &Path<'_>,
    main: &'a HelmOptions,
    own: &'a HelmOptions,
) -> Option<ChartRequest<'a>> {
    let asked = Asked::of(own).inheriting(Asked::of(main));
    let mut faults = Vec::new();
    if Asked::of(own) != Asked::default() {
        faults = asked.faults();
        faults.retain(|fault| *fault != FormError::OciWithChart);
    }
    for fault in &faults {
        tell(errors, path, own, describe_for_target(*fault, own));
    }
    let has_name = check_name(errors, path, &own.chart);
    if !own.repo.is_empty() || !own.chart.is_empty() {
        check_url(errors, path, asked.source());
    }
    let version = if own.version.is_empty() {
        // Told at spec.helm.version already if it is wrong.
        VersionRequest::parse(asked.version).ok()?
    } else {
        check_version(errors, path, asked.source(), asked.version)?
    };
    if Asked::of(own) != Asked::default() {
        check_tag(errors, path, asked.source(), &version);
    }
    (has_name && faults.is_empty()).then_some(asked.request(version))
}

/// Checks that the name of a chart is none of what people know from the command line of Helm: no index has such an entry.
/// Returns whether it is fine, or empty.
fn check_name(errors: &mut FieldErrors, path: &Path<'_>, chart: &str) -> bool {
    if source::is_archive(chart) {
        // That is a URL.
        return true;
    }
    let path = path.field("chart");
    let wrong = if chart.trim() != chart {
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
    errors.invalid(&path, Reason::InvalidChartName, &url::redacted(chart), wrong);
    false
}

/// The three fields that name a chart and its versions.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Asked<'a> {
    repo: &'a str,
    chart: &'a str,
    version: &'a str,
}

impl<'a> Asked<'a> {
    fn of(helm: &'a HelmOptions) -> Self {
        let (repo, chart, version) = (&*helm.repo, &*helm.chart, &*helm.version);
        Self { repo, chart, version }
    }

    /// What is empty is as in `main`.
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

    fn faults(self) -> Vec<FormError> {
        ChartSource::faults(self.repo, self.chart, self.version)
    }

    fn request(self, version: VersionRequest<'a>) -> ChartRequest<'a> {
        let Self { repo, chart, .. } = self;
        ChartRequest { repo, chart, version }
    }
}

/// A wrong field, why it is wrong, and what to do.
type Fault = (&'static str, Reason, &'static str);

fn tell(errors: &mut FieldErrors, path: &Path<'_>, helm: &HelmOptions, (field, reason, detail): Fault) {
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

/// What is wrong in `spec.helm`. The words in parentheses are those that Fleet's own controller uses, for those who
/// search for them.
fn describe(fault: FormError, chart: &str) -> Fault {
    match fault {
        FormError::ArchiveWithRepo => (
            "repo",
            Reason::RepoForbidden,
            "spec.helm.chart is the URL of a chart archive already (tarball chart with a non-empty repo field); remove repo, or give the chart's name instead of an archive",
        ),
        FormError::ArchiveWithVersion => (
            "version",
            Reason::VersionForbidden,
            "a chart archive has no versions to choose from (tarball chart with a non-empty version field); remove version",
        ),
        FormError::OciWithChart => (
            "chart",
            Reason::ChartForbidden,
            "spec.helm.repo names the chart in the registry already (OCI repository with a non-empty chart field); remove chart, and append it to repo if it is missing there",
        ),
        FormError::NoChart => (
            "chart",
            Reason::ChartRequired,
            "a Helm repository needs the name of a chart (non-OCI repository with an empty chart field); for a chart in an OCI registry let repo begin with oci://",
        ),
        FormError::NoRepo if source::is_alias(chart) => (
            "repo",
            Reason::RepoRequired,
            "a chart that is not an archive (.tgz) needs the URL of its repository (non-tarball chart with an empty repo field); \
             names of repositories as for helm install are known to your machine alone: give the URL that helm repo list \
             shows, and the chart without the name of the repository",
        ),
        FormError::NoRepo => (
            "repo",
            Reason::RepoRequired,
            "a chart that is not an archive (.tgz) needs the URL of its repository (non-tarball chart with an empty repo field)",
        ),
    }
}

/// What is wrong in a target's block, which cannot clear what it inherits.
fn describe_for_target(fault: FormError, own: &HelmOptions) -> Fault {
    match fault {
        FormError::ArchiveWithRepo if own.chart.is_empty() => (
            "repo",
            Reason::RepoForbidden,
            "this target inherits the chart archive of spec.helm.chart, so it cannot name a repository; name the chart too",
        ),
        FormError::ArchiveWithRepo => (
            "chart",
            Reason::RepoForbidden,
            "a chart archive names its own URL, but a repository is set here or inherited from spec.helm.repo, which a target cannot clear; create a separate HelmOp",
        ),
        FormError::ArchiveWithVersion => (
            "version",
            Reason::VersionForbidden,
            "a chart archive has no versions to choose from, but one is set here or inherited from spec.helm.version, which a target cannot clear; create a separate HelmOp",
        ),
        FormError::NoChart => (
            "chart",
            Reason::ChartRequired,
            "a Helm repository needs the name of a chart, here or in spec.helm.chart",
        ),
        FormError::NoRepo => (
            "repo",
            Reason::RepoRequired,
            "a chart that is not an archive (.tgz) needs a repository, here or in spec.helm.repo",
        ),
        FormError::OciWithChart => describe(fault, &own.chart),
    }
}

fn check_url(errors: &mut FieldErrors, path: &Path<'_>, source: ChartSource<'_>) {
    let (field, text, fault) = match source {
        ChartSource::Archive { url } => ("chart", url, url_fault(url, &["https", "http", "oci"])),
        ChartSource::Oci { repo } => ("repo", repo, url_fault(repo, &["oci"])),
        ChartSource::Repository { repo, .. } => ("repo", repo, url_fault(repo, &["https", "http"])),
    };
    let Some(detail) = fault else {
        return;
    };
    errors.invalid(
        &path.field(field),
        Reason::InvalidURL,
        &url::redacted(text),
        detail,
    );
}

/// What is wrong with a URL. An empty one is another error.
fn url_fault(text: &str, schemes: &[&str]) -> Option<String> {
    const GIT: &str = "an address of a git repository; a HelmOp deploys a chart from a Helm repository or an OCI registry, and a \
                       GitRepo of Fleet deploys one from git";
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

/// A tag or digest in a reference to a registry, and the version, must be able to agree.
fn check_tag(
    errors: &mut FieldErrors,
    path: &Path<'_>,
    source: ChartSource<'_>,
    version: &VersionRequest<'_>,
) {
    let ChartSource::Oci { repo } = source else {
        return;
    };
    // Told already if it is none.
    let Ok(reference) = Reference::parse(repo) else {
        return;
    };
    if let Err(error) = ask(&reference, version) {
        errors.invalid(
            &path.field("repo"),
            Reason::InvalidVersion,
            &url::redacted(repo),
            error.to_string(),
        );
    }
}

/// `None` where the version is wrong; an archive's is never read.
fn check_version<'a>(
    errors: &mut FieldErrors,
    path: &Path<'_>,
    source: ChartSource<'_>,
    text: &'a str,
) -> Option<VersionRequest<'a>> {
    match VersionRequest::parse(text) {
        Ok(version) if !version.constraint().is_satisfiable() => {
            let wrong = "no version can satisfy this range: its conditions exclude each other; between alternatives write ||";
            errors.invalid(&path.field("version"), Reason::InvalidVersion, text, wrong);
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
