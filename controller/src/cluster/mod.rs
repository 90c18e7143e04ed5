//! The cluster loop: creates the namespace of each Cluster and the account of its agent, and updates its status.
//!
//! A user or Rancher registers a cluster by creating the Cluster. This loop creates the namespace for its BundleDeployments, and
//! the account that its agent uses to read them. The status counts them, reports an agent that is silent, and says whether the Schedules of
//! the Cluster let it be changed now.

mod account;

use std::sync::Arc;

use helmops_api::{Cluster, Decoded, NamespacedName, labels};
use helmops_core::{agents::Contact, status};
use helmops_kube::name_of;
use helmops_model::reason::Reason;
use helmops_runtime::{
    client::{CallError, bounded},
    error_class::{Class, Classified, ClassifiedError, classified},
    metrics::{Controller, ReconcileMetrics},
    reconciler::Reconciler,
    retry_state::{Done, RetryState},
    workers::WorkerPermit,
};
use k8s_openapi::{api::core::v1::Namespace, jiff::Timestamp};
use kube::{Api, Resource, api::ObjectMeta, runtime::reflector::ObjectRef};
use thiserror::Error;
use tracing::Span;

use self::account::AccountWriter;
use crate::{
    context::Context, metrics, parts, schedule, watch::DeliveryStores, work::ClusterKey, writes::MANAGER,
};

/// The reconciler of Clusters.
pub struct Clusters<'c> {
    pub context: &'c Context,
    /// The stores that only this loop and that of Bundles need.
    pub stores: &'c DeliveryStores,
}

/// Why a Cluster could not be reconciled.
#[derive(Debug, Error)]
pub enum ClusterError {
    /// Its namespace exists, but is not in the cache yet.
    #[error("the cached {0} is stale")]
    StaleNamespace(String),
    /// An object could not be written.
    #[error(transparent)]
    Api(#[from] CallError),
}

impl ClassifiedError for ClusterError {
    fn classify(&self) -> Classified {
        match self {
            Self::StaleNamespace(_) => classified(Reason::Progressing, Class::Conflict),
            Self::Api(error) => error.classify(),
        }
    }
}

impl Reconciler for Clusters<'_> {
    type Object = Cluster;
    type Error = ClusterError;
    const CONTROLLER: Controller = metrics::CLUSTERS;

    fn get(&self, key: &ClusterKey) -> Option<Arc<Decoded<Cluster>>> {
        self.stores.clusters.all.get(key)
    }

    fn retry_state(&self) -> &RetryState<ClusterKey> {
        &self.context.retries.clusters
    }

    fn metrics(&self) -> &ReconcileMetrics {
        &self.context.metrics.reconciles
    }

    fn span(&self, key: &ClusterKey, _: Option<&ObjectMeta>) -> Span {
        tracing::error_span!("reconcile", cluster = name_of(key).to_string())
    }

