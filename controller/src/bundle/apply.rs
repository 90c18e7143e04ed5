//! Writes Bundles and BundleDeployments, and deletes BundleDeployments.

use std::borrow::Cow;

use helmops_api::{Bundle, BundleDeployment, Cluster, Decoded, MetadataOnly, PrunedFields, labels};
use helmops_core::{
    status::{self, RolloutRound, bundle_events, change},
    targeting::cluster_of,
};
use k8s_openapi::{NamespaceResourceScope, jiff::Timestamp};
use kube::{Api, Resource, ResourceExt};

use super::{DeliveryError, observe::ClusterSnapshot};
use crate::{
    client::{ApiError, bounded},
    context::Context,
    helmop::seconds,
    work::BundleKey,
    writes,
};

/// The desired deployment, with the metadata of other clients taken from the existing one.
pub fn merged(mut deployment: BundleDeployment, existing: Option<&BundleDeployment>) -> BundleDeployment {
    let Some(existing) = existing else {
        return deployment;
    };
    let own = std::mem::take(&mut deployment.metadata);
    deployment.metadata = existing.metadata.clone();
    deployment.unknown = existing.unknown.clone();
    deployment.status = existing.status.clone();
    let metadata = &mut *deployment.metadata;
    metadata.labels.clone_from(&own.labels);
    let finalizers = metadata.finalizers.get_or_insert_default();
    let missing = own
        .finalizers
        .iter()
        .flatten()
        .filter(|finalizer| !finalizers.contains(finalizer));
    let missing: Vec<_> = missing.cloned().collect();
    finalizers.extend(missing);
    let annotations = metadata.annotations.get_or_insert_default();
    annotations.remove(labels::COPIED_FROM);
    annotations.extend(own.annotations.clone().unwrap_or_default());
    if annotations.is_empty() {
        metadata.annotations = None;
    }
    deployment
}

/// Writes a deployment, unless it is up to date.
pub async fn deployment(
    context: &Context,
    deployment: BundleDeployment,
    existing: Option<&BundleDeployment>,
) -> Result<BundleDeployment, DeliveryError> {
    let pruned = context.pruned_deployment_fields.get();
    if existing.is_some_and(|existing| is_same(existing, &deployment, &pruned)) {
        return Ok(deployment);
    }
    let (name, namespace) = (deployment.name_any(), deployment.namespace().unwrap_or_default());
    let api = Api::<BundleDeployment>::namespaced(context.client.clone(), &namespace);
    let written = if existing.is_none() {
        bounded(api.create(&writes::post(), &deployment)).await
    } else {
        bounded(api.replace(&name, &writes::post(), &deployment)).await
    };
    if written.as_ref().is_err_and(ApiError::is_not_found) {
        context.stores.deployments.deleted(&namespace, &name);
    }
    let written = written.map_err(DeliveryError::api(
        "write",
        format_args!("BundleDeployment {namespace}/{name}"),
    ))?;
    context
        .pruned_deployment_fields
        .learn("BundleDeployment", &deployment.spec, &written.spec);
    context.stores.deployments.wrote(written.clone());
    Ok(written)
}

fn is_same(existing: &BundleDeployment, desired: &BundleDeployment, pruned: &PrunedFields) -> bool {
    existing.metadata == desired.metadata && pruned.are_equal(&desired.spec, &existing.spec)
}

/// The Bundle with the finalizer that keeps it until its deployments are deleted; `None` if the Bundle does not exist any more.
pub async fn with_finalizer<'b>(
    context: &Context,
    bundle: &'b Bundle,
) -> Result<Option<Cow<'b, Bundle>>, DeliveryError> {
    let mut finalizers = bundle.finalizers().to_vec();
    if finalizers
        .iter()
        .any(|finalizer| finalizer == labels::BUNDLE_FINALIZER)
    {
        return Ok(Some(Cow::Borrowed(bundle)));
    }
    finalizers.push(labels::BUNDLE_FINALIZER.to_owned());
    match writes::finalizers(&bundles(context, bundle), bundle, &finalizers).await {
        Ok(bundle) => Ok(Some(Cow::Owned(bundle))),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(DeliveryError::api(
            "add a finalizer to",
            format_args!("Bundle {}", bundle.name_any()),
        )(error)),
    }
}

/// Deletes the deployments of a Bundle that is being deleted, and removes its finalizer when none is left.
pub async fn finalize(
    context: &Context,
    key: &BundleKey,
    bundle: &Decoded<Bundle>,
) -> Result<(), DeliveryError> {
    let Some(others) = writes::without_finalizer(bundle, labels::BUNDLE_FINALIZER) else {
        return Ok(());
    };
    if !delete_all(context, key).await? {
        // The deletion of the last deployment triggers the next reconciliation.
        return Ok(());
    }
    match writes::finalizers(&bundles(context, bundle), bundle, &others).await {
        Err(error) if !error.is_not_found() => Err(DeliveryError::api(
            "remove the finalizer from",
            format_args!("Bundle {}", bundle.name_any()),
        )(error)),
        _ => Ok(()),
    }
}

