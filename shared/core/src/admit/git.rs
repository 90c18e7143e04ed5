//! A chart in a Git repository: `spec.chartSource.git`.

use helmops_api::{GitSource, HelmOpSpec};
use helmops_git::{GitChart, Location, Reference, ReferenceError, ReferenceFields, chart::ChartPath};
use helmops_model::{
    chart::{
        request::{PackedRequest, PackedSource},
        url,
    },
    reason::Reason,
    validation::{FieldErrors, Path},
};

use super::packed;

/// Checks the source of a chart; `None` if it is invalid.
pub fn check(
    errors: &mut FieldErrors,
    path: &Path<'_>,
    source: &GitSource,
    has_manifests: bool,
) -> Option<PackedRequest> {
    let location = check_url(errors, &path.field("url"), &source.url);
    let reference = check_reference(errors, &path.field("ref"), source);
    let folder = ChartPath::parse(&source.path)
        .map_err(|error| {
            let path = path.field("path");
            errors.invalid(&path, Reason::InvalidChartName, &source.path, error.to_string());
        })
        .ok();
    let strategy = packed::check_strategy(
        errors,
        &path.field("reconcileStrategy"),
        &source.reconcile_strategy,
        has_manifests,
    );
    let secret = packed::check_secret(errors, &path.field("secretRef"), source.secret_ref.as_ref());
    let location = location?;
    Some(PackedRequest {
        repo: location.identity(),
        secret: secret.to_owned(),
        source: PackedSource::Git(GitChart {
            location,
            reference: reference?,
            path: folder?,
            strategy: strategy.unwrap_or_default(),
        }),
    })
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
    let is_polled = packed::is_polled(spec);
    let is_commit = counts == Some("commit");
    let is_plain = matches!(Location::parse(&source.url), Ok(Location::Http(url)) if url.scheme() == "http");
    let warnings = [
        packed::ignored_references("git", counts, &ignored),
        (is_polled && is_commit).then(|| packed::useless_polls("git", "commit", "commit")),
        (!is_polled && !is_commit).then(|| packed::unpolled("commits")),
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
