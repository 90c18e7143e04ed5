//! A chart in a Git repository: `spec.chartSource.git`.

use helmops_api::{GitSource, HelmOpSpec, HelmOptions};
use helmops_git::{
    GitChart, Location, Reference, ReferenceError, ReferenceFields,
    chart::{ChartPath, Strategy},
};
use helmops_model::{
    chart::{request::GitRequest, url},
    reason::Reason,
    validation::{FieldErrors, Path, names},
};

use super::options;
use crate::poll;

/// Checks the source of a chart; `None` if it is invalid.
pub fn check(errors: &mut FieldErrors, path: &Path<'_>, source: &GitSource) -> Option<GitRequest> {
    let location = check_url(errors, &path.field("url"), &source.url);
    let reference = check_reference(errors, &path.field("ref"), source);
    let folder = ChartPath::parse(&source.path)
        .map_err(|error| {
            let path = path.field("path");
            errors.invalid(&path, Reason::InvalidChartName, &source.path, error.to_string());
        })
        .ok();
    let strategy = check_strategy(
        errors,
        &path.field("reconcileStrategy"),
        &source.reconcile_strategy,
    );
    let secret = check_secret(errors, &path.field("secretRef"), source);
    let location = location?;
    Some(GitRequest {
        repo: location.identity(),
        secret: secret.to_owned(),
        chart: GitChart {
            location,
            reference: reference?,
            path: folder?,
            strategy: strategy?,
        },
    })
}

/// Checks that nothing else chooses a chart or its version.
pub fn check_others(errors: &mut FieldErrors, root: &Path<'_>, spec: &HelmOpSpec) {
    let bundle = &spec.bundle;
    if let Some(helm) = &bundle.options.helm {
        check_helm(errors, &root.field("helm"), helm);
    }
    let targets = root.field("targets");
    for (index, target) in bundle.targets.iter().enumerate() {
        if let Some(helm) = &target.options.helm {
            check_helm(errors, &targets.index(index).field("helm"), helm);
        }
    }
    let forbidden = [
        (
            "semverFilter",
            &spec.semver_filter,
            "it selects from the versions of a repository, which spec.chartSource.git has not; remove it, and select tags with \
             spec.chartSource.git.ref.semver",
        ),
        (
            "onDigestChange",
            &spec.on_digest_change,
            "it is about versions that are published again, which spec.chartSource.git has not; remove it: \
             spec.chartSource.git.reconcileStrategy says what is released",
        ),
        (
            "helmSecretName",
            &spec.helm_secret_name,
            "it is copied to the clusters, and these fetch nothing with spec.chartSource.git; remove it, and name the access in \
             spec.chartSource.git.secretRef",
        ),
    ];
    for (field, text, detail) in forbidden {
        if !text.is_empty() {
            errors.forbidden(&root.field(field), Reason::VersionForbidden, text, detail);
        }
    }
    if let Some(age) = spec.min_age.as_deref().filter(|age| !age.is_empty()) {
        let detail = "a commit has no versions to go back to while it is too new; remove it, and let ref name a branch or tags that are \
                      moved when a change is old enough";
        errors.forbidden(&root.field("minAge"), Reason::VersionForbidden, age, detail);
    }
}

/// What is valid but questionable.
pub fn warnings(spec: &HelmOpSpec, source: &GitSource) -> impl Iterator<Item = String> {
    let reference = source.reference.clone().unwrap_or_default();
    let names = [
        ("commit", reference.commit),
        ("semver", reference.semver),
        ("tag", reference.tag),
        ("branch", reference.branch),
    ];
    let mut set = names.into_iter().filter(|(_, text)| !text.is_empty());
    let counts = set.next().map(|(field, _)| field);
    let ignored: Vec<_> = set.map(|(field, _)| field).collect();
    let is_polled = poll::interval(spec.polling_interval.as_deref()).is_ok_and(|interval| interval.is_some());
    let is_commit = counts == Some("commit");
    let is_plain = matches!(Location::parse(&source.url), Ok(Location::Http(url)) if url.scheme() == "http");
    let warnings = [
        (!ignored.is_empty()).then(|| {
            format!(
                "spec.chartSource.git.ref: {} has no effect, because {} is set; remove one of them",
                ignored.join(" and "),
                counts.unwrap_or_default()
            )
        }),
        (is_polled && is_commit).then(|| {
            "spec.pollingInterval: has no effect, because spec.chartSource.git.ref.commit names one commit; remove it".to_owned()
        }),
        (!is_polled && !is_commit).then(|| {
            "spec.pollingInterval: not set, so later commits are not deployed; set it, such as 5m, or request polls".to_owned()
        }),
        (is_plain && !source.secret_name().is_empty()).then(|| {
            format!(
                "spec.chartSource.git.url: {} is plain http, so the credentials of Secret {} are sent unencrypted; use https",
                url::redacted(&source.url),
                source.secret_name()
            )
        }),
    ];
    warnings.into_iter().flatten()
}

