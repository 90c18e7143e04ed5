//! A chart in a bucket: `spec.chartSource.bucket`.

use helmops_api::{BucketSource, HelmOpSpec};
use helmops_bucket::{BucketChart, BucketFieldError, BucketFields, BucketLocation, ChartObject};
use helmops_model::{
    chart::request::{PackedRequest, PackedSource},
    reason::Reason,
    validation::{FieldErrors, Path},
};

use super::packed;

/// Checks the source of a chart; `None` if it is invalid.
pub fn check(
    errors: &mut FieldErrors,
    path: &Path<'_>,
    source: &BucketSource,
    has_manifests: bool,
) -> Option<PackedRequest> {
    let location = BucketLocation::parse(&fields(source));
    let location = location.map_err(|error| report(errors, path, &error));
    let strategy = packed::check_strategy(
        errors,
        &path.field("reconcileStrategy"),
        &source.reconcile_strategy,
        has_manifests,
    );
    // An archive has another default than a folder.
    let strategy = strategy.filter(|_| has_manifests || !source.reconcile_strategy.is_empty());
    let object = ChartObject::parse(&source.path, strategy);
    let object = object.map_err(|error| report(errors, path, &error));
    let secret = packed::check_secret(errors, &path.field("secretRef"), source.secret_ref.as_ref());
    let (location, object) = (location.ok()?, object.ok()?);
    Some(PackedRequest {
        repo: location.identity(),
        secret: secret.to_owned(),
        source: PackedSource::Bucket(BucketChart { location, object }),
    })
}

/// What is valid but questionable.
pub fn warnings(spec: &HelmOpSpec, source: &BucketSource) -> impl Iterator<Item = String> {
    let secret = source.secret_name();
    let location = BucketLocation::parse(&fields(source));
    let is_plain = location.is_ok_and(|location| location.endpoint.scheme() == "http");
    let warnings = [
        (!packed::is_polled(spec)).then(|| packed::unpolled("objects")),
        (is_plain && !secret.is_empty()).then(|| {
            format!(
                "spec.chartSource.bucket.insecure: requests with the credentials of Secret {secret} are sent unencrypted; use https, and remove insecure"
            )
        }),
    ];
    warnings.into_iter().flatten()
}

fn fields(source: &BucketSource) -> BucketFields<'_> {
    BucketFields {
        provider: &source.provider,
        name: &source.bucket_name,
        endpoint: &source.endpoint,
        region: &source.region,
        prefix: &source.prefix,
        insecure: source.insecure,
    }
}

fn report(errors: &mut FieldErrors, path: &Path<'_>, error: &BucketFieldError) {
    let reason = match error.field {
        "path" => Reason::InvalidChartName,
        _ => Reason::InvalidURL,
    };
    let path = path.field(error.field);
    if error.text.is_empty() {
        errors.required(&path, reason, error.problem);
    } else {
        errors.invalid(&path, reason, &error.text, error.problem);
    }
}
