//! The options of a deployment that can differ between clusters.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::{
    diff::DiffOptions, helm::HelmOptions, lifecycle::Lifecycle, unknown_fields::UnknownFields,
    wire_struct::wire,
};

wire! {
    /// How a bundle is deployed to a cluster. HelmOps and Bundles have these options for all clusters, and each of their
    /// targets for its clusters.
    ///
    /// The order of the fields is Fleet's: the deployment ID is a hash of them in this order.
    pub struct BundleDeploymentOptions: [unknown: UnknownFields] {
        /// Options of bundles of plain manifests. Not used by HelmOps.
        "yaml" | nullable => yaml: Option<YamlOptions>,
        /// A kustomization of the chart.
        "kustomize" | nullable => kustomize: Option<KustomizeOptions>,
        /// Namespace for objects that name none. The release is recorded in it, unless `lifecycle.storageNamespace` names another.
        "defaultNamespace" | nullable => default_namespace: String,
        /// Namespace that every object is deployed to, regardless of the namespace that it names. A chart with cluster-scoped objects
        /// cannot be deployed with it.
        "namespace" | nullable => namespace: String,
        /// Which chart to deploy and how Helm installs it.
        "helm" => helm: Option<HelmOptions>,
        /// ServiceAccount in the agent's namespace on the target cluster that the agent impersonates.
        "serviceAccount" | nullable => service_account: String,
        /// Create the release's namespace if it is missing. `true` by default.
        "createNamespace" | nullable => create_namespace: Option<bool>,
        /// Increase this number to deploy again although nothing else changed.
        "forceSyncGeneration" => force_sync_generation: i64,
        /// Differences between deployed and desired objects that are not reported as drift.
        "diff" | nullable => diff: Option<DiffOptions>,
        /// Keep the deployed objects when the bundle is removed from a cluster.
        "keepResources" => keep_resources: bool,
        /// Delete the release's namespace when the bundle is removed.
        "deleteNamespace" => delete_namespace: bool,
        /// What is ignored when the readiness of objects is determined.
        "ignore" | nullable => ignore: Option<IgnoreOptions>,
        /// Whether and how changes made on the cluster are undone.
        "correctDrift" => correct_drift: Option<CorrectDrift>,
        /// Retries, remediation, tests, CRDs, waiting, drift and suspension of the release on each cluster. Only helmops-agent has this:
        /// Fleet's CRDs drop it.
        "lifecycle" | nullable => lifecycle: Option<Box<Lifecycle>>,
        /// Labels of the release's namespace. Labels that are not listed are removed from it.
        "namespaceLabels" | nullable => namespace_labels: BTreeMap<String, String>,
        /// Annotations of the release's namespace. Annotations that are not listed are removed from it.
        "namespaceAnnotations" | nullable => namespace_annotations: BTreeMap<String, String>,
        /// Delete the chart's CustomResourceDefinitions too, and with them every object of these kinds, when the
        /// bundle is removed.
        "deleteCRDResources" => delete_crd_resources: bool,
        /// Secrets and ConfigMaps of this namespace that are copied to the target clusters, next to the release.
        "downstreamResources" => downstream_resources: Vec<DownstreamResource>,
        /// Internal: objects that replace objects of the bundle.
        "overwrites" => overwrites: Vec<OverwrittenResource>,
        /// The release's namespace must exist and have these labels.
        "allowedTargetNamespaceSelector" | nullable => allowed_target_namespace_selector: Option<LabelSelector>,
    }
}

impl BundleDeploymentOptions {
    /// The namespace of the records of the release, if `lifecycle.storageNamespace` names one.
    pub fn storage_namespace(&self) -> Option<&str> {
        let lifecycle = self.lifecycle.as_deref()?;
        Some(&*lifecycle.storage_namespace).filter(|namespace| !namespace.is_empty())
    }
}

wire! {
    /// Options of bundles of plain manifests.
    pub struct YamlOptions: [unknown: UnknownFields] {
        /// Names of folders under `overlays/` whose files override the manifests.
        "overlays" | nullable => overlays: Vec<String>,
    }
}

wire! {
    /// A kustomization.
    pub struct KustomizeOptions: [unknown: UnknownFields] {
        /// Folder of the chart with a kustomization. The objects of the chart are its first resource, and what results replaces them.
        "dir" | nullable => dir: String,
    }
}

wire! {
    /// What is ignored when the readiness of objects is determined.
    pub struct IgnoreOptions: [unknown: UnknownFields] {
        /// Conditions to ignore: each entry lists fields of a condition, such as `type` and `status`, and their
        /// values.
        "conditions" | nullable => conditions: Vec<BTreeMap<String, String>>,
    }
}

wire! {
    /// Whether and how changes made on the cluster are undone.
    pub struct CorrectDrift: [unknown: UnknownFields] {
        /// Undo changes made on the cluster.
        "enabled" => enabled: bool,
        /// Replace objects that cannot be patched back.
        "force" => force: bool,
        /// Keep the failed revisions of corrections in the release's history.
        "keepFailHistory" => keep_fail_history: bool,
    }
}

wire! {
    /// A Secret or ConfigMap that is copied to the target clusters.
    pub struct DownstreamResource: [unknown: UnknownFields] {
        /// `Secret` or `ConfigMap`, in any case.
        "kind" => kind: String,
        /// Name of the object, in the namespace of the HelmOp or Bundle.
        "name" => name: String,
    }
}

wire! {
    /// Internal: an object that replaces an object of the bundle.
    pub struct OverwrittenResource: [unknown: UnknownFields] {
        /// Kind of the object.
        "kind" => kind: String,
        /// Name of the object.
        "name" => name: String,
        /// Namespace of the object.
        "namespace" => namespace: String,
    }
}