fn check_helm(errors: &mut FieldErrors, path: &Path<'_>, helm: &HelmOptions) {
    let source = "the chart is that of spec.chartSource.git";
    for (field, text, reason, fix) in [
        ("repo", &helm.repo, Reason::RepoForbidden, "remove repo"),
        (
            "chart",
            &helm.chart,
            Reason::ChartForbidden,
            "remove chart; its folder is spec.chartSource.git.path",
        ),
        (
            "version",
            &helm.version,
            Reason::VersionForbidden,
            "its version is in its Chart.yaml; remove version, and choose a branch, a tag or a commit in spec.chartSource.git.ref",
        ),
    ] {
        if !text.is_empty() {
            errors.forbidden(
                &path.field(field),
                reason,
                &url::redacted(text),
                format!("{source}; {fix}"),
            );
        }
    }
}

fn check_url(errors: &mut FieldErrors, path: &Path<'_>, text: &str) -> Option<Location> {
    if text.is_empty() {
        let detail = "set the URL of the Git repository, as git clone takes it";
        errors.required(path, Reason::InvalidURL, detail);
        return None;
    }
    match Location::parse(text) {
        Ok(location) if has_login(&location) => {
            let detail = "has a user or a password, which everyone sees who may read the HelmOp; move them to keys username and password of a \
                          Secret, and name it in spec.chartSource.git.secretRef";
            errors.invalid(path, Reason::InvalidURL, &url::redacted(text), detail);
            None
        }
        Ok(location) => Some(location),
        Err(error) => {
            errors.invalid(path, Reason::InvalidURL, &url::redacted(text), error.to_string());
            None
        }
    }
}

fn has_login(location: &Location) -> bool {
    matches!(location, Location::Http(url) if !url.username().is_empty() || url.password().is_some())
}

fn check_reference(errors: &mut FieldErrors, path: &Path<'_>, source: &GitSource) -> Option<Reference> {
    let Some(reference) = &source.reference else {
        return Some(Reference::Head);
    };
    let fields = ReferenceFields {
        commit: &reference.commit,
        semver: &reference.semver,
        tag: &reference.tag,
        branch: &reference.branch,
    };
    let error = match Reference::parse(fields) {
        Ok(reference) => return Some(reference),
        Err(error) => error,
    };
    let (field, text) = match &error {
        ReferenceError::Commit { .. } => ("commit", fields.commit),
        ReferenceError::Range { .. } => ("semver", fields.semver),
        ReferenceError::Name { .. } if !fields.tag.is_empty() => ("tag", fields.tag),
        ReferenceError::Name { .. } => ("branch", fields.branch),
    };
    errors.invalid(
        &path.field(field),
        Reason::InvalidVersion,
        text,
        error.to_string(),
    );
    None
}

fn check_strategy(errors: &mut FieldErrors, path: &Path<'_>, text: &str) -> Option<Strategy> {
    let strategy = Strategy::parse(text);
    if strategy.is_none() {
        let detail = "expected Revision or ChartVersion; Revision releases each change of the chart, ChartVersion only another version in its \
                      Chart.yaml";
        errors.invalid(path, Reason::InvalidVersion, text, detail);
    }
    strategy
}

fn check_secret<'a>(errors: &mut FieldErrors, path: &Path<'_>, source: &'a GitSource) -> &'a str {
    let Some(reference) = &source.secret_ref else {
        return "";
    };
    let name = path.field("name");
    if reference.name.is_empty() {
        let detail = "name the Secret with the access to the Git repository, or remove secretRef";
        errors.required(&name, Reason::InvalidName, detail);
    }
    options::check_name(errors, &name, &reference.name, names::subdomain);
    &reference.name
}

#[cfg(test)]
mod tests {
    use helmops_api::HelmOp;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn questionable_settings_get_a_warning() {
        let warned = |git: Value, interval: Option<&str>| {
            let mut source = json!({ "url": "https://h/n.git" });
            json_patch::merge(&mut source, &git);
            let spec = json!({ "chartSource": { "git": source }, "pollingInterval": interval });
            let helmop: HelmOp = serde_json::from_str(&json!({ "spec": spec }).to_string()).unwrap();
            let found: Vec<_> = warnings(&helmop.spec, helmop.spec.git().unwrap()).collect();
            found.join("; ")
        };
        let commit = "0123456789012345678901234567890123456789";
        for (git, interval, expected) in [
            (json!({}), Some("5m"), ""),
            (json!({}), None, "later commits are not deployed"),
            (json!({ "ref": { "commit": commit } }), None, ""),
            (
                json!({ "ref": { "commit": commit } }),
                Some("5m"),
                "spec.pollingInterval: has no effect",
            ),
            (
                json!({ "ref": { "branch": "a", "tag": "b" } }),
                Some("5m"),
                "branch has no effect, because tag is set",
            ),
            (json!({ "url": "http://h/n" }), Some("5m"), ""),
            (
                json!({ "url": "http://h/n", "secretRef": { "name": "access" } }),
                Some("5m"),
                "credentials of Secret access are sent unencrypted",
            ),
        ] {
            let found = warned(git.clone(), interval);
            assert!(
                if expected.is_empty() {
                    found.is_empty()
                } else {
                    found.contains(expected)
                },
                "{git}: {found}"
            );
        }
    }
}
