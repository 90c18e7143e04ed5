//! Warnings about settings that are valid but questionable.

use std::collections::BTreeSet;

use bounded_text::cut;
use helm_index::{is_complete_version, is_strict_version};
use helmops_api::{
    BundleDeploymentOptions, HelmOp, HelmOpSpec, HelmOptions, PackedChartSource, rollout::RolloutStrategy,
};
use helmops_model::chart::{
    request::{OnDigestChange, is_floating, is_polled, or_inherited},
    source::{self, is_archive},
    url::{self, Url},
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::{MAX_HELM_RUN, artifact, bucket, config_maps, git, lifecycle, nulls};
use crate::poll;

/// How many warnings of one object are reported; the API server forwards at most 4096 characters.
const MAX_WARNINGS: usize = 20;

/// Longest warning in bytes; the API server truncates longer ones.
const MAX_LENGTH: usize = 256;

/// What happens to a null that is applied.
const DROPPED: &str =
    "kubectl apply has dropped this null, so the default of the chart stays; use kubectl apply --server-side";

/// Everything about a HelmOp that the user should know, although it is valid.
pub fn warnings(helmop: &HelmOp) -> Vec<String> {
    let spec = &helmop.spec;
    let mut warnings = Warnings::default();
    internal_fields(&mut warnings, spec);
    let has_manifests = spec.has_manifests();
    if !has_manifests {
        unused_options(&mut warnings, "spec", &spec.bundle.options);
    }
    if let Some(helm) = &spec.bundle.options.helm {
        chart(&mut warnings, "spec.helm", helm);
        numbers(&mut warnings, helm);
        short_history(&mut warnings, spec, helm);
        if spec.packed().is_none() {
            polling(&mut warnings, spec, helm);
        }
        transport(&mut warnings, spec, helm);
    }
    match spec.packed() {
        Some(PackedChartSource::Git(source)) => {
            git::warnings(spec, source).for_each(|warning| warnings.add(warning));
        }
        Some(PackedChartSource::Bucket(source)) => {
            bucket::warnings(spec, source).for_each(|warning| warnings.add(warning));
        }
        Some(PackedChartSource::Artifact(source)) => {
            artifact::warnings(spec, source).for_each(|warning| warnings.add(warning));
        }
        Some(PackedChartSource::ConfigMaps(_)) => {
            config_maps::warnings(spec).for_each(|warning| warnings.add(warning));
        }
        None => {}
    }
    for (index, target) in spec.bundle.targets.iter().enumerate() {
        let path = format!("spec.targets[{index}]");
        if !has_manifests {
            unused_options(&mut warnings, &path, &target.options);
        }
        options_of_all_targets(&mut warnings, &path, &target.options);
        if let Some(helm) = &target.options.helm {
            chart(&mut warnings, &format!("{path}.helm"), helm);
        }
    }
    lifecycle::warnings(spec).for_each(|warning| warnings.add(warning));
    for path in nulls::dropped(helmop) {
        warnings.add(format!("{path}: {DROPPED}"));
    }
    targets(&mut warnings, spec);
    dependencies(&mut warnings, spec);
    if let Some(rollout) = &spec.bundle.rollout_strategy {
        amounts(&mut warnings, rollout);
        soaks(&mut warnings, rollout);
        failures(&mut warnings, rollout);
    }
    warnings.0
}

#[derive(Default)]
struct Warnings(Vec<String>);

impl Warnings {
    fn add(&mut self, text: String) {
        if self.0.len() < MAX_WARNINGS {
            self.0.push(bounded(text));
        }
    }
}

/// Truncates a warning that is too long.
pub fn bounded(text: String) -> String {
    cut(text, MAX_LENGTH)
}

fn internal_fields(warnings: &mut Warnings, spec: &HelmOpSpec) {
    let bundle = &spec.bundle;
    for (set, field) in [
        (!bundle.contents_id.is_empty(), "contentsId"),
        (!bundle.values_hash.is_empty(), "valuesHash"),
        (bundle.helm_op_options.is_some(), "helmOpOptions"),
        (!bundle.resources.is_empty(), "resources"),
    ] {
        if set {
            warnings.add(format!(
                "spec.{field}: internal to Bundles and ignored in a HelmOp; remove it"
            ));
        }
    }
}

/// Options that only have an effect for Bundles of files.
fn unused_options(warnings: &mut Warnings, path: &str, options: &BundleDeploymentOptions) {
    if options.yaml.is_some() {
        warnings.add(format!(
            "{path}.yaml: has no effect, because a HelmOp has no files besides its chart; use values of the chart"
        ));
    }
}

/// Options of a target that have no effect, because [`merge`](crate::targeting::merge) takes them from the HelmOp for all clusters.
fn options_of_all_targets(warnings: &mut Warnings, path: &str, own: &BundleDeploymentOptions) {
    let helm = own.helm.as_ref();
    for (is_set, field) in [
        (own.create_namespace.is_some(), "createNamespace"),
        (own.delete_namespace, "deleteNamespace"),
        (own.delete_crd_resources, "deleteCRDResources"),
        (own.ignore.is_some(), "ignore"),
        (helm.is_some_and(|helm| helm.max_history != 0), "helm.maxHistory"),
        (
            helm.is_some_and(|helm| !helm.values_files.is_empty()),
            "helm.valuesFiles",
        ),
        (
            helm.is_some_and(|helm| helm.skip_schema_validation),
            "helm.skipSchemaValidation",
        ),
    ] {
        if is_set {
            warnings.add(format!(
                "{path}.{field}: has no effect in a target, also not in Fleet; set spec.{field}, which applies to all clusters"
            ));
        }
    }
}

/// Numbers that Helm interprets differently. In a target a negative timeout clears an inherited one.
fn numbers(warnings: &mut Warnings, helm: &HelmOptions) {
    if helm.timeout_seconds < 0 {
        warnings.add(format!(
            "spec.helm.timeoutSeconds: {} is negative, so that hooks fail immediately and Helm does not wait; set the \
             seconds to wait, or remove it",
            helm.timeout_seconds
        ));
    }
    if helm.max_history < 0 {
        warnings.add(format!(
            "spec.helm.maxHistory: {} is negative; set the number of revisions to keep, or remove it to keep 2",
            helm.max_history
        ));
    }
}

/// A history in which a rollback would find nothing. The agent keeps more then; that of a target has no effect.
fn short_history(warnings: &mut Warnings, spec: &HelmOpSpec, helm: &HelmOptions) {
    if helm.max_history != 1 {
        return;
    }
    let rolls_back = |options: &BundleDeploymentOptions| {
        let lifecycle = options.lifecycle.as_deref();
        let upgrade = lifecycle.and_then(|lifecycle| lifecycle.upgrade.as_ref());
        upgrade.is_some_and(|upgrade| upgrade.remediation == "rollback")
    };
    let bundle = &spec.bundle;
    let target = bundle
        .targets
        .iter()
        .position(|target| rolls_back(&target.options));
    let path = match target {
        _ if rolls_back(&bundle.options) => "spec".to_owned(),
        Some(index) => format!("spec.targets[{index}]"),
        None => return,
    };
    warnings.add(format!(
        "spec.helm.maxHistory: 1 keeps no revision for the rollback of {path}.lifecycle.upgrade, so the agent keeps 3; set at least 2, \
         or remove it"
    ));
}

/// A timeout that is longer than a run of Helm may take. Fleet has no limit, so it is no error.
fn long_timeout(warnings: &mut Warnings, path: &str, helm: &HelmOptions) {
    let (seconds, max) = (helm.timeout_seconds, MAX_HELM_RUN.as_secs());
    if u64::try_from(seconds).is_ok_and(|seconds| seconds > max) {
        warnings.add(format!(
            "{path}.timeoutSeconds: {seconds} is longer than the agent lets Helm run hooks: {max} seconds, or {} hours; objects that are \
             no hooks are waited for as long as this says",
            max / 3600
        ));
    }
}

/// Questionable settings of a chart, in `spec.helm` or in a target.
fn chart(warnings: &mut Warnings, path: &str, helm: &HelmOptions) {
    long_timeout(warnings, path, helm);
    let (field, text) = if is_archive(&helm.chart) {
        ("chart", &helm.chart)
    } else {
        ("repo", &helm.repo)
    };
    if Url::parse(text).is_ok_and(|url| url.userinfo.is_some()) {
        warnings.add(format!(
            "{path}.{field}: the URL contains credentials that everyone who can read HelmOps and Bundles can see; put them \
             into a Secret and name it in spec.helmSecretName"
        ));
    }
    if path != "spec.helm" && !helm.chart.is_empty() && source::is_oci(&helm.repo) {
        warnings.add(format!(
            "{path}.chart: ignored, because repo names the chart in the registry already"
        ));
    }
    if !helm.repo.is_empty()
        && source::is_alias(&helm.chart)
        && let Some((alias, chart)) = helm.chart.split_once('/')
    {
        warnings.add(format!(
            "{path}.chart: hardly any repository has a chart with / in its name; if {alias:?} is the name of the repository, as \
             for helm install, use {chart:?}"
        ));
    }
    if let Some(range) = intended_range(&helm.version) {
        warnings.add(format!(
            "{path}.version: in {:?} what follows the hyphen is a pre-release; for a range write {range:?}, with spaces \
             around the hyphen",
            helm.version
        ));
    }
}

fn polling(warnings: &mut Warnings, spec: &HelmOpSpec, helm: &HelmOptions) {
    let Ok(interval) = poll::interval(spec.polling_interval.as_deref()) else {
        return;
    };
    let text = spec.polling_interval.as_deref().unwrap_or_default();
    let main = (&*helm.repo, &*helm.chart, &*helm.version);
    let (repo, chart, version) = main;
    let is_floating_anywhere = is_floating(repo, chart, version)
        || of_targets(spec, helm).any(|(repo, chart, version)| is_floating(repo, chart, version));
    if !spec.semver_filter.is_empty() && !is_floating_anywhere {
        warnings.add(format!(
            "spec.semverFilter: {:?} has no effect, because no range of versions is requested; set a range in spec.helm.version, or \
             remove it",
            spec.semver_filter
        ));
    }
    // A tag that moves, too.
    let moves = |request| is_polled(request, None);
    if let Some(age) = &spec.min_age
        && !moves(main)
        && !of_targets(spec, helm).any(moves)
    {
        warnings.add(format!(
            "spec.minAge: {age} has no effect, because no range of versions is requested; set a range in spec.helm.version, or remove it"
        ));
    }
    let policy = OnDigestChange::parse(&spec.on_digest_change);
    let is_target_polled = of_targets(spec, helm).any(|request| is_polled(request, policy));
    let is_main_polled = is_polled(main, policy);
    let is_polled = is_main_polled || is_target_polled;
    if policy.is_some() && !is_polled {
        warnings.add(format!(
            "spec.onDigestChange: {} has no effect, because spec.helm names an archive or a digest; remove it",
            spec.on_digest_change
        ));
    }
    match interval {
        Some(_) if is_target_polled => {}
        Some(_) if is_archive(&helm.chart) => warnings.add(format!(
            "spec.pollingInterval: {text} has no effect, because a chart archive has no versions to choose from"
        )),
        None if policy.is_some() && is_polled => warnings.add(format!(
            "spec.onDigestChange: {} counts for requested polls only, because polling is off; set spec.pollingInterval, such as 15m",
            spec.on_digest_change
        )),
        Some(_) if is_main_polled && !is_floating(repo, chart, version) => {}
        Some(_) if is_strict_version(&helm.version) => warnings.add(format!(
            "spec.pollingInterval: {text} has no effect, because version {:?} is exact; to follow new versions set \
             a range",
            helm.version
        )),
        Some(_) if !is_floating(repo, chart, version) => warnings.add(format!(
            "spec.pollingInterval: {text} has no effect, because spec.helm.repo names a tag or digest; to follow new \
             versions remove it and set a range in spec.helm.version"
        )),
        Some(interval) if interval < poll::SHORT_INTERVAL => warnings.add(format!(
            "spec.pollingInterval: {text} is short, and registries limit requests; use 15s or more"
        )),
        None if is_range(helm) => warnings.add(format!(
            "spec.helm.version: {:?} is resolved once and then kept, because polling is off; set \
             spec.pollingInterval, such as 15m, to follow new versions",
            helm.version
        )),
        None if is_main_polled && !is_floating(repo, chart, version) => warnings.add(format!(
            "spec.helm.repo: {repo} names a tag that may be pushed again, and is resolved once and then kept, because polling is off; set \
             spec.pollingInterval, such as 15m, to follow it"
        )),
        Some(_) | None => {}
    }
}

/// Repository, chart and version that targets request.
fn of_targets<'s>(
    spec: &'s HelmOpSpec,
    main: &'s HelmOptions,
) -> impl Iterator<Item = (&'s str, &'s str, &'s str)> {
    let targets = spec.bundle.targets.iter();
    targets
        .filter_map(|target| target.options.helm.as_ref())
        .map(|own| {
            (
                or_inherited(&own.repo, &main.repo),
                or_inherited(&own.chart, &main.chart),
                or_inherited(&own.version, &main.version),
            )
        })
}

