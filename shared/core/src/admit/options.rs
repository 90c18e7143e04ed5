//! Options that a HelmOp and its targets have in common.

use helmops_api::{BundleDeploymentOptions, HelmOptions, options::DownstreamResource};
use helmops_model::{
    reason::Reason,
    validation::{ErrorType, FieldErrors, Path, names, selector},
};

use super::depth;

/// Checks all options except the chart itself.
pub fn check(errors: &mut FieldErrors, path: &Path<'_>, options: &BundleDeploymentOptions) {
    check_name(
        errors,
        &path.field("namespace"),
        &options.namespace,
        names::namespace,
    );
    check_name(
        errors,
        &path.field("defaultNamespace"),
        &options.default_namespace,
        names::namespace,
    );
    check_name(
        errors,
        &path.field("serviceAccount"),
        &options.service_account,
        names::subdomain,
    );
    if let Some(helm) = &options.helm {
        check_release(errors, &path.field("helm"), helm);
        check_values_from(errors, &path.field("helm").field("valuesFrom"), helm);
        check_values_files(errors, &path.field("helm").field("valuesFiles"), helm);
        depth::check(errors, &path.field("helm"), helm);
    }
    if let Some(kustomize) = &options.kustomize
        && !kustomize.dir.is_empty()
    {
        check_file(
            errors,
            &path.field("kustomize").field("dir"),
            &kustomize.dir,
            "kustomize/production",
        );
    }
    let labels = path.field("namespaceLabels");
    selector::check_labels(errors, &labels, Reason::InvalidLabel, &options.namespace_labels);
    let annotations = path.field("namespaceAnnotations");
    selector::check_keys(
        errors,
        &annotations,
        Reason::InvalidLabel,
        &options.namespace_annotations,
    );
    let allowed = path.field("allowedTargetNamespaceSelector");
    selector::check(
        errors,
        &allowed,
        options.allowed_target_namespace_selector.as_ref(),
    );
    let resources = path.field("downstreamResources");
    for (index, resource) in options.downstream_resources.iter().enumerate() {
        check_resource(errors, &resources.index(index), resource);
    }
}

/// Checks an optional name.
pub fn check_name(
    errors: &mut FieldErrors,
    path: &Path<'_>,
    name: &str,
    rule: impl Fn(&str) -> Result<(), &'static str>,
) {
    if name.is_empty() {
        return;
    }
    if let Err(problem) = rule(name) {
        errors.invalid(path, Reason::InvalidName, name, problem);
    }
}

fn check_release(errors: &mut FieldErrors, path: &Path<'_>, helm: &HelmOptions) {
    if helm.release_name.is_empty() {
        return;
    }
    if let Err(problem) = names::release(&helm.release_name) {
        let detail = format!("not a release name: {problem}");
        errors.invalid(
            &path.field("releaseName"),
            Reason::InvalidReleaseName,
            &helm.release_name,
            detail,
        );
    }
}

/// A reference needs the name of its object. An entry with neither reference is ignored by all agents.
fn check_values_from(errors: &mut FieldErrors, path: &Path<'_>, helm: &HelmOptions) {
    for (index, source) in helm.values_from.iter().enumerate() {
        let path = path.index(index);
        for (field, key) in [
            ("configMapKeyRef", &source.config_map_key_ref),
            ("secretKeyRef", &source.secret_key_ref),
        ] {
            if key.as_ref().is_some_and(|key| key.name.is_empty()) {
                errors.required(
                    &path.field(field).field("name"),
                    Reason::InvalidValues,
                    "name the object on the cluster that holds the values",
                );
            }
        }
    }
}

fn check_values_files(errors: &mut FieldErrors, path: &Path<'_>, helm: &HelmOptions) {
    for (index, file) in helm.values_files.iter().enumerate() {
        check_file(errors, &path.index(index), file, "values-production.yaml");
    }
}

/// A path in the chart. Whether the chart has it is known on the cluster.
fn check_file(errors: &mut FieldErrors, path: &Path<'_>, file: &str, example: &str) {
    let is_outside = file.starts_with('/') || file.split('/').any(|part| part == "..");
    if is_outside || file.is_empty() {
        let detail = format!("write a path in the chart, such as {example}");
        errors.invalid(path, Reason::InvalidValues, file, detail);
    }
}

fn check_resource(errors: &mut FieldErrors, path: &Path<'_>, resource: &DownstreamResource) {
    const REASON: Reason = Reason::InvalidDownstreamResource;
    let supported = ["Secret", "ConfigMap"];
    if !supported
        .iter()
        .any(|kind| kind.eq_ignore_ascii_case(&resource.kind))
    {
        let path = path.field("kind");
        errors.add(
            &path,
            REASON,
            ErrorType::NotSupported,
            &resource.kind,
            "supported kinds: Secret, ConfigMap",
        );
    }
    let path = path.field("name");
    if resource.name.is_empty() {
        errors.required(&path, REASON, "name the Secret or ConfigMap to copy");
    } else {
        check_name(errors, &path, &resource.name, names::subdomain);
    }
}
