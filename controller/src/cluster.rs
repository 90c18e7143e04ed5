//! The cluster loop: creates the namespace of each Cluster, and updates the counts in its status.
//!
//! A user or Rancher registers a cluster by creating the Cluster. This loop creates the namespace for its BundleDeployments.

use std::time::Instant;

use helmops_shared::{
    api::{Cluster, Decoded, labels},
    status::{self, change},
};
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, ResourceExt, api::ObjectMeta};

use crate::{
    backoff::BackoffPolicy, bundle::DeliveryError, client::bounded, context::Context, error::cut_error,
    error_class::ClassifiedError, metrics::Reconciler, queue::RequeueAfter, retry_state::Done,
    watch::DeliveryStores, work::ClusterKey, writes,
};

/// Reconciles one Cluster.
pub async fn reconcile(key: &ClusterKey, stores: &DeliveryStores, context: &Context) -> RequeueAfter {
    let retry_state = &context.clusters;
    let Some(object) = stores.clusters.all.get(key) else {
        retry_state.forget(key);
        return None;
    };
    let cluster = match &*object {
        Decoded::Valid(cluster) if cluster.metadata.deletion_timestamp.is_none() => cluster,
        Decoded::Valid(_) => return None,
        Decoded::Invalid { error, .. } => {
            tracing::error!(error = cut_error(error), "Cluster cannot be decoded; skipping it");
            return None;
        }
    };
    let cached = cluster.metadata.resource_version.as_deref().unwrap_or_default();
    if retry_state.pending_writes.is_stale(key, cached) {
        return Some(BackoffPolicy::CONFLICT.initial_delay);
    }
    let started = Instant::now();
    let result = Box::pin(sync(key, cluster, stores, context)).await;
    let failure = result.as_ref().err().map(ClassifiedError::reason);
    context
        .metrics
        .reconciled(Reconciler::Cluster, failure, started.elapsed());
    retry_state.requeue_after(
        key,
        cluster.metadata.generation,
        result.map(|()| Done::UNTIL_CHANGE),
    )
}

async fn sync(
    key: &ClusterKey,
    cluster: &Cluster,
    stores: &DeliveryStores,
    context: &Context,
) -> Result<(), DeliveryError> {
    let now = crate::helmop::seconds(k8s_openapi::jiff::Timestamp::now());
    let next = match stores.clusters.namespace_of(cluster) {
        Ok(namespace) => {
            ensure_namespace(cluster, &namespace, stores, context).await?;
            let deployments = context.stores.deployments.in_namespace(&namespace);
            let deployments: Vec<_> = deployments.iter().map(|deployment| &**deployment).collect();
            status::cluster(cluster, &namespace, &deployments, &now)
        }
        Err(refused) => {
            tracing::warn!(message = %refused, "no BundleDeployment is written for the cluster");
            status::refused_cluster(cluster, &refused, &now)
        }
    };
    let Some(change) = change(&cluster.status, &next) else {
        return Ok(());
    };
    let own_namespace = cluster.namespace().unwrap_or_default();
    let api = Api::<Cluster>::namespaced(context.client.clone(), &own_namespace);
    match writes::status(&api, cluster, &change).await {
        Ok(written) => {
            context
                .clusters
                .pending_writes
                .record(key.clone(), cluster, &written);
            Ok(())
        }
        Err(error) if error.is_not_found() => Ok(()),
        Err(error) => {
            let object = format!("Cluster {own_namespace}/{}", cluster.name_any());
            Err(DeliveryError::api("write the status of", object)(error))
        }
    }
}

/// Creates the namespace of a cluster if it does not exist. One that was created meanwhile is checked when it is in the cache.
async fn ensure_namespace(
    cluster: &Cluster,
    name: &str,
    stores: &DeliveryStores,
    context: &Context,
) -> Result<(), DeliveryError> {
    let known = stores
        .clusters
        .namespaces
        .get(&kube::runtime::reflector::ObjectRef::new(name));
    if known.is_some() {
        return Ok(());
    }
    let part = |text: &Option<String>| text.clone().unwrap_or_default();
    let annotations = [
        (labels::CLUSTER_NAMESPACE, part(&cluster.metadata.namespace)),
        (labels::CLUSTER, part(&cluster.metadata.name)),
    ];
    let namespace = Namespace {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            labels: Some([(labels::MANAGED.to_owned(), "true".to_owned())].into()),
            annotations: Some(annotations.map(|(key, value)| (key.to_owned(), value)).into()),
            ..ObjectMeta::default()
        },
        ..Namespace::default()
    };
    let object = format!("Namespace {name}");
    match bounded(Api::<Namespace>::all(context.client.clone()).create(&writes::post(), &namespace)).await {
        Err(error) if error.exists_already() => Err(DeliveryError::Stale(object)),
        Err(error) => Err(DeliveryError::api("create", object)(error)),
        Ok(_) => Ok(()),
    }
}
