//! Writes and deletes BundleDeployments.

use std::borrow::Cow;

use helmops_api::{BundleDeployment, NamespacedName, labels};
use helmops_model::event::Event;
use helmops_runtime::{
    client::{ApiError, CallError, bounded},
    writes::{delete_exactly, without_finalizer},
};
use kube::{Api, runtime::reflector::ObjectRef};

use crate::{bundle::DeliveryError, context::Context, writes::MANAGER};

pub async fn create(context: &Context, deployment: &BundleDeployment) -> Result<BundleDeployment, CallError> {
    let created = bounded(api(context, deployment).create(&MANAGER.post(), deployment)).await;
    written(context, deployment, created)
}

pub async fn replace(
    context: &Context,
    deployment: &BundleDeployment,
) -> Result<BundleDeployment, CallError> {
    let NamespacedName { name, .. } = NamespacedName::of(&deployment.metadata);
    let replaced = bounded(api(context, deployment).replace(&name, &MANAGER.post(), deployment)).await;
    written(context, deployment, replaced)
}

/// Records the result of a write in the cache.
fn written(
    context: &Context,
    deployment: &BundleDeployment,
    result: Result<BundleDeployment, ApiError>,
) -> Result<BundleDeployment, CallError> {
    let name = NamespacedName::of(&deployment.metadata);
    if result.as_ref().is_err_and(ApiError::is_not_found) {
        context.stores.deployments.deleted(&name.namespace, &name.name);
    }
    let written = result.map_err(CallError::of("write", format_args!("BundleDeployment {name}")))?;
    let pruned = &context.pruned_deployment_fields;
    let stored = pruned.learn("BundleDeployment", &deployment.spec, &written.spec);
    if let Some(event) = stored.first_event() {
        publish_for_bundle(context, deployment, event);
    }
    context.stores.deployments.wrote(written.clone());
    Ok(written)
}

fn publish_for_bundle(context: &Context, deployment: &BundleDeployment, event: Event) {
    let label = |name| labels::of(&deployment.metadata, name).unwrap_or_default();
    let bundle = ObjectRef::new(label(labels::BUNDLE_NAME)).within(label(labels::BUNDLE_NAMESPACE));
    if let Some(bundle) = context.stores.bundles.get(&bundle) {
        context.events.publish(&*bundle, vec![event]);
    }
}

/// Deletes a deployment, and logs why. Then its agent removes what it has deployed.
pub async fn delete(
    context: &Context,
    deployment: &BundleDeployment,
    reason: &str,
) -> Result<(), DeliveryError> {
    let name = NamespacedName::of(&deployment.metadata);
    match delete_and_release(&api(context, deployment), &name.name, deployment).await {
        Err(error) if !error.is_not_found() => {
            Err(CallError::of("delete", format_args!("BundleDeployment {name}"))(error).into())
        }
        Err(_) => {
            context.stores.deployments.deleted(&name.namespace, &name.name);
            Ok(())
        }
        Ok(is_new) => {
            if is_new {
                tracing::info!(bundledeployment = %name, reason, "deleted; its agent uninstalls the release");
            }
            Ok(())
        }
    }
}

/// Returns whether it has changed anything: a finalizer of another client may keep a deleted one.
async fn delete_and_release(
    api: &Api<BundleDeployment>,
    name: &str,
    deployment: &BundleDeployment,
) -> Result<bool, ApiError> {
    let mut is_new = deployment.metadata.deletion_timestamp.is_none();
    let deleted = if is_new {
        match bounded(api.delete(name, &delete_exactly(deployment)))
            .await?
            .left()
        {
            Some(deleted) => Cow::Owned(deleted),
            None => return Ok(true),
        }
    } else {
        Cow::Borrowed(deployment)
    };
    if let Some(others) = without_finalizer(&*deleted, labels::BUNDLE_DEPLOYMENT_FINALIZER) {
        MANAGER.finalizers(api, &*deleted, &others).await?;
        is_new = true;
    }
    Ok(is_new)
}

fn api(context: &Context, deployment: &BundleDeployment) -> Api<BundleDeployment> {
    let namespace = deployment.metadata.namespace.as_deref().unwrap_or_default();
    Api::namespaced(context.client.clone(), namespace)
}
