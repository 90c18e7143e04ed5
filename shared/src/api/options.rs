//! Everything about a deployment that can differ from cluster to cluster.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::{diff::DiffOptions, helm::HelmOptions, wire::wire};

wire! {
    /// How a bundle is deployed to a cluster. It stands in HelmOps and Bundles for all clusters, and in each of their
    /// targets for the clusters of that target.
    ///
    /// The order of the fields is Fleet's: what identifies a deployment is a hash of them in their order.
    pub struct BundleDeploymentOptions {
        /// Options of bundles that are made of plain manifests. HelmOps do not use it.
        "yaml" | nullable => yaml: Option<YamlOptions>,
        /// Options of bundles that are made with Kustomize. HelmOps do not use it.
        "kustomize" | nullable => kustomize: Option<KustomizeOptions>,
        /// Namespace for objects that name none. The release is recorded in it.
        "defaultNamespace" | nullable => default_namespace: String,
        /// Namespace that every object is put into, whatever namespace it names. A chart with cluster-scoped objects
        /// cannot be deployed with it.
        "namespace" | nullable => namespace: String,
        /// Which chart to deploy and how Helm installs it.
        "helm" => helm: Option<HelmOptions>,
        /// ServiceAccount in the agent's namespace on the target cluster that the agent acts as.
        "serviceAccount" | nullable => service_account: String,
        /// Create the release's namespace when it is missing. Yes by default.
        "createNamespace" | nullable => create_namespace: Option<bool>,
        /// Raise this number to deploy again although nothing else changed.
        "forceSyncGeneration" => force_sync_generation: i64,
        /// Differences between deployed and wanted objects that are not reported as drift.
        "diff" | nullable => diff: Option<DiffOptions>,
        /// Keep the deployed objects when the bundle is removed from a cluster.
        "keepResources" => keep_resources: bool,
        /// Delete the release's namespace when the bundle is removed.
        "deleteNamespace" => delete_namespace: bool,
        /// What is left out when it is decided whether objects are ready.
        "ignore" | nullable => ignore: Option<IgnoreOptions>,
        /// Whether and how changes made on the cluster are undone.
        "correctDrift" => correct_drift: Option<CorrectDrift>,
        /// Labels of the release's namespace. Labels that are not listed are removed from it.
        "namespaceLabels" | nullable => namespace_labels: BTreeMap<String, String>,
        /// Annotations of the release's namespace. Annotations that are not listed are removed from it.
        "namespaceAnnotations" | nullable => namespace_annotations: BTreeMap<String, String>,
        /// Delete the chart's CustomResourceDefinitions too, and with them every object of these kinds, when the
        /// bundle is removed.
        "deleteCRDResources" => delete_crd_resources: bool,
        /// Secrets and ConfigMaps of this namespace that are copied to the target clusters, next to the release.
        "downstreamResources" => downstream_resources: Vec<DownstreamResource>,
        /// Internal: objects that take the place of ones in the bundle.
        "overwrites" => overwrites: Vec<OverwrittenResource>,
        /// The release's namespace must exist and carry these labels.
        "allowedTargetNamespaceSelector" | nullable => allowed_target_namespace_selector: Option<LabelSelector>,
    }
}

wire! {
    /// Options of bundles that are made of plain manifests.
    pub struct YamlOptions {
        /// Names of folders under `overlays/` that are laid over the manifests.
        "overlays" | nullable => overlays: Vec<String>,
    }
}

wire! {
    /// Options of bundles that are made with Kustomize.
    pub struct KustomizeOptions {
        /// Folder of the kustomization.
        "dir" | nullable => dir: String,
    }
}

wire! {
    /// What is left out when it is decided whether objects are ready.
    pub struct IgnoreOptions {
        /// Conditions to leave out: each entry lists fields of a condition, such as `type` and `status`, and their
        /// values.
        "conditions" | nullable => conditions: Vec<BTreeMap<String, String>>,
    }
}

wire! {
    /// Whether and how changes made on the cluster are undone.
    pub struct CorrectDrift {
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
    pub struct DownstreamResource {
        /// `Secret` or `ConfigMap`, in any case.
        "kind" => kind: String,
        /// Name of the object, in the namespace of the HelmOp or Bundle.
        "name" => name: String,
    }
}

wire! {
    /// Internal: an object that takes the place of one in the bundle.
    pub struct OverwrittenResource {
        /// Kind of the object.
        "kind" => kind: String,
        /// Name of the object.
        "name" => name: String,
        /// Namespace of the object.
        "namespace" => namespace: String,
    }
}
