//! Size limits of a HelmOp.
//!
//! Every HelmOp is decoded, copied into a Bundle and reconciled in one process for all tenants, so each list and text has a
//! limit. The limits are far above usual sizes, and below what an API server can store. Both the CRD of HelmOps and
//! admission (`admit`) enforce them, because Fleet's own CRD, which lacks them, may be installed.
//!
//! Bundles have no limits here: those that Fleet makes from Git repositories may be larger.

use serde_json::{Value, json};

/// Targets, restrictions of them, and values of one expression of a selector. Users with one for each cluster have up to about 2,000
/// clusters; more are selected by label or group.
pub const TARGETS: usize = 2_000;

/// Different combinations of repository, chart and version in one HelmOp. Each is a request to a repository, and a record of
/// about 350 bytes in an annotation of the Bundle, where Kubernetes allows 256 KiB in total.
pub const CHARTS: usize = 500;

/// States of a dependency that count as done. There are seven.
pub const ACCEPTED_STATES: usize = 16;

/// Partitions of a rollout. Each has an entry in the Bundle's status.
pub const PARTITIONS: usize = 500;

/// Partitions of a rollout with a gate. Each gate is tried out at admission.
pub const GATES: usize = 32;

/// Templates of values. Each is parsed and rendered for each cluster.
pub const TEMPLATE_VALUES: usize = 1_000;

/// Objects with a customized comparison. The agent evaluates all of them for each object of a release.
pub const COMPARE_PATCHES: usize = 1_000;

/// Kinds with an expression for their readiness. The agent evaluates it for each object of the kind.
pub const EXPRESSIONS: usize = 64;

/// Bytes of a CEL expression. Longer ones are not readable, and cost the agent time.
pub const EXPRESSION: usize = 2_048;

/// Bytes of a duration, such as `1h30m`.
pub const DURATION: usize = 32;

/// Bytes of a selector of labels or annotations in text form.
pub const SELECTOR_TEXT: usize = 1_024;

/// Lists that are short in practice: what values come from, dependencies, copied objects, labels and annotations (Kubernetes allows 256 KiB
/// of these in total), rules for drift, and the parts of one rule. The agent evaluates some of them for each object of a release.
pub const SHORT_LIST: usize = 256;

/// ConfigMaps with manifests. The API server stores at most 1 MiB in each, and all of them are in memory while they are packed.
pub const CONFIG_MAPS: usize = 10;

/// Labels or expressions of a selector. Each is compared with the labels of each cluster.
pub const SELECTOR_PARTS: usize = 100;

/// Bytes of the URL of a repository or archive, and of a chart's name: what browsers and proxies accept.
pub const URL: usize = 2_048;

/// Bytes of a version or range. Long ranges list the versions that they exclude; a few hundred bytes occur in practice.
pub const VERSION: usize = 1_024;

/// Bytes of the name of an object: what Kubernetes allows.
pub const NAME: usize = 253;

/// Bytes of a DNS label such as a namespace, of a label's value, and of the name part of its key: what Kubernetes allows.
pub const LABEL: usize = 63;

/// Bytes of the name of a release: what Helm allows.
pub const RELEASE_NAME: usize = 53;

/// Bytes of a path of a file or in an object: the longest path on Linux.
pub const PATH: usize = 4_096;

/// Bytes of labels and annotations of the release's namespace, in total for all targets: each cluster gets all of them, and
/// Kubernetes allows 256 KiB of annotations in one object.
pub const NAMESPACE_METADATA: usize = 256 << 10;

/// Bytes of `spec` as JSON. An API server stores at most 1.5 MiB. The Bundle repeats the spec and adds a record of versions, and
/// Kubernetes stores at most 1 MiB of values in a Secret for a cluster.
pub const SPEC: usize = 1 << 20;

/// Post-renderers. Helm's program runs each for each object of the chart.
pub const POST_RENDERERS: usize = 32;

/// Bytes of a patch: more than any object of a chart has.
pub const PATCH: usize = 64 << 10;

/// Bytes of CA certificates in base64: a hundred of them.
pub const CA_BUNDLE: usize = 256 << 10;

/// Bytes of the path of a value: what Flux allows.
pub const TARGET_PATH: usize = 250;

/// What a limit is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Number of items of a list.
    Items,
    /// Number of entries of a map.
    Entries,
    /// Length of a text: in bytes at admission. An API server counts characters, of which there are never more.
    Length,
}

