//! The cluster loop: each Cluster to its namespace, and to the numbers in its status.
//!
//! Whoever registers a cluster makes the Cluster object; the namespace for what is deployed there follows.

use std::time::Instant;

use helmops_shared::{
    api::{Cluster, Decoded, labels},
    status::{self, change},
};
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, ResourceExt, api::ObjectMeta};

use crate::{
    backoff::Pace, bundle::DeliveryError, client::bounded, context::Context, error::shown, memory::Failure,
    metrics::Reconciler, queue::Next, watch::DeliveryStores, work::ClusterKey, writes,
};

/// Brings one Cluster to what it is to be.
pub async fn reconcile(key: &ClusterKey, reach: &DeliveryStores, context: &Context) -> Next {
    let memory = &context.clusters;
    let Some(object) = reach.clusters.all.get(key) else {
        memory.forget(key);
        return None;
    };
    let cluster = match &*object {
        Decoded::Valid(cluster) if cluster.metadata.deletion_timestamp.is_none() => cluster,
        Decoded::Valid(_) => return None,
        Decoded::Invalid { error, .. } => {
            tracing::error!(error = shown(error), "Cluster cannot be decoded; skipping it");
            return None;
        }
    };
    let seen = cluster.metadata.resource_version.as_deref().unwrap_or_default();
    if memory.written.is_behind(key, seen) {
        return Some(Pace::CONFLICT.first);
    }
    let started = Instant::now();
    let result = Box::pin(sync(key, cluster, reach, context)).await;
    let failure = result.as_ref().err().map(Failure::reason);
    context
        .metrics
        .reconciled(Reconciler::Cluster, failure, started.elapsed());
    memory.ended(key, cluster.metadata.generation, result)
}

async fn sync(
    key: &ClusterKey,
    cluster: &Cluster,
    reach: &DeliveryStores,
    context: &Context,
) -> Result<(), DeliveryError> {
    let now = crate::helmop::seconds(k8s_openapi::jiff::Timestamp::now());
    let next = match reach.clusters.namespace_of(cluster) {
        Ok(namespace) => {
            ensure_namespace(cluster, &namespace, reach, context).await?;
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
    let home = cluster.namespace().unwrap_or_default();
    let api = Api::<Cluster>::namespaced(context.client.clone(), &home);
    match writes::status(&api, cluster, &change).await {
        Ok(written) => {
            context.clusters.written.wrote(key.clone(), cluster, &written);
            Ok(())
        }
        Err(error) if error.is_not_found() => Ok(()),
        Err(error) => {
            let what = format!("Cluster {home}/{}", cluster.name_any());
            Err(DeliveryError::of("write the status of", what)(error))
        }
    }
}

/// Creates the namespace of a cluster where there is none. One that was created meanwhile is judged when it has been seen.
async fn ensure_namespace(
    cluster: &Cluster,
    name: &str,
    reach: &DeliveryStores,
    context: &Context,
) -> Result<(), DeliveryError> {
    let known = reach
        .clusters
        .namespaces
        .get(&kube::runtime::reflector::ObjectRef::new(name));
    if known.is_some() {
        return Ok(());
    }
    let part = |text: &Option<String>| text.clone().unwrap_or_default();
    let told = [
        (labels::CLUSTER_NAMESPACE, part(&cluster.metadata.namespace)),
        (labels::CLUSTER, part(&cluster.metadata.name)),
    ];
    let namespace = Namespace {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            labels: Some([(labels::MANAGED.to_owned(), "true".to_owned())].into()),
            annotations: Some(told.map(|(key, value)| (key.to_owned(), value)).into()),
            ..ObjectMeta::default()
        },
        ..Namespace::default()
    };
    let what = format!("Namespace {name}");
    match bounded(Api::<Namespace>::all(context.client.clone()).create(&writes::post(), &namespace)).await {
        Err(error) if error.exists_already() => Err(DeliveryError::Behind(what)),
        Err(error) => Err(DeliveryError::of("create", what)(error)),
        Ok(_) => Ok(()),
    }
}
