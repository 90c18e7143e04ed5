//! Status types that several resources have in common.

use super::{condition::Condition, wire_struct::wire};
use std::collections::BTreeMap;

/// A count as the API has it.
pub fn number(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

wire! {
    /// The state of everything that a HelmOp deploys.
    pub struct StatusBase {
        /// Number of clusters on which everything is ready.
        "readyClusters" => ready_clusters: Option<i64>,
        /// Number of clusters that are targeted.
        "desiredReadyClusters" => desired_ready_clusters: Option<i64>,
        /// Number of deployments by state.
        "summary" => summary: Option<BundleSummary>,
        /// What `kubectl get` shows.
        "display" => display: Option<StatusDisplay>,
        /// The object's conditions.
        "conditions" => conditions: Vec<Condition>,
        /// The deployed objects.
        "resources" => resources: Vec<Resource>,
        /// Number of deployed objects by state.
        "resourceCounts" => resource_counts: Option<ResourceCounts>,
        /// Number of deployed objects by state for each cluster, by `namespace/name` of the cluster.
        "perClusterResourceCounts" => per_cluster_resource_counts: BTreeMap<String, ResourceCounts>,
        /// What the lists above omit because they would make the object too large for the API server.
        "omitted" => omitted: Option<Omitted>,
    }
}

wire! {
    /// What is omitted to keep the object small. Entries that are not ready are kept first, and the numbers in `summary`
    /// and `resourceCounts` count everything.
    pub struct Omitted {
        /// Number of objects that `resources` omits.
        "resources" => resources: i64,
        /// Number of clusters that the lists in `resources[].perClusterState` omit, in total for all objects. An object with
        /// such a list has `incompleteState`.
        "perClusterState" => per_cluster_state: i64,
        /// Number of clusters that `perClusterResourceCounts` omits.
        "perClusterResourceCounts" => per_cluster_resource_counts: i64,
    }
}

wire! {
    /// Number of deployments by state.
    pub struct BundleSummary {
        /// Deployed, but some objects are not ready.
        "notReady" => not_ready: i64,
        /// Waiting to be deployed by the agent.
        "waitApplied" => wait_applied: i64,
        /// Could not be deployed.
        "errApplied" => err_applied: i64,
        /// Not deployed until what they depend on is in an accepted state.
        "waitingForDependency" => waiting_for_dependency: i64,
        /// Delayed by the rollout.
        "outOfSync" => out_of_sync: i64,
        /// Deployed and changed on the cluster since.
        "modified" => modified: i64,
        /// Deployed and ready.
        "ready" => ready: Option<i64>,
        /// Not assigned to the agent yet.
        "pending" => pending: i64,
        /// Total number.
        "desiredReady" => desired_ready: Option<i64>,
        /// The first few that are not ready.
        "nonReadyResources" | nullable => non_ready_resources: Vec<NonReadyResource>,
    }
}

wire! {
    /// A deployment that is not ready.
    pub struct NonReadyResource {
        /// Its name.
        "name" | nullable => name: String,
        /// Its state.
        "bundleState" | nullable => bundle_state: String,
        /// Why.
        "message" | nullable => message: String,
        /// Objects that were changed on the cluster.
        "modifiedStatus" | nullable => modified_status: Vec<ModifiedStatus>,
        /// Objects that are not ready.
        "nonReadyStatus" | nullable => non_ready_status: Vec<NonReadyStatus>,
    }
}

wire! {
    /// An object that differs from what was deployed.
    pub struct ModifiedStatus {
        /// Kind of the object.
        "kind" | nullable => kind: String,
        /// API version of the object.
        "apiVersion" | nullable => api_version: String,
        /// Namespace of the object.
        "namespace" | nullable => namespace: String,
        /// Name of the object.
        "name" | nullable => name: String,
        /// The object is missing.
        "missing" => missing: bool,
        /// The object exists but belongs to another owner.
        "exist" => exist: bool,
        /// The object should not exist.
        "delete" => delete: bool,
        /// What was changed.
        "patch" | nullable => patch: String,
    }
}

wire! {
    /// An object that is not ready.
    pub struct NonReadyStatus {
        /// UID of the object.
        "uid" | nullable => uid: String,
        /// Kind of the object.
        "kind" | nullable => kind: String,
        /// API version of the object.
        "apiVersion" | nullable => api_version: String,
        /// Namespace of the object.
        "namespace" | nullable => namespace: String,
        /// Name of the object.
        "name" | nullable => name: String,
        /// Why it is not ready.
        "summary" => summary: Option<ObjectSummary>,
    }
}

wire! {
    /// Why an object is not ready.
    pub struct ObjectSummary {
        /// Its state.
        "state" => state: String,
        /// The state is an error.
        "error" => error: bool,
        /// The state is transient.
        "transitioning" => transitioning: bool,
        /// Details.
        "message" | nullable => message: Vec<String>,
    }
}

wire! {
    /// What `kubectl get` shows of a HelmOp.
    pub struct StatusDisplay {
        /// Ready and targeted deployments, such as `2/3`.
        "readyBundleDeployments" => ready_bundle_deployments: String,
        /// The worst state of a deployment.
        "state" => state: String,
        /// Why.
        "message" => message: String,
        /// The state is an error.
        "error" => error: bool,
    }
}

wire! {
    /// A deployed object, summarized for all clusters.
    pub struct Resource {
        /// API version of the object.
        "apiVersion" | nullable => api_version: String,
        /// Kind of the object.
        "kind" | nullable => kind: String,
        /// Group and lower-case kind of the object.
        "type" | nullable => r#type: String,
        /// Namespace and name of the object.
        "id" | nullable => id: String,
        /// Namespace of the object.
        "namespace" | nullable => namespace: String,
        /// Name of the object.
        "name" | nullable => name: String,
        /// The state is not known on every cluster.
        "incompleteState" => incomplete_state: bool,
        /// The first state that is not ready.
        "state" | nullable => state: String,
        /// The state is an error.
        "error" => error: bool,
        /// The state is transient.
        "transitioning" => transitioning: bool,
        /// Why.
        "message" | nullable => message: String,
        /// Clusters by the object's state on them.
        "perClusterState" | nullable => per_cluster_state: Option<PerClusterState>,
    }
}

wire! {
    /// Clusters by the state of an object on them.
    pub struct PerClusterState {
        /// The object is ready.
        "ready" | nullable => ready: Vec<String>,
        /// The object is waiting to be deployed.
        "waitApplied" | nullable => wait_applied: Vec<String>,
        /// The object is not assigned to the agent yet.
        "pending" | nullable => pending: Vec<String>,
        /// The object was changed on the cluster.
        "modified" | nullable => modified: Vec<String>,
        /// The object should not exist.
        "orphaned" | nullable => orphaned: Vec<String>,
        /// The object is missing.
        "missing" | nullable => missing: Vec<String>,
        /// The state of the object is not known.
        "unknown" | nullable => unknown: Vec<String>,
        /// The object is not ready.
        "notReady" | nullable => not_ready: Vec<String>,
    }
}

wire! {
    /// Number of deployed objects by state.
    pub struct ResourceCounts {
        /// Ready.
        "ready" => ready: Option<i64>,
        /// Total number.
        "desiredReady" => desired_ready: Option<i64>,
        /// Waiting to be deployed.
        "waitApplied" => wait_applied: Option<i64>,
        /// Changed on the cluster.
        "modified" => modified: Option<i64>,
        /// Exists, but should not.
        "orphaned" => orphaned: Option<i64>,
        /// Missing.
        "missing" => missing: Option<i64>,
        /// Unknown.
        "unknown" => unknown: Option<i64>,
        /// Not ready.
        "notReady" => not_ready: Option<i64>,
    }
}
