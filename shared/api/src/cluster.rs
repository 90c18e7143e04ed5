//! The Cluster: a cluster that Bundles are deployed to.

use super::{
    condition::Condition,
    free_form::FreeForm,
    kind::{TypeMeta, kind},
    metadata::Metadata,
    schedule::ClusterWindow,
    status::{BundleSummary, ResourceCounts},
    wire_struct::wire,
};

wire! {
    /// A cluster that Bundles can be deployed to.
    ///
    /// The controller that registers clusters and the agents write the status; only the fields that other components need
    /// are typed.
    pub struct Cluster: [type_meta: TypeMeta<Cluster>] {
        /// Name, namespace, labels and so on. Targets select clusters by these labels.
        "metadata" => metadata: Metadata,
        /// The desired state of the cluster.
        "spec" => spec: ClusterSpec,
        /// The observed state of the cluster.
        "status" => status: ClusterStatus,
    }
}

kind!(Cluster, "clusters");

wire! {
    /// The desired state of a cluster.
    pub struct ClusterSpec {
        /// Update no Bundle on the cluster.
        "paused" => paused: bool,
        /// Identifies the cluster when its agent registers. Generated if it is missing.
        "clientID" | nullable => client_id: String,
        /// Secret with the kubeconfig of the cluster, if the agent is installed from this cluster.
        "kubeConfigSecret" | nullable => kube_config_secret: String,
        /// Namespace of that Secret. By default that of the Cluster.
        "kubeConfigSecretNamespace" | nullable => kube_config_secret_namespace: String,
        /// Increase this number to deploy the agent again although nothing else changed.
        "redeployAgentGeneration" => redeploy_agent_generation: i64,
        /// Environment variables of the agent.
        "agentEnvVars" | nullable => agent_env_vars: Vec<FreeForm>,
        /// Namespace of the agent on the cluster.
        "agentNamespace" | nullable => agent_namespace: String,
        /// Registry of the agent's image.
        "privateRepoURL" | nullable => private_repo_url: String,
        /// Secrets to pull the agent's image with.
        "agentPullSecrets" | nullable => agent_pull_secrets: Vec<FreeForm>,
        /// Values that templates in Helm values can use as `.ClusterValues`.
        "templateValues" | nullable => template_values: Option<FreeForm>,
        /// Tolerations of the agent's pod.
        "agentTolerations" | nullable => agent_tolerations: Vec<FreeForm>,
        /// Affinity of the agent's pod.
        "agentAffinity" | nullable => agent_affinity: Option<FreeForm>,
        /// Resources of the agent's container.
        "agentResources" | nullable => agent_resources: Option<FreeForm>,
        /// Run the agent in the network of its node.
        "hostNetwork" | nullable => host_network: Option<bool>,
        /// Priority class and disruption budget of the agent.
        "agentSchedulingCustomization" | nullable => agent_scheduling_customization: Option<FreeForm>,
    }
}

