//! A chart in an artifact of a registry: `spec.chartSource.oci`.

use helmops_api::{ArtifactReference, ArtifactSource, HelmOpSpec};
use helmops_model::{
    chart::{
        artifact::{ArtifactChart, ArtifactFieldError, ArtifactFields},
        request::{PackedRequest, PackedSource},
    },
    reason::Reason,
    validation::{FieldErrors, Path},
};

use super::packed;

/// Checks the source of a chart; `None` if it is invalid.
pub fn check(
    errors: &mut FieldErrors,
    path: &Path<'_>,
    source: &ArtifactSource,
    has_manifests: bool,
) -> Option<PackedRequest> {
    let reference = source.reference.clone().unwrap_or_default();
    let fields = ArtifactFields {
        url: &source.url,
        digest: &reference.digest,
        semver: &reference.semver,
        tag: &reference.tag,
        path: &source.path,
    };
    let strategy = packed::check_strategy(
        errors,
        &path.field("reconcileStrategy"),
        &source.reconcile_strategy,
        has_manifests,
    );
    let secret = packed::check_secret(errors, &path.field("secretRef"), source.secret_ref.as_ref());
    let chart = ArtifactChart::parse(fields, strategy.unwrap_or_default(), source.insecure);
    let chart = chart.map_err(|all| all.iter().for_each(|error| report(errors, path, error)));
    let chart = chart.ok()?;
    Some(PackedRequest {
        repo: chart.identity(),
        secret: secret.to_owned(),
        source: PackedSource::Artifact(chart),
    })
}

fn report(errors: &mut FieldErrors, path: &Path<'_>, error: &ArtifactFieldError) {
    let reason = match error.field {
        "path" => Reason::InvalidChartName,
        "url" => Reason::InvalidURL,
        _ => Reason::InvalidVersion,
    };
    let path = path.field(error.field);
    if error.text.is_empty() {
        errors.required(&path, reason, &*error.problem);
    } else {
        errors.invalid(&path, reason, &error.text, &*error.problem);
    }
}

/// What is valid but questionable.
pub fn warnings(spec: &HelmOpSpec, source: &ArtifactSource) -> impl Iterator<Item = String> {
    let ArtifactReference {
        digest, semver, tag, ..
    } = source.reference.clone().unwrap_or_default();
    let names = [("digest", digest), ("semver", semver), ("tag", tag)];
    let mut set = names.into_iter().filter(|(_, text)| !text.is_empty());
    let counts = set.next().map(|(field, _)| field);
    let ignored: Vec<_> = set.map(|(field, _)| field).collect();
    let (is_polled, is_digest) = (packed::is_polled(spec), counts == Some("digest"));
    let secret = source.secret_name();
    let warnings = [
        packed::ignored_references("oci", counts, &ignored),
        (is_polled && is_digest).then(|| packed::useless_polls("oci", "digest", "artifact")),
        (!is_polled && !is_digest).then(|| packed::unpolled("artifacts")),
        (source.insecure && !secret.is_empty()).then(|| {
            format!(
                "spec.chartSource.oci.insecure: requests with the credentials of Secret {secret} are sent unencrypted; use https, and remove insecure"
            )
        }),
    ];
    warnings.into_iter().flatten()
}