/// Whether the version is an explicit range. An empty version is the common case and gets no warning, and a complete version
/// with a leading `v` is as good as an exact one.
fn is_range(helm: &HelmOptions) -> bool {
    !helm.version.is_empty()
        && is_floating(&helm.repo, &helm.chart, &helm.version)
        && !is_complete_version(&helm.version)
}

fn transport(warnings: &mut Warnings, spec: &HelmOpSpec, helm: &HelmOptions) {
    if spec.insecure_skip_tls_verify {
        warnings.add(
            "spec.insecureSkipTLSVerify: certificates are not verified, so anyone on the network path can replace the chart; \
             put the CA into key cacerts of the Secret instead"
                .to_owned(),
        );
    }
    if spec.helm_secret_name.is_empty() {
        return;
    }
    for (field, text) in [("repo", &helm.repo), ("chart", &helm.chart)] {
        if Url::parse(text).is_ok_and(|url| url.has_scheme("http")) {
            warnings.add(format!(
                "spec.helm.{field}: {} is plain http, so the credentials of Secret {} are sent unencrypted; use https",
                url::redacted(text),
                spec.helm_secret_name
            ));
        }
    }
}

fn targets(warnings: &mut Warnings, spec: &HelmOpSpec) {
    let bundle = &spec.bundle;
    if bundle.targets.is_empty() {
        warnings.add(
            "spec.targets: empty, so the chart goes only to the clusters of ClusterGroup \"default\"; for every \
             cluster of the namespace add a target with clusterSelector: {}"
                .to_owned(),
        );
    }
    let mut names = BTreeSet::new();
    for (index, target) in bundle.targets.iter().enumerate() {
        if !target.name.is_empty() && !names.insert(&target.name) {
            warnings.add(format!(
                "spec.targets[{index}].name: {:?} is the name of an earlier target too",
                target.name
            ));
        }
        if !target.criteria.has_any() {
            warnings.add(format!(
                "spec.targets[{index}]: matches no cluster, because it has none of clusterName, clusterSelector, \
                 clusterGroup and clusterGroupSelector; clusterSelector: {{}} matches every cluster"
            ));
        }
    }
}

