//! The Cluster: where Bundles are deployed to.

use super::{
    condition::Condition,
    free_form::FreeForm,
    kind::{Types, kind},
    metadata::Metadata,
    status::{BundleSummary, ResourceCounts},
    wire::wire,
};

wire! {
    /// A cluster that Bundles can be deployed to.
    ///
    /// The status is written by the controller that registers clusters and by their agents; only the fields that others need are typed.
    pub struct Cluster: [types: Types<Cluster>] {
        /// Name, namespace, labels and so on. Targets select clusters by these labels.
        "metadata" => metadata: Metadata,
        /// What the cluster is to be.
        "spec" => spec: ClusterSpec,
        /// What is known of it.
        "status" => status: ClusterStatus,
    }
}

kind!(Cluster, "clusters");

wire! {
    /// What a cluster is to be.
    pub struct ClusterSpec {
        /// Hold every Bundle on the cluster at what it has now.
        "paused" => paused: bool,
        /// Identifies the cluster when its agent registers. Made up when it is missing.
        "clientID" | nullable => client_id: String,
        /// Secret with the kubeconfig of the cluster, where the agent is installed from here.
        "kubeConfigSecret" | nullable => kube_config_secret: String,
        /// Namespace of that Secret. By default that of the Cluster.
        "kubeConfigSecretNamespace" | nullable => kube_config_secret_namespace: String,
        /// Raise this number to deploy the agent again although nothing else changed.
        "redeployAgentGeneration" => redeploy_agent_generation: i64,
        /// Environment variables of the agent.
        "agentEnvVars" | nullable => agent_env_vars: Vec<FreeForm>,
        /// Namespace of the agent on the cluster.
        "agentNamespace" | nullable => agent_namespace: String,
        /// Registry that the agent's image is taken from.
        "privateRepoURL" | nullable => private_repo_url: String,
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
    /// What is known of a cluster.
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
        /// Number of GitRepos that go to the cluster.
        "desiredReadyGitRepos" => desired_ready_git_repos: Option<i64>,
        /// Number of HelmOps that are ready on the cluster.
        "readyHelmOps" => ready_helm_ops: Option<i64>,
        /// Number of HelmOps that go to the cluster.
        "desiredReadyHelmOps" => desired_ready_helm_ops: Option<i64>,
        /// Internal: hash of the agent's environment variables.
        "agentEnvVarsHash" | nullable => agent_env_vars_hash: String,
        /// Internal: registry that the agent's image is taken from.
        "agentPrivateRepoURL" | nullable => agent_private_repo_url: String,
        /// Internal: the agent runs in the network of its node.
        "agentHostNetwork" | nullable => agent_host_network: bool,
        /// Internal: the `redeployAgentGeneration` that was deployed.
        "agentDeployedGeneration" | nullable => agent_deployed_generation: Option<i64>,
        /// Internal: the agent is none of an old kind.
        "agentMigrated" => agent_migrated: bool,
        /// Internal: the agent's namespace is none of an old kind.
        "agentNamespaceMigrated" => agent_namespace_migrated: bool,
        /// Internal: the agent's namespace is none of an old kind.
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
        /// URL that the agent reaches this API server by.
        "apiServerURL" | nullable => api_server_url: String,
        /// Internal: hash of the certificates that the agent trusts.
        "apiServerCAHash" | nullable => api_server_ca_hash: String,
        /// Whether the agent trusts the system's certificates (`system-store`) or only those given to it (`strict`).
        "agentTLSMode" | nullable => agent_tls_mode: String,
        /// What `kubectl get` shows.
        "display" => display: Option<ClusterDisplay>,
        /// What the agent says of itself.
        "agent" => agent: Option<AgentStatus>,
        /// How often the agent removes releases that nothing needs.
        "garbageCollectionInterval" => garbage_collection_interval: String,
        /// Some Schedule is about the cluster.
        "scheduled" => scheduled: bool,
        /// Now is a time at which that Schedule lets things be deployed.
        "activeSchedule" => active_schedule: bool,
    }
}

impl ClusterStatus {
    /// Whether some Schedule is about the cluster, and now is not its time: nothing is changed there.
    pub const fn is_out_of_schedule(&self) -> bool {
        self.scheduled && !self.active_schedule
    }
}

wire! {
    /// What `kubectl get` shows of a Cluster.
    pub struct ClusterDisplay {
        /// Ready Bundles and all of them, such as `2/3`.
        "readyBundles" => ready_bundles: String,
        /// The worst state of a deployment, or `WaitCheckIn`.
        "state" | nullable => state: String,
    }
}

wire! {
    /// What the agent says of itself.
    pub struct AgentStatus {
        /// When the agent last said that it is there.
        "lastSeen" | nullable => last_seen: String,
        /// Namespace of the agent on the cluster.
        "namespace" | nullable => namespace: String,
    }
}
