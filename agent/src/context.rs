//! What the reconciliations share.

use helmops_api::{BundleDeployment, Decoded, NamespacedName};
use helmops_helm::kubeconfig::kubeconfig;
use helmops_kube::lease::Leadership;
use helmops_release::names::SetId;
use helmops_runtime::retry_state::RetryState;
use helmops_trace::Tracer;
use kube::{Client, Config, runtime::reflector::ObjectRef};
use tokio_util::sync::CancellationToken;

use crate::{
    charts::Charts,
    deployments::Deployments,
    error::AgentError,
    helm::HelmRuns,
    inputs::{Accounts, ValuesSources, WatchedObjects},
    live::{Kinds, LiveObjects},
    memory::Releases,
    metrics::Metrics,
    owned::OwnedReleases,
    records::Records,
    removal::order::RemovalWaits,
    reports::Reports,
    rules::SetRules,
    running::RunningWork,
    upstream::NamespaceGuard,
};

/// The key of a BundleDeployment.
pub type Key = ObjectRef<Decoded<BundleDeployment>>;

/// What the reconciliations share.
pub struct Context {
    /// The management cluster.
    pub upstream: Client,
    /// This cluster, with the permissions of the agent.
    pub downstream: Client,
    /// The configuration of [`Context::downstream`], for Helm.
    pub config: Config,
    /// The accounts that deploy.
    pub accounts: Accounts,
    /// Whether this replica may write.
    pub leadership: Leadership,
    /// The Cluster of this cluster, in the management cluster.
    pub cluster: NamespacedName,
    /// The namespace of the BundleDeployments, in the management cluster.
    pub deployment_namespace: String,
    /// The namespace of the agent.
    pub namespace: String,
    /// The scope of the agent, a part of the identity of objects; empty for none.
    pub scope: String,
    /// The namespaces with releases; empty for all.
    pub release_namespaces: Vec<String>,
    /// Which BundleDeployment an object belongs to.
    pub rules: SetRules,
    /// The BundleDeployments.
    pub deployments: Deployments,
    /// The records of releases.
    pub records: Records,
    /// The kinds of this cluster.
    pub kinds: Kinds,
    /// The live objects.
    pub live: LiveObjects,
    /// The ConfigMaps and Secrets that values come from.
    pub sources: ValuesSources,
    /// The objects that BundleDeployments wait for.
    pub awaited: WatchedObjects,
    /// Whether the status of a release shows the end of the log of a container that crashes.
    pub shows_pod_logs: bool,
    /// Knows whether a BundleDeployment was deleted.
    pub guard: NamespaceGuard,
    /// The releases that this agent has deployed: only these are uninstalled.
    pub owned: OwnedReleases,
    /// The charts.
    pub charts: Charts,
    /// Helm.
    pub helm: HelmRuns,
    /// What a change of a BundleDeployment ends.
    pub running: RunningWork,
    /// What removals wait for.
    pub removals: RemovalWaits,
    /// What is known of the releases.
    pub releases: Releases,
    /// When failed deployments are tried again.
    pub retries: RetryState<Key>,
    /// Records spans of traces.
    pub tracer: Tracer,
    /// Metrics of reconciliations.
    pub metrics: Metrics,
    /// What was reported of releases.
    pub reports: Reports,
    /// Cancelled when the agent stops: a running Helm is interrupted.
    pub stop: CancellationToken,
}

impl Context {
    /// The key of a BundleDeployment.
    pub fn key(&self, name: &str) -> Key {
        Key::new(name).within(&self.deployment_namespace)
    }

    /// The kubeconfig of Helm, with the permissions of the agent.
    ///
    /// # Errors
    /// If the configuration cannot be written as a kubeconfig.
    pub fn kubeconfig(&self) -> Result<Vec<u8>, AgentError> {
        kubeconfig(&self.config).map_err(|error| AgentError::Client(error.to_string()))
    }

    /// The identity of the objects of a BundleDeployment.
    pub fn set_of(&self, deployment: &str) -> SetId {
        SetId::new(deployment, &self.scope)
    }
}