fn dependencies(warnings: &mut Warnings, spec: &HelmOpSpec) {
    for (index, dependency) in spec.bundle.depends_on.iter().enumerate() {
        if dependency.name.is_empty() && dependency.selector.is_none() {
            warnings.add(format!(
                "spec.dependsOn[{index}]: ignored, because it has neither name nor selector; name the Bundle to wait for"
            ));
        }
    }
}

/// Amounts that mean less than they say, or that stop a roll-out.
fn amounts(warnings: &mut Warnings, rollout: &RolloutStrategy) {
    const NO_UPDATE: &str = "lets no ready cluster be updated; set at least 1, or remove it";
    let mut add = |field: &str, text: String| {
        warnings.add(format!("spec.rolloutStrategy.{field}: {text}"));
    };
    let partitions = rollout.partitions.iter().enumerate();
    let partitions = partitions.map(|(index, partition)| {
        let field = format!("partitions[{index}].maxUnavailable");
        (field, &partition.max_unavailable, NO_UPDATE)
    });
    let own = [
        ("maxUnavailable", &rollout.max_unavailable, NO_UPDATE),
        // The default.
        (
            "maxUnavailablePartitions",
            &rollout.max_unavailable_partitions,
            "",
        ),
        // No partitions.
        ("autoPartitionSize", &rollout.auto_partition_size, ""),
    ];
    let own = own.map(|(field, amount, of_zero)| (field.to_owned(), amount, of_zero));
    for (field, amount, of_zero) in own.into_iter().chain(partitions) {
        match amount {
            Some(IntOrString::Int(number @ ..=0)) if !of_zero.is_empty() => {
                add(&field, format!("{number} {of_zero}"));
            }
            Some(IntOrString::String(text)) if is_more_than_all(text) => {
                add(&field, format!("{text} counts as 100%"));
            }
            _ => {}
        }
    }
    let max_failed = rollout
        .on_failure
        .as_ref()
        .and_then(|policy| policy.max_failed.as_ref());
    if let Some(IntOrString::String(text)) = max_failed
        && (text == "100%" || is_more_than_all(text))
    {
        add(
            "onFailure.maxFailed",
            format!("{text} never halts the rollout; set less, or remove onFailure"),
        );
    }
    if let Some(number @ ..=0) = rollout.max_new {
        let text = "lets no cluster get the chart for the first time; set at least 1, or remove it";
        add("maxNew", format!("{number} {text}"));
    }
}

