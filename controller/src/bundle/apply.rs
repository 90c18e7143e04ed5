//! Writes.

use std::borrow::Cow;

use helmops_shared::{
    api::{Bundle, BundleDeployment, Cluster, Decoded, MetadataOnly, labels},
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

/// The deployment that is to be, over what else stands in the metadata of the one that is there.
pub fn merged(mut deployment: BundleDeployment, existing: Option<&BundleDeployment>) -> BundleDeployment {
    let Some(existing) = existing else {
        return deployment;
    };
    let own = std::mem::take(&mut deployment.metadata);
    deployment.metadata = existing.metadata.clone();
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

/// Writes a deployment, unless it is as it should be.
pub async fn deployment(
    context: &Context,
    deployment: BundleDeployment,
    existing: Option<&BundleDeployment>,
) -> Result<BundleDeployment, DeliveryError> {
    if existing.is_some_and(|existing| is_same(existing, &deployment)) {
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
        context.stores.deployments.gone(&namespace, &name);
    }
    let written = written.map_err(DeliveryError::of(
        "write",
        format_args!("BundleDeployment {namespace}/{name}"),
    ))?;
    context.stores.deployments.wrote(written.clone());
    Ok(written)
}

fn is_same(one: &BundleDeployment, other: &BundleDeployment) -> bool {
    one.spec == other.spec && one.metadata == other.metadata
}

/// The Bundle with the finalizer that lets its deployments be withdrawn before it goes; nothing where it is gone already.
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
        Err(error) => Err(DeliveryError::of(
            "put a finalizer on",
            format_args!("Bundle {}", bundle.name_any()),
        )(error)),
    }
}

/// Withdraws a Bundle that is being deleted from its clusters, and lets it go when it is on none any more.
pub async fn withdraw(
    context: &Context,
    key: &BundleKey,
    bundle: &Decoded<Bundle>,
) -> Result<(), DeliveryError> {
    let Some(others) = writes::without_finalizer(bundle, labels::BUNDLE_FINALIZER) else {
        return Ok(());
    };
    if !withdraw_all(context, key).await? {
        // News of the last one that goes brings it here again.
        return Ok(());
    }
    match writes::finalizers(&bundles(context, bundle), bundle, &others).await {
        Err(error) if !error.is_not_found() => Err(DeliveryError::of(
            "let go",
            format_args!("Bundle {}", bundle.name_any()),
        )(error)),
        _ => Ok(()),
    }
}

/// Withdraws what is left of a Bundle that is gone, unless it is there after all.
pub async fn withdraw_leftovers(context: &Context, key: &BundleKey) -> Result<(), DeliveryError> {
    if context.stores.deployments.of_bundle(key).is_empty() {
        return Ok(());
    }
    let namespace = key.namespace.as_deref().unwrap_or_default();
    let api = Api::<Decoded<Bundle>>::namespaced(context.client.clone(), namespace);
    let found = bounded(api.get_opt(&key.name)).await;
    if found
        .map_err(DeliveryError::of(
            "read",
            format_args!("Bundle {namespace}/{}", key.name),
        ))?
        .is_none()
    {
        withdraw_all(context, key).await?;
    }
    Ok(())
}

/// Whether none was left. One that cannot be withdrawn holds up no other.
async fn withdraw_all(context: &Context, key: &BundleKey) -> Result<bool, DeliveryError> {
    let deployments = context.stores.deployments.of_bundle(key);
    let mut failure = None;
    for deployment in &deployments {
        let withdrawn = match &**deployment {
            Decoded::Valid(deployment) => withdraw_one(context, deployment).await,
            Decoded::Invalid { metadata, .. } => {
                let deployment = BundleDeployment {
                    metadata: (**metadata).clone(),
                    ..BundleDeployment::default()
                };
                withdraw_one(context, &deployment).await
            }
        };
        failure = failure.or(withdrawn.err());
    }
    failure.map_or_else(|| Ok(deployments.is_empty()), Err)
}

/// Withdraws a Bundle from a cluster that it does not go to any more, as far as is seen. What is seen may be old, and what is
/// removed is not easily brought back, so the Cluster is asked for once more.
pub async fn withdraw_orphan(
    context: &Context,
    surroundings: &ClusterSnapshot,
    orphan: &BundleDeployment,
) -> Result<(), DeliveryError> {
    if let Some((namespace, name)) = cluster_of(orphan) {
        let what = format!("Cluster {namespace}/{name}");
        let api = Api::<MetadataOnly<Cluster>>::namespaced(context.client.clone(), namespace);
        let now = bounded(api.get_opt(name))
            .await
            .map_err(DeliveryError::of("read", &what))?;
        let seen = surroundings.cluster(namespace, name);
        let seen = seen.and_then(|cluster| cluster.meta().resource_version.clone());
        let now = now.and_then(|cluster| cluster.metadata.resource_version.clone());
        // One that lies outside of what the Bundle looks at is not seen, and one that is gone may still be.
        if seen.is_some() && now.is_some() && seen != now {
            return Err(DeliveryError::Behind(what));
        }
    }
    withdraw_one(context, orphan).await
}

/// Deletes a deployment. Its agent removes what it deployed when it is gone.
pub async fn withdraw_one(context: &Context, deployment: &BundleDeployment) -> Result<(), DeliveryError> {
    let (name, namespace) = (deployment.name_any(), deployment.namespace().unwrap_or_default());
    let api = Api::<BundleDeployment>::namespaced(context.client.clone(), &namespace);
    let failed = DeliveryError::of("delete", format!("BundleDeployment {namespace}/{name}"));
    match delete(&api, &name, deployment).await {
        Err(error) if !error.is_not_found() => Err(failed(error)),
        Err(_) => {
            context.stores.deployments.gone(&namespace, &name);
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
            context.bundles.written.wrote(key.clone(), bundle, &written);
            context.events.publish(bundle, bundle_events(&stored, &next));
            Ok(())
        }
        Err(error) if error.is_not_found() => Ok(()),
        Err(error) => Err(DeliveryError::of(
            "write the status of",
            format_args!("Bundle {}", bundle.name_any()),
        )(error)),
    }
}

/// The API for a Bundle, whether it decodes or not.
fn bundles<K>(context: &Context, bundle: &K) -> Api<K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    Api::namespaced(context.client.clone(), &bundle.namespace().unwrap_or_default())
}