impl Measure {
    /// The keyword of the schema.
    pub const fn keyword(self) -> &'static str {
        match self {
            Self::Items => "maxItems",
            Self::Entries => "maxProperties",
            Self::Length => "maxLength",
        }
    }
}

/// A limit of a field: its path relative to that of the list, the measure and the number.
pub type Limit = (&'static str, Measure, usize);

const OF_SPEC: &[Limit] = &[
    ("labels", Measure::Entries, SHORT_LIST),
    ("pollingInterval", Measure::Length, DURATION),
    ("minAge", Measure::Length, DURATION),
    ("semverFilter", Measure::Length, NAME),
    ("onDigestChange", Measure::Length, NAME),
    ("chartSource.deliver", Measure::Length, NAME),
    ("chartSource.git.url", Measure::Length, URL),
    ("chartSource.git.path", Measure::Length, PATH),
    ("chartSource.git.reconcileStrategy", Measure::Length, NAME),
    ("chartSource.git.secretRef.name", Measure::Length, NAME),
    ("chartSource.git.ref.branch", Measure::Length, NAME),
    ("chartSource.git.ref.tag", Measure::Length, NAME),
    ("chartSource.git.ref.semver", Measure::Length, VERSION),
    ("chartSource.git.ref.commit", Measure::Length, NAME),
    ("chartSource.bucket.provider", Measure::Length, NAME),
    ("chartSource.bucket.bucketName", Measure::Length, NAME),
    ("chartSource.bucket.endpoint", Measure::Length, URL),
    ("chartSource.bucket.region", Measure::Length, NAME),
    ("chartSource.bucket.prefix", Measure::Length, PATH),
    ("chartSource.bucket.path", Measure::Length, PATH),
    ("chartSource.bucket.secretRef.name", Measure::Length, NAME),
    ("chartSource.bucket.reconcileStrategy", Measure::Length, NAME),
    ("chartSource.oci.url", Measure::Length, URL),
    ("chartSource.oci.path", Measure::Length, PATH),
    ("chartSource.oci.reconcileStrategy", Measure::Length, NAME),
    ("chartSource.oci.secretRef.name", Measure::Length, NAME),
    ("chartSource.oci.ref.tag", Measure::Length, NAME),
    ("chartSource.oci.ref.semver", Measure::Length, VERSION),
    ("chartSource.oci.ref.digest", Measure::Length, NAME),
    ("chartSource.configMaps", Measure::Items, CONFIG_MAPS),
    ("chartSource.configMaps[].name", Measure::Length, NAME),
    ("helmSecretName", Measure::Length, NAME),
    ("caBundle", Measure::Length, CA_BUNDLE),
    ("targets", Measure::Items, TARGETS),
    ("targets[].name", Measure::Length, NAME),
    ("targetRestrictions", Measure::Items, TARGETS),
    ("targetRestrictions[].name", Measure::Length, NAME),
    ("dependsOn", Measure::Items, SHORT_LIST),
    ("dependsOn[].name", Measure::Length, NAME),
    ("dependsOn[].acceptedStates", Measure::Items, ACCEPTED_STATES),
    ("dependsOn[].acceptedStates[]", Measure::Length, NAME),
    ("rolloutStrategy.soak", Measure::Length, DURATION),
    ("rolloutStrategy.partitions", Measure::Items, PARTITIONS),
    ("rolloutStrategy.partitions[].name", Measure::Length, NAME),
    ("rolloutStrategy.partitions[].soak", Measure::Length, DURATION),
    ("rolloutStrategy.partitions[].approval", Measure::Length, NAME),
    (
        "rolloutStrategy.partitions[].gate.expression",
        Measure::Length,
        EXPRESSION,
    ),
    ("rolloutStrategy.partitions[].gate.url", Measure::Length, URL),
    (
        "rolloutStrategy.partitions[].gate.secretName",
        Measure::Length,
        NAME,
    ),
    (
        "rolloutStrategy.partitions[].gate.interval",
        Measure::Length,
        DURATION,
    ),
    (
        "rolloutStrategy.partitions[].gate.timeout",
        Measure::Length,
        DURATION,
    ),
];

/// Limits of the options in `spec` and in each target.
const OF_OPTIONS: &[Limit] = &[
    ("namespace", Measure::Length, LABEL),
    ("defaultNamespace", Measure::Length, LABEL),
    ("serviceAccount", Measure::Length, NAME),
    ("helm.repo", Measure::Length, URL),
    ("helm.chart", Measure::Length, URL),
    ("helm.version", Measure::Length, VERSION),
    ("helm.releaseName", Measure::Length, RELEASE_NAME),
    ("helm.templateValues", Measure::Entries, TEMPLATE_VALUES),
    ("helm.valuesFrom", Measure::Items, SHORT_LIST),
    ("helm.valuesFrom[].configMapKeyRef.name", Measure::Length, NAME),
    (
        "helm.valuesFrom[].configMapKeyRef.namespace",
        Measure::Length,
        LABEL,
    ),
    ("helm.valuesFrom[].configMapKeyRef.key", Measure::Length, NAME),
    ("helm.valuesFrom[].secretKeyRef.name", Measure::Length, NAME),
    ("helm.valuesFrom[].secretKeyRef.namespace", Measure::Length, LABEL),
    ("helm.valuesFrom[].secretKeyRef.key", Measure::Length, NAME),
    ("helm.valuesFiles", Measure::Items, SHORT_LIST),
    ("helm.valuesFiles[]", Measure::Length, PATH),
    ("diff.comparePatches", Measure::Items, COMPARE_PATCHES),
    ("diff.comparePatches[].jsonPointers", Measure::Items, SHORT_LIST),
    ("diff.comparePatches[].operations", Measure::Items, SHORT_LIST),
    ("downstreamResources", Measure::Items, SHORT_LIST),
    ("downstreamResources[].name", Measure::Length, NAME),
    ("namespaceLabels", Measure::Entries, SHORT_LIST),
    ("namespaceAnnotations", Measure::Entries, SHORT_LIST),
    ("ignore.conditions", Measure::Items, SHORT_LIST),
    ("overwrites", Measure::Items, SHORT_LIST),
    ("yaml.overlays", Measure::Items, SHORT_LIST),
    ("yaml.overlays[]", Measure::Length, PATH),
    ("kustomize.dir", Measure::Length, PATH),
];

/// Limits of the life cycle in `spec` and in each target.
const OF_LIFECYCLE: &[Limit] = &[
    ("install.retryInterval", Measure::Length, DURATION),
    ("install.timeout", Measure::Length, DURATION),
    ("upgrade.retryInterval", Measure::Length, DURATION),
    ("upgrade.timeout", Measure::Length, DURATION),
    ("rollback.timeout", Measure::Length, DURATION),
    ("test.timeout", Measure::Length, DURATION),
    ("test.filters", Measure::Items, SHORT_LIST),
    ("test.filters[].name", Measure::Length, NAME),
    ("uninstall.timeout", Measure::Length, DURATION),
    ("wait.timeout", Measure::Length, DURATION),
    ("wait.expressions", Measure::Items, EXPRESSIONS),
    ("wait.expressions[].apiVersion", Measure::Length, NAME),
    ("wait.expressions[].kind", Measure::Length, NAME),
    ("wait.expressions[].failed", Measure::Length, EXPRESSION),
    ("wait.expressions[].inProgress", Measure::Length, EXPRESSION),
    ("wait.expressions[].current", Measure::Length, EXPRESSION),
    ("dependsOn", Measure::Items, SHORT_LIST),
    ("dependsOn[].name", Measure::Length, NAME),
    ("dependsOn[].namespace", Measure::Length, LABEL),
    ("dependsOn[].apiVersion", Measure::Length, NAME),
    ("dependsOn[].kind", Measure::Length, NAME),
    ("dependsOn[].ready", Measure::Length, EXPRESSION),
    ("drift.ignore", Measure::Items, SHORT_LIST),
    ("drift.ignore[].paths", Measure::Items, SHORT_LIST),
    ("drift.ignore[].paths[]", Measure::Length, PATH),
    ("storageNamespace", Measure::Length, LABEL),
    ("valuesFrom", Measure::Items, SHORT_LIST),
    ("valuesFrom[].name", Measure::Length, NAME),
    ("valuesFrom[].namespace", Measure::Length, LABEL),
    ("valuesFrom[].valuesKey", Measure::Length, NAME),
    ("valuesFrom[].targetPath", Measure::Length, TARGET_PATH),
    ("postRenderers", Measure::Items, POST_RENDERERS),
    ("postRenderers[].kustomize.patches", Measure::Items, SHORT_LIST),
    (
        "postRenderers[].kustomize.patches[].patch",
        Measure::Length,
        PATCH,
    ),
    ("postRenderers[].kustomize.images", Measure::Items, SHORT_LIST),
    ("postRenderers[].kustomize.images[].name", Measure::Length, URL),
    ("postRenderers[].kustomize.images[].newName", Measure::Length, URL),
    ("postRenderers[].kustomize.images[].newTag", Measure::Length, NAME),
    ("postRenderers[].kustomize.images[].digest", Measure::Length, NAME),
    ("commonMetadata.labels", Measure::Entries, SHORT_LIST),
    ("commonMetadata.annotations", Measure::Entries, SHORT_LIST),
];

/// Limits of the criteria for objects, of drift and patches in `spec` and in each target.
const OF_OBJECT_SELECTOR: &[Limit] = &[
    ("group", Measure::Length, NAME),
    ("version", Measure::Length, NAME),
    ("kind", Measure::Length, NAME),
    ("name", Measure::Length, NAME),
    ("namespace", Measure::Length, NAME),
    ("labelSelector", Measure::Length, SELECTOR_TEXT),
    ("annotationSelector", Measure::Length, SELECTOR_TEXT),
];

/// Limits of the criteria for clusters.
const OF_CRITERIA: &[Limit] = &[
    ("clusterName", Measure::Length, NAME),
    ("clusterGroup", Measure::Length, NAME),
];

const OF_SELECTOR: &[Limit] = &[
    ("matchLabels", Measure::Entries, SELECTOR_PARTS),
    ("matchExpressions", Measure::Items, SELECTOR_PARTS),
    ("matchExpressions[].values", Measure::Items, TARGETS),
];

/// The paths that each of the lists above applies to.
const SCOPES: &[(&str, &[Limit])] = &[
    ("spec", OF_SPEC),
    ("spec", OF_OPTIONS),
    ("spec.targets[]", OF_OPTIONS),
    ("spec.lifecycle", OF_LIFECYCLE),
    ("spec.targets[].lifecycle", OF_LIFECYCLE),
    ("spec.lifecycle.drift.ignore[].target", OF_OBJECT_SELECTOR),
    (
        "spec.targets[].lifecycle.drift.ignore[].target",
        OF_OBJECT_SELECTOR,
    ),
    (
        "spec.lifecycle.postRenderers[].kustomize.patches[].target",
        OF_OBJECT_SELECTOR,
    ),
    (
        "spec.targets[].lifecycle.postRenderers[].kustomize.patches[].target",
        OF_OBJECT_SELECTOR,
    ),
    ("spec.targets[]", OF_CRITERIA),
    ("spec.targetRestrictions[]", OF_CRITERIA),
    ("spec.rolloutStrategy.partitions[]", OF_CRITERIA),
    ("spec.allowedTargetNamespaceSelector", OF_SELECTOR),
    ("spec.dependsOn[].selector", OF_SELECTOR),
    ("spec.targets[].allowedTargetNamespaceSelector", OF_SELECTOR),
    ("spec.targets[].clusterSelector", OF_SELECTOR),
    ("spec.targets[].clusterGroupSelector", OF_SELECTOR),
    ("spec.targetRestrictions[].clusterSelector", OF_SELECTOR),
    ("spec.targetRestrictions[].clusterGroupSelector", OF_SELECTOR),
    ("spec.rolloutStrategy.partitions[].clusterSelector", OF_SELECTOR),
    (
        "spec.rolloutStrategy.partitions[].clusterGroupSelector",
        OF_SELECTOR,
    ),
];

/// All limits of a HelmOp's fields: path (`[]` means the items of a list), measure and number.
pub fn of_helmop() -> impl Iterator<Item = (String, Measure, usize)> {
    SCOPES.iter().flat_map(|(scope, limits)| {
        limits
            .iter()
            .map(move |(path, measure, max)| (format!("{scope}.{path}"), *measure, *max))
    })
}

/// Adds the limits of a HelmOp's fields to its schema. A field that the schema lacks is skipped; a test finds it.
pub fn add_to(schema: &mut Value) {
    add(schema, of_helmop());
}

/// Adds limits of fields to a schema.
pub(crate) fn add(schema: &mut Value, limits: impl Iterator<Item = (String, Measure, usize)>) {
    for (path, measure, max) in limits {
        if let Some(Value::Object(field)) = field_of(schema, &path) {
            field.insert(measure.keyword().to_owned(), json!(max));
        }
    }
}

/// The schema of a field.
pub(crate) fn field_of<'s>(schema: &'s mut Value, path: &str) -> Option<&'s mut Value> {
    path.split('.').try_fold(schema, |schema, step| {
        let name = step.trim_end_matches("[]");
        let field = schema.get_mut("properties")?.get_mut(name)?;
        if step.ends_with("[]") {
            field.get_mut("items")
        } else {
            Some(field)
        }
    })
}