    async fn reconcile(
        &self,
        key: &ClusterKey,
        cluster: &Cluster,
        _: &mut WorkerPermit,
    ) -> Result<Done, ClusterError> {
        let name = name_of(key);
        let time = Timestamp::now();
        let now = status::timestamp(time);
        let contact = self.contact(cluster, time);
        let windows = schedule::windows_of(&self.stores.clusters, [cluster], time);
        let windows = windows.into_iter().next().flatten();
        let namespace = self.stores.clusters.namespace_of(cluster);
        let created = match &namespace {
            Ok(namespace) => self.ensure_namespace(&name, namespace).await,
            Err(_) => Ok(()),
        };
        let mut next = match &namespace {
            // The status has the namespace as soon as that exists.
            Ok(_) if created.is_err() => cluster.status.clone(),
            Ok(namespace) => {
                let deployments = self.context.stores.deployments.in_namespace(namespace);
                let deployments: Vec<_> = deployments.iter().map(|deployment| &**deployment).collect();
                status::cluster(cluster, namespace, &deployments, contact, &now)
            }
            Err(refused) => {
                tracing::warn!(message = %refused, "no BundleDeployment is written for the cluster");
                status::refused_cluster(cluster, refused, &now)
            }
        };
        match &windows {
            Some(windows) => windows.fill(&mut next),
            // It is not known which Schedules select a cluster that is new: nothing may be deployed there before that.
            None if cluster.status.namespace.is_empty() => {
                (next.scheduled, next.active_schedule) = (true, false);
            }
            None => {}
        }
        let (client, pending_writes) = (
            &self.context.client,
            &self.context.retries.clusters.pending_writes,
        );
        let reported = MANAGER
            .write_status(client, pending_writes, cluster, &cluster.status, &next)
            .await;
        let joined = match (self.accounts(), &namespace) {
            (Some(accounts), Ok(namespace)) if created.is_ok() && !self.is_terminating(namespace) => {
                accounts.ensure(cluster, namespace).await
            }
            _ => Ok(()),
        };
        let silence = match contact {
            Contact::Reporting(remaining) => Some(remaining),
            Contact::Unknown | Contact::Silent(_) => None,
        };
        let window = schedule::wait(windows.and_then(|windows| windows.again), time);
        // None of them waits for another one.
        let results = [
            created,
            reported.map(drop).map_err(Into::into),
            joined.map_err(Into::into),
        ];
        let errors = results.into_iter().filter_map(Result::err).collect();
        parts::done(errors, silence.into_iter().chain(window).min())
    }

    async fn deleted(&self, key: &ClusterKey, _: &mut WorkerPermit) -> Result<Done, ClusterError> {
        if let Some(accounts) = self.accounts() {
            accounts.delete(&name_of(key)).await?;
        }
        Ok(Done::UNTIL_CHANGE)
    }
}

impl Clusters<'_> {
    /// Whether the agent still reports. A heartbeat alone triggers no reconciliation: the last one is read when the time is over.
    fn contact(&self, cluster: &Cluster, now: Timestamp) -> Contact {
        let status = &cluster.status;
        let (last_seen, was_silent) = (status::last_seen(status), status::is_silent(status));
        Contact::of(last_seen, was_silent, self.stores.patience, now)
    }

    /// Writes accounts, if this process maintains them.
    fn accounts(&self) -> Option<AccountWriter<'_>> {
        let accounts = self.stores.accounts.as_ref()?;
        Some(AccountWriter {
            client: &self.context.client,
            accounts,
            registrations: self.stores.registrations.as_ref(),
        })
    }

    /// Whether a namespace is being deleted: nothing can be created in it, and it is created again when it is gone.
    fn is_terminating(&self, namespace: &str) -> bool {
        let found = self.stores.clusters.namespaces.get(&ObjectRef::new(namespace));
        found.is_some_and(|found| found.meta().deletion_timestamp.is_some())
    }

    /// Creates the namespace of a cluster if it does not exist. One that was created meanwhile is checked when it is in the cache.
    async fn ensure_namespace(&self, cluster: &NamespacedName, name: &str) -> Result<(), ClusterError> {
        let known = &self.stores.clusters.namespaces;
        if known.get(&ObjectRef::new(name)).is_some() {
            return Ok(());
        }
        let annotations = [
            (labels::CLUSTER_NAMESPACE, &cluster.namespace),
            (labels::CLUSTER, &cluster.name),
        ];
        let annotations = annotations.map(|(key, value)| (key.to_owned(), value.clone()));
        let namespace = Namespace {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                labels: Some([(labels::MANAGED.to_owned(), "true".to_owned())].into()),
                annotations: Some(annotations.into()),
                ..ObjectMeta::default()
            },
            ..Namespace::default()
        };
        let object = format!("Namespace {name}");
        let api = Api::<Namespace>::all(self.context.client.clone());
        match bounded(api.create(&MANAGER.post(), &namespace)).await {
            Err(error) if error.exists_already() => Err(ClusterError::StaleNamespace(object)),
            Err(error) => Err(CallError::of("create", object)(error).into()),
            Ok(_) => Ok(()),
        }
    }
}
