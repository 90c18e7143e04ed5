//! The cluster loop: creates the namespace of each Cluster, and updates the counts in its status.
//!
//! A user or Rancher registers a cluster by creating the Cluster. This loop creates the namespace for its BundleDeployments.

use std::sync::Arc;

use helmops_api::{Cluster, Decoded, NamespacedName, labels};
use helmops_core::{
    reason::Reason,
    status::{self, change},
};
use helmops_kube::name_of;
use helmops_runtime::{
    client::{CallError, bounded},
    error_class::{Class, Classified, ClassifiedError, classified},
    metrics::{Controller, ReconcileMetrics},
    reconciler::Reconciler,
    retry_state::{Done, RetryState},
    workers::WorkerPermit,
};
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, api::ObjectMeta, runtime::reflector::ObjectRef};
use thiserror::Error;
use tracing::Span;

use crate::{context::Context, metrics, watch::DeliveryStores, work::ClusterKey, writes::MANAGER};

/// The reconciler of Clusters.
pub struct Clusters<'c> {
    /// What the loops share.
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
        let now = status::timestamp(k8s_openapi::jiff::Timestamp::now());
        let next = match self.stores.clusters.namespace_of(cluster) {
            Ok(namespace) => {
                self.ensure_namespace(&name, &namespace).await?;
                let deployments = self.context.stores.deployments.in_namespace(&namespace);
                let deployments: Vec<_> = deployments.iter().map(|deployment| &**deployment).collect();
                status::cluster(cluster, &namespace, &deployments, &now)
            }
            Err(refused) => {
                tracing::warn!(message = %refused, "no BundleDeployment is written for the cluster");
                status::refused_cluster(cluster, &refused, &now)
            }
        };
        let Some(change) = change(&cluster.status, &next) else {
            return Ok(Done::UNTIL_CHANGE);
        };
        let api = Api::<Cluster>::namespaced(self.context.client.clone(), &name.namespace);
        match MANAGER.status(&api, cluster, &change).await {
            Ok(written) => {
                let pending_writes = &self.context.retries.clusters.pending_writes;
                pending_writes.record(key.clone(), cluster, &written);
            }
            Err(error) if error.is_not_found() => {}
            Err(error) => {
                let object = format!("Cluster {name}");
                return Err(CallError::of("write the status of", object)(error).into());
            }
        }
        Ok(Done::UNTIL_CHANGE)
    }
}

impl Clusters<'_> {
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
