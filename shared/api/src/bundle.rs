//! The Bundle: a chart in one concrete version, and the clusters it goes to.

use super::{
    condition::Condition,
    kind::{TypeMeta, kind},
    lifecycle::LifecycleSummary,
    metadata::Metadata,
    options::BundleDeploymentOptions,
    rollout::RolloutStrategy,
    status::BundleSummary,
    target::{BundleRef, BundleTarget, BundleTargetRestriction},
    unknown_fields::UnknownFields,
    wire_struct::wire,
};

wire! {
    /// A chart in one concrete version and the clusters that it is deployed to.
    pub struct Bundle: [type_meta: TypeMeta<Bundle>, unknown: UnknownFields] {
        /// Name, namespace, labels and so on.
        "metadata" => metadata: Metadata,
        /// What is deployed and to which clusters.
        "spec" => spec: BundleSpec,
        /// The observed state.
        "status" => status: Option<Box<BundleStatus>>,
    }
}

kind!(Bundle, "bundles");

wire! {
    /// What is deployed and to which clusters.
    pub struct BundleSpec: [options: BundleDeploymentOptions] {
        /// Update no cluster.
        "paused" => paused: bool,
        /// In which order clusters are updated and how many may be unavailable meanwhile.
        "rolloutStrategy" | nullable => rollout_strategy: Option<RolloutStrategy>,
        /// Internal: the files of a bundle that is not made from a chart repository.
        "resources" | nullable => resources: Vec<BundleResource>,
        /// Whether only the first target that matches a cluster customizes it (`FirstMatch`), or all matching targets are
        /// merged in their order (`AllMatches`).
        #[schemars(extend("enum" = ["FirstMatch", "AllMatches"]))]
        "targetCustomizationMode" => target_customization_mode: String,
        /// Which clusters the bundle goes to. Without any it goes to the ClusterGroup `default`.
        "targets" => targets: Vec<BundleTarget>,
        /// Limits on the clusters that targets may select.
        "targetRestrictions" => target_restrictions: Vec<BundleTargetRestriction>,
        /// Bundles that must be ready on a cluster before this one is deployed there.
        "dependsOn" | nullable => depends_on: Vec<BundleRef>,
        /// Internal: identifies content that is stored in an OCI registry.
        "contentsId" | nullable => contents_id: String,
        /// Internal: how the agent fetches the chart. Set only on Bundles that are made from HelmOps.
        "helmOpOptions" | nullable => helm_op_options: Option<BundleHelmOptions>,
        /// Internal: hash of values that are kept in a Secret.
        "valuesHash" => values_hash: String,
    }
}

wire! {
    /// A file of a bundle.
    pub struct BundleResource: [unknown: UnknownFields] {
        /// Path of the file.
        "name" | nullable => name: String,
        /// Content of the file.
        "content" | nullable => content: String,
        /// Encoding of `content`: empty for plain text, or `base64+gz`.
        "encoding" | nullable => encoding: String,
    }
}

wire! {
    /// How the agent fetches the chart of a HelmOp.
    pub struct BundleHelmOptions: [unknown: UnknownFields] {
        /// Secret with the credentials for the repository or registry, in the Bundle's namespace.
        "helmOpSecretName" => secret_name: String,
        /// Do not verify the certificate of the repository or registry.
        "helmOpInsecureSkipTLSVerify" => insecure_skip_tls_verify: bool,
        /// Certificates to trust in addition to those of the system, PEM in base64.
        #[schemars(extend("format" = "byte"))]
        "helmOpCABundle" | nullable => ca_bundle: String,
    }
}

