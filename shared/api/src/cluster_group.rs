//! The ClusterGroup: a named set of clusters.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::{
    condition::Condition,
    kind::{TypeMeta, kind},
    metadata::Metadata,
    status::{BundleSummary, ResourceCounts},
    wire_struct::wire,
};

wire! {
    /// A named set of clusters of its namespace that targets can use.
    pub struct ClusterGroup: [type_meta: TypeMeta<ClusterGroup>] {
        /// Name, namespace, labels and so on.
        "metadata" => metadata: Metadata,
        /// The clusters of the group.
        "spec" => spec: ClusterGroupSpec,
        /// The state of everything that is deployed to them.
        "status" => status: Option<ClusterGroupStatus>,
    }
}

kind!(ClusterGroup, "clustergroups");

wire! {
    /// The clusters of the group.
    pub struct ClusterGroupSpec {
        /// Selects clusters by their labels. `{}` selects every cluster; without a selector the group is empty.
        "selector" | nullable => selector: Option<LabelSelector>,
    }
}

wire! {
    /// The state of everything that is deployed to the group's clusters.
    pub struct ClusterGroupStatus {
        /// Number of clusters.
        "clusterCount" => cluster_count: Option<i64>,
        /// Number of clusters on which something is not ready.
        "nonReadyClusterCount" => non_ready_cluster_count: Option<i64>,
        /// The first few clusters on which something is not ready.
        "nonReadyClusters" | nullable => non_ready_clusters: Vec<String>,
        /// The object's conditions.
        "conditions" | nullable => conditions: Vec<Condition>,
        /// Number of deployments by state.
        "summary" => summary: Option<BundleSummary>,
        /// What `kubectl get` shows.
        "display" => display: Option<ClusterGroupDisplay>,
        /// Number of deployed objects by state.
        "resourceCounts" => resource_counts: Option<ResourceCounts>,
    }
}

wire! {
    /// What `kubectl get` shows of a ClusterGroup.
    pub struct ClusterGroupDisplay {
        /// Ready and all clusters, such as `2/3`.
        "readyClusters" | nullable => ready_clusters: String,
        /// Ready and all Bundles, such as `2/3`.
        "readyBundles" | nullable => ready_bundles: String,
        /// The worst state of a deployment.
        "state" | nullable => state: String,
    }
}
