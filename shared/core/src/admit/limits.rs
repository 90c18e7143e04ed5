//! Size limits of a HelmOp: counts and lengths, checked before anything else.
//!
//! The numbers and their reasons are in [`limits`]. The lists that all other checks iterate over come first. A HelmOp that
//! exceeds a limit is rejected without further checks, so that each validation of it costs little. Names with a rule of
//! their own (`names`) are limited by that rule.

mod lifecycle;

use std::{
    collections::{BTreeMap, HashSet},
    io,
};

use helmops_api::{
    ArtifactSource, BucketSource, BundleDeploymentOptions, GitSource, HelmOp, HelmOpSpec, HelmOptions,
    PackedChartSource,
    diff::DiffOptions,
    helm::{KeySelector, ValuesFrom},
    limits,
    options::{IgnoreOptions, KustomizeOptions, YamlOptions},
    target::{BundleRef, ClusterCriteria},
};
use helmops_model::{
    chart::{request::ChartRequest, source::ChartSource, url},
    reason::Reason,
    validation::{ErrorType, FieldErrors, Path},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

const REASON: Reason = Reason::LimitExceeded;

/// The fix for a list without a better one.
const SPLIT: &str = "make several HelmOps of it";

/// Checks counts, then lengths, then the size of the whole. Each is checked only if those before it are within their limits.
pub fn check(errors: &mut FieldErrors, root: &Path<'_>, helmop: &HelmOp) {
    let spec = &helmop.spec;
    for check in [check_lists, check_fields, check_namespace, check_size] {
        check(errors, root, spec);
        if !errors.is_empty() {
            return;
        }
    }
}

/// Checks how many different charts and versions are requested.
pub fn check_charts(
    errors: &mut FieldErrors,
    root: &Path<'_>,
    chart: &ChartRequest<'_>,
    targets: &[Option<ChartRequest<'_>>],
) {
    let charts: HashSet<_> = std::iter::once(chart)
        .chain(targets.iter().flatten())
        .filter(|request| !matches!(request.source(), ChartSource::Archive { .. }))
        .map(|request| (request.repo, request.chart, request.version.text()))
        .collect();
    let (count, max) = (charts.len(), limits::CHARTS);
    if count > max {
        let detail = format!(
            "{count} different charts and versions are requested here and in spec.helm; at most {max} are allowed; \
             {SPLIT}"
        );
        errors.add(&root.field("targets"), REASON, ErrorType::TooMany, "", detail);
    }
}

/// The lists that all other checks iterate over.
fn check_lists(errors: &mut FieldErrors, root: &Path<'_>, spec: &HelmOpSpec) {
    let bundle = &spec.bundle;
    let fewer = "use clusterSelector or clusterGroup to cover several clusters with one entry";
    items(
        errors,
        &root.field("targets"),
        bundle.targets.len(),
        limits::TARGETS,
        fewer,
    );
    items(
        errors,
        &root.field("targetRestrictions"),
        bundle.target_restrictions.len(),
        limits::TARGETS,
        fewer,
    );
    items(
        errors,
        &root.field("dependsOn"),
        bundle.depends_on.len(),
        limits::SHORT_LIST,
        "use selector to cover several Bundles with one entry",
    );
    if let Some(rollout) = &bundle.rollout_strategy {
        items(
            errors,
            &root.field("rolloutStrategy").field("partitions"),
            rollout.partitions.len(),
            limits::PARTITIONS,
            fewer,
        );
    }
}

fn check_fields(errors: &mut FieldErrors, root: &Path<'_>, spec: &HelmOpSpec) {
    let bundle = &spec.bundle;
    let interval = spec.polling_interval.as_deref().unwrap_or_default();
    for (field, text, limit) in [
        ("pollingInterval", interval, limits::DURATION),
        (
            "minAge",
            spec.min_age.as_deref().unwrap_or_default(),
            limits::DURATION,
        ),
        ("semverFilter", &spec.semver_filter, limits::NAME),
        ("onDigestChange", &spec.on_digest_change, limits::NAME),
        ("chartSource.deliver", spec.deliver(), limits::NAME),
        ("caBundle", &spec.ca_bundle, limits::CA_BUNDLE),
    ] {
        length(errors, &root.field(field), text, limit);
    }
    for source in spec.packed_sources() {
        check_packed(errors, &root.field("chartSource").field(source.field()), source);
    }
    entries(
        errors,
        &root.field("labels"),
        spec.labels.len(),
        limits::SHORT_LIST,
    );
    check_options(errors, root, &bundle.options);
    let path = root.field("targets");
    for (index, target) in bundle.targets.iter().enumerate() {
        let path = path.index(index);
        length(errors, &path.field("name"), &target.name, limits::NAME);
        check_options(errors, &path, &target.options);
        check_criteria(errors, &path, &target.criteria);
    }
    let path = root.field("targetRestrictions");
    for (index, restriction) in bundle.target_restrictions.iter().enumerate() {
        let path = path.index(index);
        length(errors, &path.field("name"), &restriction.name, limits::NAME);
        check_criteria(errors, &path, &restriction.criteria);
    }
    let path = root.field("dependsOn");
    for (index, dependency) in bundle.depends_on.iter().enumerate() {
        check_dependency(errors, &path.index(index), dependency);
    }
    let path = root.field("rolloutStrategy");
    if let Some(rollout) = &bundle.rollout_strategy {
        duration(errors, &path.field("soak"), rollout.soak.as_deref());
    }
    let path = path.field("partitions");
    let partitions = bundle
        .rollout_strategy
        .iter()
        .flat_map(|rollout| &rollout.partitions);
    for (index, partition) in partitions.enumerate() {
        let path = path.index(index);
        length(errors, &path.field("name"), &partition.name, limits::NAME);
        duration(errors, &path.field("soak"), partition.soak.as_deref());
        length(errors, &path.field("approval"), &partition.approval, limits::NAME);
        if let Some(gate) = &partition.gate {
            let path = path.field("gate");
            length(
                errors,
                &path.field("expression"),
                &gate.expression,
                limits::EXPRESSION,
            );
            length(errors, &path.field("url"), &gate.url, limits::URL);
            length(errors, &path.field("secretName"), &gate.secret_name, limits::NAME);
            duration(errors, &path.field("interval"), gate.interval.as_deref());
            duration(errors, &path.field("timeout"), gate.timeout.as_deref());
        }
        check_criteria(errors, &path, &partition.criteria);
    }
}

fn check_packed(errors: &mut FieldErrors, path: &Path<'_>, source: PackedChartSource<'_>) {
    match source {
        PackedChartSource::Git(source) => check_git(errors, path, source),
        PackedChartSource::Bucket(source) => check_bucket(errors, path, source),
        PackedChartSource::Artifact(source) => check_artifact(errors, path, source),
        PackedChartSource::ConfigMaps(all) => {
            let fix = "write several keys into one ConfigMap, or make several HelmOps of it";
            items(errors, path, all.len(), limits::CONFIG_MAPS, fix);
            for (index, reference) in all.iter().enumerate() {
                length(
                    errors,
                    &path.index(index).field("name"),
                    &reference.name,
                    limits::NAME,
                );
            }
        }
    }
}

fn check_git(errors: &mut FieldErrors, path: &Path<'_>, git: &GitSource) {
    for (field, text, limit) in [
        ("url", git.url.as_str(), limits::URL),
        ("path", &git.path, limits::PATH),
        ("reconcileStrategy", &git.reconcile_strategy, limits::NAME),
        ("secretRef.name", git.secret_name(), limits::NAME),
    ] {
        length(errors, &path.field(field), text, limit);
    }
    let Some(reference) = &git.reference else { return };
    for (field, text, limit) in [
        ("branch", &reference.branch, limits::NAME),
        ("tag", &reference.tag, limits::NAME),
        ("semver", &reference.semver, limits::VERSION),
        ("commit", &reference.commit, limits::NAME),
    ] {
        length(errors, &path.field("ref").field(field), text, limit);
    }
}

fn check_bucket(errors: &mut FieldErrors, path: &Path<'_>, bucket: &BucketSource) {
    for (field, text, limit) in [
        ("provider", &*bucket.provider, limits::NAME),
        ("bucketName", &bucket.bucket_name, limits::NAME),
        ("endpoint", &bucket.endpoint, limits::URL),
        ("region", &bucket.region, limits::NAME),
        ("prefix", &bucket.prefix, limits::PATH),
        ("path", &bucket.path, limits::PATH),
        ("secretRef.name", bucket.secret_name(), limits::NAME),
        ("reconcileStrategy", &bucket.reconcile_strategy, limits::NAME),
    ] {
        length(errors, &path.field(field), text, limit);
    }
}

fn check_artifact(errors: &mut FieldErrors, path: &Path<'_>, source: &ArtifactSource) {
    for (field, text, limit) in [
        ("url", source.url.as_str(), limits::URL),
        ("path", &source.path, limits::PATH),
        ("reconcileStrategy", &source.reconcile_strategy, limits::NAME),
        ("secretRef.name", source.secret_name(), limits::NAME),
    ] {
        length(errors, &path.field(field), text, limit);
    }
    let Some(reference) = &source.reference else {
        return;
    };
    for (field, text, limit) in [
        ("tag", &reference.tag, limits::NAME),
        ("semver", &reference.semver, limits::VERSION),
        ("digest", &reference.digest, limits::NAME),
    ] {
        length(errors, &path.field("ref").field(field), text, limit);
    }
}

fn check_options(errors: &mut FieldErrors, path: &Path<'_>, options: &BundleDeploymentOptions) {
    if let Some(helm) = &options.helm {
        check_helm(errors, &path.field("helm"), helm);
    }
    if let Some(diff) = &options.diff {
        check_diff(errors, &path.field("diff"), diff);
    }
    let resources = path.field("downstreamResources");
    list(
        errors,
        &resources,
        &options.downstream_resources,
        limits::SHORT_LIST,
    );
    for (field, map) in [
        ("namespaceLabels", &options.namespace_labels),
        ("namespaceAnnotations", &options.namespace_annotations),
    ] {
        entries(errors, &path.field(field), map.len(), limits::SHORT_LIST);
    }
    if let Some(IgnoreOptions { conditions, .. }) = &options.ignore {
        let path = path.field("ignore");
        list(errors, &path.field("conditions"), conditions, limits::SHORT_LIST);
    }
    list(
        errors,
        &path.field("overwrites"),
        &options.overwrites,
        limits::SHORT_LIST,
    );
    if let Some(YamlOptions { overlays, .. }) = &options.yaml {
        let path = path.field("yaml");
        paths(errors, &path.field("overlays"), overlays);
    }
    if let Some(lifecycle) = &options.lifecycle {
        lifecycle::check(errors, &path.field("lifecycle"), lifecycle);
    }
    if let Some(KustomizeOptions { dir, .. }) = &options.kustomize {
        length(errors, &path.field("kustomize").field("dir"), dir, limits::PATH);
    }
    check_selector(
        errors,
        &path.field("allowedTargetNamespaceSelector"),
        options.allowed_target_namespace_selector.as_ref(),
    );
}

fn check_helm(errors: &mut FieldErrors, path: &Path<'_>, helm: &HelmOptions) {
    for (field, text) in [("repo", &helm.repo), ("chart", &helm.chart)] {
        length(errors, &path.field(field), text, limits::URL);
    }
    length(errors, &path.field("version"), &helm.version, limits::VERSION);
    let templates = path.field("templateValues");
    entries(
        errors,
        &templates,
        helm.template_values.len(),
        limits::TEMPLATE_VALUES,
    );
    paths(errors, &path.field("valuesFiles"), &helm.values_files);
    let sources = path.field("valuesFrom");
    if list(errors, &sources, &helm.values_from, limits::SHORT_LIST) {
        for (index, source) in helm.values_from.iter().enumerate() {
            check_source(errors, &sources.index(index), source);
        }
    }
}

fn check_source(errors: &mut FieldErrors, path: &Path<'_>, source: &ValuesFrom) {
    for (field, key) in [
        ("configMapKeyRef", &source.config_map_key_ref),
        ("secretKeyRef", &source.secret_key_ref),
    ] {
        let Some(KeySelector {
            name, namespace, key, ..
        }) = key
        else {
            continue;
        };
        let path = path.field(field);
        length(errors, &path.field("name"), name, limits::NAME);
        length(errors, &path.field("namespace"), namespace, limits::LABEL);
        length(errors, &path.field("key"), key, limits::NAME);
    }
}

fn check_diff(errors: &mut FieldErrors, path: &Path<'_>, diff: &DiffOptions) {
    let path = path.field("comparePatches");
    if !list(errors, &path, &diff.compare_patches, limits::COMPARE_PATCHES) {
        return;
    }
    for (index, patch) in diff.compare_patches.iter().enumerate() {
        let path = path.index(index);
        let (pointers, operations) = (path.field("jsonPointers"), path.field("operations"));
        list(errors, &pointers, &patch.json_pointers, limits::SHORT_LIST);
        list(errors, &operations, &patch.operations, limits::SHORT_LIST);
    }
}

fn duration(errors: &mut FieldErrors, path: &Path<'_>, text: Option<&str>) {
    length(errors, path, text.unwrap_or_default(), limits::DURATION);
}

fn check_dependency(errors: &mut FieldErrors, path: &Path<'_>, dependency: &BundleRef) {
    length(errors, &path.field("name"), &dependency.name, limits::NAME);
    check_selector(errors, &path.field("selector"), dependency.selector.as_ref());
    let path = path.field("acceptedStates");
    if list(
        errors,
        &path,
        &dependency.accepted_states,
        limits::ACCEPTED_STATES,
    ) {
        for (index, state) in dependency.accepted_states.iter().enumerate() {
            length(errors, &path.index(index), state, limits::NAME);
        }
    }
}

fn check_criteria(errors: &mut FieldErrors, path: &Path<'_>, criteria: &ClusterCriteria) {
    for (field, name) in [
        ("clusterName", &criteria.cluster_name),
        ("clusterGroup", &criteria.cluster_group),
    ] {
        length(errors, &path.field(field), name, limits::NAME);
    }
    for (field, selector) in [
        ("clusterSelector", &criteria.cluster_selector),
        ("clusterGroupSelector", &criteria.cluster_group_selector),
    ] {
        check_selector(errors, &path.field(field), selector.as_ref());
    }
}

fn check_selector(errors: &mut FieldErrors, path: &Path<'_>, selector: Option<&LabelSelector>) {
    let Some(selector) = selector else { return };
    let labels = selector.match_labels.as_ref().map_or(0, BTreeMap::len);
    entries(errors, &path.field("matchLabels"), labels, limits::SELECTOR_PARTS);
    let expressions = selector.match_expressions.as_deref().unwrap_or_default();
    let path = path.field("matchExpressions");
    if list(errors, &path, expressions, limits::SELECTOR_PARTS) {
        for (index, expression) in expressions.iter().enumerate() {
            let values = expression.values.as_deref().unwrap_or_default();
            let path = path.index(index);
            list(errors, &path.field("values"), values, limits::TARGETS);
        }
    }
}

/// Labels and annotations of the release's namespace: those of all targets are sent to every cluster.
fn check_namespace(errors: &mut FieldErrors, root: &Path<'_>, spec: &HelmOpSpec) {
    let bundle = &spec.bundle;
    let targets = bundle.targets.iter().map(|target| &*target.options);
    let size: usize = targets
        .chain([&bundle.options])
        .flat_map(|options| {
            options
                .namespace_labels
                .iter()
                .chain(&options.namespace_annotations)
        })
        .map(|(key, value)| key.len() + value.len())
        .sum();
    let max = limits::NAMESPACE_METADATA;
    if size > max {
        let detail = format!(
            "{size} bytes of namespaceLabels and namespaceAnnotations here and in spec; at most {max} are allowed, \
             because those of all targets are sent to every cluster; {SPLIT}"
        );
        errors.add(&root.field("targets"), REASON, ErrorType::TooLong, "", detail);
    }
}

/// The size of the spec as JSON, as it is stored.
fn check_size(errors: &mut FieldErrors, root: &Path<'_>, spec: &HelmOpSpec) {
    let size = size_of(spec);
    if size > limits::SPEC {
        let detail = format!(
            "{size} bytes as JSON; at most {} are allowed, so that the Bundle and the values of each cluster can be \
             stored; shorten helm.values, or store values on the cluster (helm.valuesFrom)",
            limits::SPEC
        );
        errors.add(root, REASON, ErrorType::TooLong, "", detail);
    }
}

fn size_of(spec: &HelmOpSpec) -> usize {
    struct Count(usize);

    impl io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    let mut count = Count(0);
    // Counting does not fail, and a spec that was decoded from JSON can be encoded as JSON.
    _ = serde_json::to_writer(&mut count, spec);
    count.0
}

fn paths(errors: &mut FieldErrors, path: &Path<'_>, texts: &[String]) {
    if list(errors, path, texts, limits::SHORT_LIST) {
        for (index, text) in texts.iter().enumerate() {
            length(errors, &path.index(index), text, limits::PATH);
        }
    }
}

/// Checks the length of a list, and returns whether its items are to be checked.
fn list<T>(errors: &mut FieldErrors, path: &Path<'_>, list: &[T], max: usize) -> bool {
    items(errors, path, list.len(), max, SPLIT);
    list.len() <= max
}

fn items(errors: &mut FieldErrors, path: &Path<'_>, count: usize, max: usize, fix: &str) {
    if count > max {
        let detail = format!("{count} entries; at most {max} are allowed; {fix}");
        errors.add(path, REASON, ErrorType::TooMany, "", detail);
    }
}

fn entries(errors: &mut FieldErrors, path: &Path<'_>, count: usize, max: usize) {
    items(errors, path, count, max, "remove some");
}

fn length(errors: &mut FieldErrors, path: &Path<'_>, text: &str, max: usize) {
    if text.len() > max {
        let detail = format!("{} bytes; at most {max} are allowed; shorten it", text.len());
        errors.add(path, REASON, ErrorType::TooLong, &url::redacted(text), detail);
    }
}

#[cfg(test)]
mod tests;