/// Deletes the remaining deployments of a Bundle that is not in the cache, unless the API server still has the Bundle.
pub async fn delete_leftovers(context: &Context, key: &BundleKey) -> Result<(), DeliveryError> {
    if context.stores.deployments.of_bundle(key).is_empty() {
        return Ok(());
    }
    let namespace = key.namespace.as_deref().unwrap_or_default();
    let api = Api::<Decoded<Bundle>>::namespaced(context.client.clone(), namespace);
    let found = bounded(api.get_opt(&key.name)).await;
    if found
        .map_err(DeliveryError::api(
            "read",
            format_args!("Bundle {namespace}/{}", key.name),
        ))?
        .is_none()
    {
        delete_all(context, key).await?;
    }
    Ok(())
}

/// Deletes all deployments of a Bundle, and returns whether there were none. An error with one does not stop the others.
async fn delete_all(context: &Context, key: &BundleKey) -> Result<bool, DeliveryError> {
    let deployments = context.stores.deployments.of_bundle(key);
    let mut first_error = None;
    for deployment in &deployments {
        let deleted = match &**deployment {
            Decoded::Valid(deployment) => delete_deployment(context, deployment).await,
            Decoded::Invalid { metadata, .. } => {
                let deployment = BundleDeployment {
                    metadata: (**metadata).clone(),
                    ..BundleDeployment::default()
                };
                delete_deployment(context, &deployment).await
            }
        };
        first_error = first_error.or(deleted.err());
    }
    first_error.map_or_else(|| Ok(deployments.is_empty()), Err)
}

/// Deletes the deployment of a cluster that is not a target any more according to the caches. The caches may be stale, and a
/// deletion is hard to undo, so the Cluster is read from the API server first.
pub async fn delete_orphan(
    context: &Context,
    snapshot: &ClusterSnapshot,
    orphan: &BundleDeployment,
) -> Result<(), DeliveryError> {
    if let Some((namespace, name)) = cluster_of(orphan) {
        let object = format!("Cluster {namespace}/{name}");
        let api = Api::<MetadataOnly<Cluster>>::namespaced(context.client.clone(), namespace);
        let current = bounded(api.get_opt(name))
            .await
            .map_err(DeliveryError::api("read", &object))?;
        let cached = snapshot.cluster(namespace, name);
        let cached = cached.and_then(|cluster| cluster.meta().resource_version.clone());
        let current = current.and_then(|cluster| cluster.metadata.resource_version.clone());
        // A Cluster outside of the namespaces of the Bundle is not in the snapshot, and a deleted one may still be in it.
        if cached.is_some() && current.is_some() && cached != current {
            return Err(DeliveryError::Stale(object));
        }
    }
    delete_deployment(context, orphan).await
}

/// Deletes a deployment. Then its agent removes what it has deployed.
pub async fn delete_deployment(
    context: &Context,
    deployment: &BundleDeployment,
) -> Result<(), DeliveryError> {
    let (name, namespace) = (deployment.name_any(), deployment.namespace().unwrap_or_default());
    let api = Api::<BundleDeployment>::namespaced(context.client.clone(), &namespace);
    let failed = DeliveryError::api("delete", format!("BundleDeployment {namespace}/{name}"));
    match delete(&api, &name, deployment).await {
        Err(error) if !error.is_not_found() => Err(failed(error)),
        Err(_) => {
            context.stores.deployments.deleted(&namespace, &name);
            Ok(())
        }
        Ok(()) => Ok(()),
    }
}

async fn delete(
    api: &Api<BundleDeployment>,
    name: &str,
    deployment: &BundleDeployment,
) -> Result<(), ApiError> {
    let deleted = if deployment.metadata.deletion_timestamp.is_none() {
        match bounded(api.delete(name, &writes::delete(deployment)))
            .await?
            .left()
        {
            Some(deleted) => Cow::Owned(deleted),
            None => return Ok(()),
        }
    } else {
        Cow::Borrowed(deployment)
    };
    if let Some(others) = writes::without_finalizer(&*deleted, labels::BUNDLE_DEPLOYMENT_FINALIZER) {
        writes::finalizers(api, &*deleted, &others).await?;
    }
    Ok(())
}

/// Writes the status if it differs from the stored one.
pub async fn status(
    context: &Context,
    key: &BundleKey,
    bundle: &Bundle,
    round: RolloutRound<'_>,
) -> Result<(), DeliveryError> {
    let stored = bundle.status.as_deref().cloned().unwrap_or_default();
    let next = status::bundle(bundle, round, &seconds(Timestamp::now()));
    let Some(change) = change(&stored, &next) else {
        return Ok(());
    };
    match writes::status(&bundles(context, bundle), bundle, &change).await {
        Ok(written) => {
            context
                .bundles
                .pending_writes
                .record(key.clone(), bundle, &written);
            context.events.publish(bundle, bundle_events(&stored, &next));
            Ok(())
        }
        Err(error) if error.is_not_found() => Ok(()),
        Err(error) => Err(DeliveryError::api(
            "write the status of",
            format_args!("Bundle {}", bundle.name_any()),
        )(error)),
    }
}

/// The API of the Bundle's namespace, for Bundles that decode and for those that do not.
fn bundles<K>(context: &Context, bundle: &K) -> Api<K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    Api::namespaced(context.client.clone(), &bundle.namespace().unwrap_or_default())
}