/// Partitions that no other one waits for.
fn soaks(warnings: &mut Warnings, rollout: &RolloutStrategy) {
    let last = rollout.partitions.len().saturating_sub(1);
    if let Some(partition) = rollout.partitions.last()
        && partition.soak.is_some()
    {
        warnings.add(format!(
            "spec.rolloutStrategy.partitions[{last}].soak: has no effect, because no partition follows; remove it"
        ));
    }
    let is_single = match &*rollout.partitions {
        [] => {
            matches!(rollout.auto_partition_size, Some(IntOrString::Int(..=0)))
                || rollout
                    .auto_partition_threshold
                    .is_some_and(|threshold| threshold <= 0)
        }
        partitions => partitions.len() == 1,
    };
    if is_single && rollout.soak.is_some() {
        warnings.add(
            "spec.rolloutStrategy.soak: has no effect, because there is one partition only; add partitions, or remove it"
                .to_owned(),
        );
    }
}

/// A limit of failures that all clusters have passed when the first one has failed: nothing keeps one of them waiting, and none goes back.
fn failures(warnings: &mut Warnings, rollout: &RolloutStrategy) {
    let is_limit = |amount: &Option<IntOrString>| match amount {
        None => false,
        Some(IntOrString::Int(_)) => true,
        Some(IntOrString::String(text)) => text != "100%" && !is_more_than_all(text),
    };
    let is_soak = |soak: &Option<String>| soak.is_some();
    let mut partitions = rollout.partitions.iter();
    let has_to_wait = is_limit(&rollout.max_unavailable)
        || is_soak(&rollout.soak)
        || partitions.any(|partition| {
            is_limit(&partition.max_unavailable)
                || is_soak(&partition.soak)
                || partition.gate.is_some()
                || partition.needs_approval()
        });
    if rollout.on_failure.is_some() && !rollout.rolls_back() && !has_to_wait {
        warnings.add(
            "spec.rolloutStrategy.onFailure: has no effect on clusters that have the chart already: all are updated at the same time; set \
             maxUnavailable, partitions with soak, gate or approval, or action: Rollback"
                .to_owned(),
        );
    }
}

fn is_more_than_all(text: &str) -> bool {
    let percent = text.strip_suffix('%');
    let percent = percent.and_then(|percent| percent.parse::<i64>().ok());
    percent.is_some_and(|percent| percent > 100)
}

/// The range that a version such as `1.2-1.4.5`, which is a pre-release, was probably meant to be.
fn intended_range(version: &str) -> Option<String> {
    let (from, to) = version.split_once('-')?;
    let is_number = |text: &str| {
        let text = text.strip_prefix('v').unwrap_or(text);
        text.contains('.')
            && text
                .split('.')
                .all(|part| !part.is_empty() && part.bytes().all(|c| c.is_ascii_digit()))
    };
    (is_number(from) && is_number(to)).then(|| format!("{from} - {to}"))
}