wire! {
    /// The observed state of a cluster.
    pub struct ClusterStatus {
        /// The object's conditions.
        "conditions" | nullable => conditions: Vec<Condition>,
        /// Namespace with the cluster's BundleDeployments. Nothing is deployed before it is known.
        "namespace" => namespace: String,
        /// Number of deployments by state.
        "summary" => summary: Option<BundleSummary>,
        /// Number of deployed objects by state.
        "resourceCounts" => resource_counts: Option<ResourceCounts>,
        /// Number of GitRepos that are ready on the cluster.
        "readyGitRepos" => ready_git_repos: Option<i64>,
        /// Number of GitRepos that target the cluster.
        "desiredReadyGitRepos" => desired_ready_git_repos: Option<i64>,
        /// Number of HelmOps that are ready on the cluster.
        "readyHelmOps" => ready_helm_ops: Option<i64>,
        /// Number of HelmOps that target the cluster.
        "desiredReadyHelmOps" => desired_ready_helm_ops: Option<i64>,
        /// Internal: hash of the agent's environment variables.
        "agentEnvVarsHash" | nullable => agent_env_vars_hash: String,
        /// Internal: registry of the agent's image.
        "agentPrivateRepoURL" | nullable => agent_private_repo_url: String,
        /// Internal: the agent runs in the network of its node.
        "agentHostNetwork" | nullable => agent_host_network: bool,
        /// Internal: the `redeployAgentGeneration` that was deployed.
        "agentDeployedGeneration" | nullable => agent_deployed_generation: Option<i64>,
        /// Internal: the agent was migrated from an old version.
        "agentMigrated" => agent_migrated: bool,
        /// Internal: the agent's namespace was migrated from an old version.
        "agentNamespaceMigrated" => agent_namespace_migrated: bool,
        /// Internal: the agent's namespace was migrated from an old version.
        "cattleNamespaceMigrated" => cattle_namespace_migrated: bool,
        /// Internal: hash of the agent's affinity.
        "agentAffinityHash" => agent_affinity_hash: String,
        /// Internal: hash of the agent's resources.
        "agentResourcesHash" | nullable => agent_resources_hash: String,
        /// Internal: hash of the agent's tolerations.
        "agentTolerationsHash" | nullable => agent_tolerations_hash: String,
        /// Internal: the agent's configuration changed.
        "agentConfigChanged" => agent_config_changed: bool,
        /// Internal: hash of the agent's priority class and disruption budget.
        "agentSchedulingCustomizationHash" => agent_scheduling_customization_hash: String,
        /// URL of this API server for the agent.
        "apiServerURL" | nullable => api_server_url: String,
        /// Internal: hash of the certificates that the agent trusts.
        "apiServerCAHash" | nullable => api_server_ca_hash: String,
        /// Whether the agent trusts the system's certificates (`system-store`) or only those given to it (`strict`).
        "agentTLSMode" | nullable => agent_tls_mode: String,
        /// What `kubectl get` shows.
        "display" => display: Option<ClusterDisplay>,
        /// What the agent reports about itself.
        "agent" => agent: Option<AgentStatus>,
        /// How often the agent removes unused releases.
        "garbageCollectionInterval" => garbage_collection_interval: String,
        /// A Schedule selects the cluster.
        "scheduled" => scheduled: bool,
        /// The Schedule allows deployments now.
        "activeSchedule" => active_schedule: bool,
        /// The Schedules that select the cluster, and until when they allow deployments or do not. Fleet's CRD has no such field.
        "window" => window: Option<ClusterWindow>,
    }
}

impl ClusterStatus {
    /// Whether a Schedule selects the cluster and does not allow deployments now: nothing is changed there.
    pub const fn is_out_of_schedule(&self) -> bool {
        self.scheduled && !self.active_schedule
    }

    /// The Schedules of a cluster that cannot be changed now, with the start of its next window. In a window there is none: the time in the
    /// status is its end then.
    pub fn awaited_window(&self) -> Option<&ClusterWindow> {
        self.window.as_ref().filter(|_| self.is_out_of_schedule())
    }
}

wire! {
    /// What `kubectl get` shows of a Cluster.
    pub struct ClusterDisplay {
        /// Ready and all Bundles, such as `2/3`.
        "readyBundles" => ready_bundles: String,
        /// The worst state of a deployment, or `WaitCheckIn`.
        "state" | nullable => state: String,
    }
}

wire! {
    /// What the agent reports about itself.
    pub struct AgentStatus {
        /// When the agent last reported.
        "lastSeen" | nullable => last_seen: String,
        /// Namespace of the agent on the cluster.
        "namespace" | nullable => namespace: String,
        /// Version of the agent. Fleet's agent does not report it, and Fleet's CRD has no such field.
        "version" | nullable => version: String,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// When a window begins, its end is in the status of the cluster before its BundleDeployments can be deployed.
    #[test]
    fn the_end_of_a_window_is_no_start_of_one() {
        let window = json!({ "schedules": ["night"], "until": "2026-12-01T02:00:00Z" });
        for (is_open, expected) in [(false, Some("2026-12-01T02:00:00Z")), (true, None)] {
            let status = json!({ "scheduled": true, "activeSchedule": is_open, "window": window });
            let status: ClusterStatus = serde_json::from_value(status).unwrap();
            assert_eq!(status.awaited_window().map(|window| &*window.until), expected);
        }
        assert_eq!(ClusterStatus::default().awaited_window(), None);
    }
}
