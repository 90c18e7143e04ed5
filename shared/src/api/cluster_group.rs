//! The ClusterGroup: clusters under one name.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::{
    condition::Condition,
    kind::{Types, kind},
    metadata::Metadata,
    status::{BundleSummary, ResourceCounts},
    wire::wire,
};

wire! {
    /// Clusters of its namespace under one name that targets can use.
    pub struct ClusterGroup: [types: Types<ClusterGroup>] {
        /// Name, namespace, labels and so on.
        "metadata" => metadata: Metadata,
        /// Which clusters.
        "spec" => spec: ClusterGroupSpec,
        /// The state of everything that is deployed to them.
        "status" => status: Option<ClusterGroupStatus>,
    }
}

kind!(ClusterGroup, "clustergroups");

wire! {
    /// Which clusters.
    pub struct ClusterGroupSpec {
        /// Selects clusters by their labels. `{}` selects every cluster, and without a selector there is none.
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
        /// Ready clusters and all of them, such as `2/3`.
        "readyClusters" | nullable => ready_clusters: String,
        /// Ready Bundles and all of them, such as `2/3`.
        "readyBundles" | nullable => ready_bundles: String,
        /// The worst state of a deployment.
        "state" | nullable => state: String,
    }
}
