//! What the reconciliations share.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex},
    time::Instant,
};

use helmops_api::{BundleDeployment, Decoded, NamespacedName, lifecycle::Requests};
use helmops_kube::lease::Leadership;
use helmops_process::lock;
use helmops_release::{names::SetId, record::TestFilters, report::TestResult};
use helmops_runtime::retry_state::RetryState;
use helmops_trace::Tracer;
use kube::{Client, Config, runtime::reflector::ObjectRef};
use tokio::sync::Mutex as AsyncMutex;
use tokio_util::sync::CancellationToken;

use crate::{
    charts::Charts,
    deployments::Deployments,
    error::AgentError,
    helm::{Helm, kubeconfig::kubeconfig},
    inputs::{Accounts, CopyId},
    live::{Kinds, LiveObjects},
    metrics::Metrics,
    monitor::Installed,
    owned::OwnedReleases,
    reconcile::Watched,
    records::Records,
    reports::Reports,
    revision::RevisionId,
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
    /// Knows whether a BundleDeployment was deleted.
    pub guard: NamespaceGuard,
    /// The releases that this agent has deployed: only these are uninstalled.
    pub owned: OwnedReleases,
    /// The charts.
    pub charts: Charts,
    /// Helm.
    pub helm: Helm,
    /// What a change of a BundleDeployment ends.
    pub running: RunningWork,
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

/// What is known of the release of each BundleDeployment.
#[derive(Debug, Default)]
pub struct Releases(Mutex<HashMap<String, Release>>);

/// What is known of the release of a BundleDeployment. It is locked while it is used: by its reconciliation, or by its removal.
pub type Release = Arc<AsyncMutex<Known>>;

/// What is known of the release of a BundleDeployment.
#[derive(Debug, Default)]
pub struct Known {
    /// The installed revision.
    pub installed: Option<Installed>,
    /// Since when the state of its objects is not known.
    pub unknown_since: Option<Instant>,
    /// The requests that were handled last: the cache may not show the status with them yet.
    pub handled: Option<Requests>,
    /// What is known of its tests.
    pub tests: KnownTests,
    /// What was seen of the deployed revision.
    pub watched: Option<Watched>,
    /// The copies of the last release that was settled.
    pub copies: Option<BTreeSet<CopyId>>,
}

/// What is known of tests.
#[derive(Debug, Default)]
pub struct KnownTests {
    /// The revision whose tests are reported as running.
    pub reported: Option<RevisionId>,
    /// The tests that have ended.
    pub ended: Option<Tested>,
}

/// Tests that have ended.
#[derive(Debug)]
pub struct Tested {
    /// The revision.
    pub id: RevisionId,
    /// Which tests.
    pub filters: TestFilters,
    /// Their result.
    pub result: TestResult,
}

impl Tested {
    /// Whether it is the result of these tests of this revision.
    pub fn is(&self, revision: &RevisionId, filters: &TestFilters) -> bool {
        (&self.id, &self.filters) == (revision, filters)
    }
}

impl Releases {
    /// What is known of the release of a BundleDeployment.
    pub fn of(&self, deployment: &str) -> Release {
        Arc::clone(lock(&self.0).entry(deployment.to_owned()).or_default())
    }

    /// Forgets a BundleDeployment.
    pub fn forget(&self, deployment: &str) {
        lock(&self.0).remove(deployment);
    }
}

#[cfg(test)]
mod tests {
    use helmops_release::names::ReleaseKey;
    use k8s_openapi::jiff::Timestamp;

    use super::*;

    #[test]
    fn tests_of_a_revision_are_no_result_of_the_next_one_with_its_number() {
        let revision = |number, made_at| RevisionId {
            release: ReleaseKey {
                namespace: "shop".to_owned(),
                name: "web".to_owned(),
            },
            number,
            made_at: Timestamp::from_second(made_at).ok(),
        };
        let tested = Tested {
            id: revision(2, 100),
            filters: TestFilters::default(),
            result: TestResult::NoTests,
        };
        let all = TestFilters::default();
        let some = TestFilters {
            include: vec!["smoke".to_owned()],
            ..TestFilters::default()
        };
        assert!(tested.is(&revision(2, 100), &all));
        assert!(!tested.is(&revision(2, 200), &all));
        assert!(!tested.is(&revision(3, 100), &all));
        assert!(!tested.is(&revision(2, 100), &some));
    }
}
