//! A chart that the controller packs from files: `spec.chartSource`, and what it forbids elsewhere.

use std::sync::{Arc, LazyLock};

use helm_index::VersionRequest;
use helmops_api::{HelmOp, HelmOpSpec, HelmOptions, PackedChartSource, notifications::LocalReference};
use helmops_chart::Strategy;
use helmops_model::{
    chart::{request::ChartRequest, url},
    reason::Reason,
    validation::{FieldErrors, Path, names},
};

use super::{Charts, artifact, bucket, config_maps, git, options};
use crate::poll;

/// How the messages about one kind of source name it.
struct Terms {
    /// The field that names it.
    field: &'static str,
    /// Whether it has a Secret with the access, and a choice of what is released.
    has_access: bool,
    /// What is set in place of a filter of versions.
    select: &'static str,
    /// What is set in place of an age.
    age: &'static str,
    /// What is set in place of a version.
    version: &'static str,
}

const GIT: Terms = Terms {
    field: "spec.chartSource.git",
    has_access: true,
    select: ", and select tags with spec.chartSource.git.ref.semver",
    age: ", and let ref name a branch or tags that are moved when a change is old enough",
    version: ", and choose a branch, a tag or a commit in spec.chartSource.git.ref",
};

const BUCKET: Terms = Terms {
    field: "spec.chartSource.bucket",
    has_access: true,
    select: ", and name the archive of a version, or the folder of a chart, in spec.chartSource.bucket.path",
    age: ", and let path name what is uploaded when it is old enough",
    version: ", and name another object or folder in spec.chartSource.bucket.path",
};

const ARTIFACT: Terms = Terms {
    field: "spec.chartSource.oci",
    has_access: true,
    select: ", and select tags with spec.chartSource.oci.ref.semver",
    age: ", and let ref name a tag that is moved when a change is old enough",
    version: ", and choose a tag or a digest in spec.chartSource.oci.ref",
};

const CONFIG_MAPS: Terms = Terms {
    field: "spec.chartSource.configMaps",
    has_access: false,
    select: "",
    age: ", and change the ConfigMaps when a change is old enough",
    version: "",
};

/// The chart of the source, which is that of all targets; `None` if it is invalid.
pub(super) fn check<'a>(
    errors: &mut FieldErrors,
    root: &Path<'_>,
    helmop: &'a HelmOp,
    source: PackedChartSource<'_>,
) -> Option<Charts<'a>> {
    static NONE: LazyLock<HelmOptions> = LazyLock::new(HelmOptions::default);
    let path = root.field("chartSource");
    let spec = &helmop.spec;
    let has_manifests = spec.has_manifests();
    let (terms, request) = match source {
        PackedChartSource::Git(source) => (
            &GIT,
            git::check(errors, &path.field("git"), source, has_manifests),
        ),
        PackedChartSource::Bucket(source) => {
            let path = path.field("bucket");
            (&BUCKET, bucket::check(errors, &path, source, has_manifests))
        }
        PackedChartSource::Artifact(source) => {
            let path = path.field("oci");
            (&ARTIFACT, artifact::check(errors, &path, source, has_manifests))
        }
        PackedChartSource::ConfigMaps(all) => (
            &CONFIG_MAPS,
            Some(config_maps::check(errors, &path, all, has_manifests)),
        ),
    };
    for other in spec.packed_sources().skip(1) {
        let text = match other {
            PackedChartSource::Git(source) => &*source.url,
            PackedChartSource::Bucket(source) => &source.bucket_name,
            PackedChartSource::Artifact(source) => &source.url,
            PackedChartSource::ConfigMaps(all) => all.first().map_or("", |first| &first.name),
        };
        errors.forbidden(
            &path.field(other.field()),
            Reason::RepoForbidden,
            &url::redacted(text),
            format!("the chart is that of {}; remove one of both", terms.field),
        );
    }
    if has_manifests {
        check_values_files(errors, &root.field("helm"), spec);
    }
    check_others(errors, root, spec, terms);
    let bundle = &spec.bundle;
    let chart = ChartRequest {
        repo: "",
        chart: "",
        packed: Some(Arc::new(request?)),
        version: VersionRequest::parse("").ok()?,
        on_digest_change: None,
    };
    let targets = bundle.targets.iter().map(|_| None).collect();
    Some((bundle.options.helm.as_ref().unwrap_or(&NONE), chart, targets))
}

/// Reports that there are no files for `spec.chartSource.manifests`.
pub(super) fn require_files(errors: &mut FieldErrors, root: &Path<'_>) {
    let detail = "spec.chartSource.manifests says that files are manifests, and names none; name the repository in spec.chartSource.git, the \
                  bucket in spec.chartSource.bucket, the artifact in spec.chartSource.oci or ConfigMaps in spec.chartSource.configMaps, or remove \
                  manifests";
    let path = root.field("chartSource");
    errors.required(&path.field("git"), Reason::HelmRequired, detail);
}

/// Manifests have no files with values: those of a GitRepo are in its values before it is a Bundle.
fn check_values_files(errors: &mut FieldErrors, path: &Path<'_>, spec: &HelmOpSpec) {
    let helm = spec.bundle.options.helm.as_ref();
    let files = helm.map_or(&[][..], |helm| &helm.values_files);
    if let Some(first) = files.first() {
        let detail = "valuesFiles are read from a chart, and spec.chartSource.manifests has none; remove it, and set spec.helm.values";
        errors.forbidden(&path.field("valuesFiles"), Reason::ChartForbidden, first, detail);
    }
}