wire! {
    /// The observed state of a Bundle.
    pub struct BundleStatus {
        /// The object's conditions.
        "conditions" => conditions: Vec<Condition>,
        /// Number of clusters by state.
        "summary" => summary: Option<BundleSummary>,
        /// Number of clusters that got the bundle for the first time in the last rollout step.
        "newlyCreated" => newly_created: i64,
        /// Number of clusters that are not up to date or not available.
        "unavailable" => unavailable: Option<i64>,
        /// Number of partitions that are not available.
        "unavailablePartitions" => unavailable_partitions: Option<i64>,
        /// How many clusters may be unavailable.
        "maxUnavailable" => max_unavailable: Option<i64>,
        /// How many partitions may be unavailable.
        "maxUnavailablePartitions" => max_unavailable_partitions: Option<i64>,
        /// How many clusters get the bundle for the first time in one rollout step.
        "maxNew" => max_new: Option<i64>,
        /// The partitions and their state.
        "partitions" => partitions: Vec<PartitionStatus>,
        /// What `kubectl get` shows.
        "display" => display: Option<BundleDisplay>,
        /// Deprecated, empty.
        "resourceKey" | nullable => resource_key: Vec<ResourceKey>,
        /// Internal: where the content is stored in an OCI registry.
        "ociReference" => oci_reference: String,
        /// The `metadata.generation` that the status is for.
        "observedGeneration" => observed_generation: Option<i64>,
        /// Internal: hash of the bundle's files.
        "resourcesSha256Sum" => resources_sha256_sum: String,
        /// The life cycle of the releases, if `spec.lifecycle` is set.
        "lifecycle" => lifecycle: Option<LifecycleSummary>,
        /// What is rolled out and what it waits for, if a partition of `spec.rolloutStrategy` has to wait for something.
        "rollout" => rollout: Option<RolloutStatus>,
        /// The last rollout that was completed, if `spec.rolloutStrategy.onFailure.action` is `Rollback`.
        "completed" => completed: Option<Box<CompletedRollout>>,
    }
}

wire! {
    /// A rollout that was completed: what the clusters go back to when a later one fails.
    pub struct CompletedRollout {
        /// Its ID.
        "id" => id: String,
        /// The spec of the Bundle, as JSON.
        "spec" => spec: String,
        /// The record of its charts with their digests, as JSON: the annotation `helmops.fleet.cattle.io/resolved`.
        "resolved" => resolved: String,
    }
}

/// `waitsFor` of a rollout whose next partition waits until an earlier one was complete for a while.
pub const SOAK: &str = "Soak";
/// `waitsFor` of a rollout whose next partition needs an approval.
pub const APPROVAL: &str = "Approval";
/// `waitsFor` of a rollout whose next partition has a gate that is not open.
pub const GATE: &str = "Gate";
/// `waitsFor` of a rollout that has failed on too many clusters.
pub const HALT: &str = "Halt";
/// `waitsFor` of a HelmOp whose rollout has failed, so that its clusters have gone back.
pub const ROLLBACK: &str = "Rollback";

wire! {
    /// What is rolled out, and what it waits for.
    pub struct RolloutStatus {
        /// Identifies what is rolled out: the chart, its version and options, and the targets.
        "id" => id: String,
        /// What it waits for; empty if it waits for nothing.
        #[schemars(extend("enum" = ["", SOAK, GATE, APPROVAL, HALT, ROLLBACK]))]
        "waitsFor" => waits_for: String,
        /// The partition that waits.
        "partition" => partition: String,
        /// When it goes on by itself.
        "until" => until: String,
        /// Since when it goes on only if a user does something. Empty while clusters are still being updated that an approval depends on.
        "since" => since: String,
        /// What it waits for, and what ends that.
        "message" => message: String,
        /// On how many clusters it has failed at most, if `spec.rolloutStrategy.onFailure` is set.
        "failed" => failed: i64,
    }
}

wire! {
    /// A partition of a rollout and its state.
    pub struct PartitionStatus {
        /// Name of the partition.
        "name" | nullable => name: String,
        /// Number of its clusters.
        "count" => count: i64,
        /// How many of them may be unavailable.
        "maxUnavailable" => max_unavailable: i64,
        /// How many of them are unavailable.
        "unavailable" => unavailable: i64,
        /// Number of its clusters by state.
        "summary" => summary: Option<BundleSummary>,
        /// Since when it is complete, if a partition after it has to wait for that.
        "completedAt" => completed_at: String,
        /// Since when it waits for its gate.
        "gateSince" => gate_since: String,
        /// When its gate has let it begin. Once it is passed, it is not evaluated again for the same rollout.
        "gatePassedAt" => gate_passed_at: String,
    }
}

wire! {
    /// What `kubectl get` shows of a Bundle.
    pub struct BundleDisplay {
        /// Ready and targeted clusters, such as `2/3`.
        "readyClusters" | nullable => ready_clusters: String,
        /// The worst state of a cluster.
        "state" | nullable => state: String,
    }
}

wire! {
    /// Reference to an object.
    pub struct ResourceKey {
        /// Kind of the object.
        "kind" | nullable => kind: String,
        /// API version of the object.
        "apiVersion" | nullable => api_version: String,
        /// Namespace of the object.
        "namespace" | nullable => namespace: String,
        /// Name of the object.
        "name" | nullable => name: String,
    }
}