/// Checks what is released.
pub fn check_strategy(
    errors: &mut FieldErrors,
    path: &Path<'_>,
    text: &str,
    has_manifests: bool,
) -> Option<Strategy> {
    let strategy = Strategy::parse(text);
    if has_manifests && strategy == Some(Strategy::ChartVersion) {
        let detail = "manifests have no Chart.yaml with a version, so each change is released; remove reconcileStrategy, or set Revision";
        errors.forbidden(path, Reason::VersionForbidden, text, detail);
        return None;
    }
    if strategy.is_none() {
        let detail = "expected Revision or ChartVersion; Revision releases each change of the chart, ChartVersion only another version in its \
                      Chart.yaml";
        errors.invalid(path, Reason::InvalidVersion, text, detail);
    }
    if has_manifests {
        return Some(Strategy::Manifests);
    }
    strategy
}

/// Checks the name of the Secret with the access; empty for none.
pub fn check_secret<'a>(
    errors: &mut FieldErrors,
    path: &Path<'_>,
    reference: Option<&'a LocalReference>,
) -> &'a str {
    let Some(reference) = reference else {
        return "";
    };
    let name = path.field("name");
    if reference.name.is_empty() {
        let detail = "name the Secret with the access, or remove secretRef";
        errors.required(&name, Reason::InvalidName, detail);
    }
    options::check_name(errors, &name, &reference.name, names::subdomain);
    &reference.name
}

/// Whether the HelmOp is polled for other content.
pub fn is_polled(spec: &HelmOpSpec) -> bool {
    poll::interval(spec.polling_interval.as_deref()).is_ok_and(|interval| interval.is_some())
}

/// The warning about a HelmOp that is not polled, although its source can have later `changes`.
pub fn unpolled(changes: &str) -> String {
    format!(
        "spec.pollingInterval: not set, so later {changes} are not deployed; set it, such as 5m, or request polls"
    )
}

/// The warning about references that do not count, because another one does.
pub fn ignored_references(source: &str, counts: Option<&str>, ignored: &[&str]) -> Option<String> {
    let counts = counts.filter(|_| !ignored.is_empty())?;
    let ignored = ignored.join(" and ");
    Some(format!(
        "spec.chartSource.{source}.ref: {ignored} has no effect, because {counts} is set; remove one of them"
    ))
}

/// The warning about a HelmOp that is polled, although a field names the only `thing` that it ever deploys.
pub fn useless_polls(source: &str, field: &str, thing: &str) -> String {
    format!(
        "spec.pollingInterval: has no effect, because spec.chartSource.{source}.ref.{field} names one {thing}; remove it"
    )
}

/// Checks that nothing else chooses a chart or its version.
fn check_others(errors: &mut FieldErrors, root: &Path<'_>, spec: &HelmOpSpec, terms: &Terms) {
    let bundle = &spec.bundle;
    if let Some(helm) = &bundle.options.helm {
        check_helm(errors, &root.field("helm"), helm, (terms, spec.has_manifests()));
    }
    let targets = root.field("targets");
    for (index, target) in bundle.targets.iter().enumerate() {
        if let Some(helm) = &target.options.helm {
            let path = targets.index(index);
            check_helm(errors, &path.field("helm"), helm, (terms, spec.has_manifests()));
        }
    }
    let Terms {
        field,
        has_access,
        select,
        age,
        ..
    } = *terms;
    let (released, access) = if has_access {
        (
            format!("{field}.reconcileStrategy says what is released"),
            format!(", and name the access in {field}.secretRef"),
        )
    } else {
        ("each change is released".to_owned(), String::new())
    };
    for (other, text, detail) in [
        (
            "semverFilter",
            &*spec.semver_filter,
            format!("it selects from the versions of a repository, which {field} has not; remove it{select}"),
        ),
        (
            "onDigestChange",
            &spec.on_digest_change,
            format!(
                "it is about versions that are published again, which {field} has not; remove it: {released}"
            ),
        ),
        (
            "helmSecretName",
            &spec.helm_secret_name,
            format!("it is copied to the clusters, and these fetch nothing with {field}; remove it{access}"),
        ),
        (
            "minAge",
            spec.min_age.as_deref().unwrap_or_default(),
            format!("{field} has no versions to go back to while a change is too new; remove it{age}"),
        ),
    ] {
        if !text.is_empty() {
            errors.forbidden(&root.field(other), Reason::VersionForbidden, text, detail);
        }
    }
}

fn check_helm(
    errors: &mut FieldErrors,
    path: &Path<'_>,
    helm: &HelmOptions,
    (terms, has_manifests): (&Terms, bool),
) {
    let Terms {
        field,
        has_access,
        version,
        ..
    } = *terms;
    let why = if has_manifests {
        "manifests have none"
    } else {
        "its version is in its Chart.yaml"
    };
    for (other, text, reason, fix) in [
        (
            "repo",
            &helm.repo,
            Reason::RepoForbidden,
            "remove repo".to_owned(),
        ),
        (
            "chart",
            &helm.chart,
            Reason::ChartForbidden,
            if has_access {
                format!("remove chart, and set {field}.path")
            } else {
                "remove chart".to_owned()
            },
        ),
        (
            "version",
            &helm.version,
            Reason::VersionForbidden,
            format!("{why}; remove version{version}"),
        ),
    ] {
        if !text.is_empty() {
            errors.forbidden(
                &path.field(other),
                reason,
                &url::redacted(text),
                format!("the chart is that of {field}; {fix}"),
            );
        }
    }
}
