//! The deletion of a Cluster, with or without a hold.

use std::time::Duration;

use helmops_api::{BundleDeployment, Cluster, MetadataOnly, NamespacedName, labels::LEAVE_FINALIZER};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use serde_json::json;

use crate::{
    cluster::{api_error, apply::FIELD_MANAGER, until::until},
    failure::Failure,
};

const NO_CONTROLLER: &str = "does the controller run? Find out with: kubectl helmop check";

fn api(client: &Client, cluster: &NamespacedName) -> Api<Cluster> {
    Api::namespaced(client.clone(), &cluster.namespace)
}

/// Deletes the Cluster, but holds it with a finalizer: the controller deletes its BundleDeployments, and leaves its agent the account.
///
/// # Errors
/// If the BundleDeployments are not gone in time.
pub async fn withdraw(
    client: &Client,
    cluster: &Cluster,
    name: &NamespacedName,
    timeout: Duration,
) -> Result<((), String), Failure> {
    let mut finalizers = cluster.finalizers().to_vec();
    // One that is being deleted already accepts no new finalizers.
    if !finalizers.iter().any(|one| one == LEAVE_FINALIZER) && cluster.metadata.deletion_timestamp.is_none() {
        finalizers.push(LEAVE_FINALIZER.to_owned());
        set_finalizers(client, name, cluster, &finalizers).await?;
    }
    if cluster.metadata.deletion_timestamp.is_none() {
        request_deletion(client, name).await?;
    }
    let namespace = &cluster.status.namespace;
    let deployments = Api::<MetadataOnly<BundleDeployment>>::namespaced(client.clone(), namespace);
    let read = async || {
        let left = deployments.list_metadata(&ListParams::default()).await;
        let left = left.map_err(|error| {
            api_error::failed(
                format!("cannot list BundleDeployments in namespace {namespace}"),
                &error,
            )
        })?;
        Ok(left.items.is_empty().then_some(()))
    };
    if until(timeout, read).await?.is_some() {
        return Ok(((), format!("BundleDeployments in namespace {namespace} deleted")));
    }
    let message = format!("there are still BundleDeployments in namespace {namespace}");
    Err(Failure::unable(message).with_hint(NO_CONTROLLER))
}

/// Deletes the Cluster, or removes the hold if it is deleted already, and waits until it is gone.
///
/// # Errors
/// If it is not gone in time.
pub async fn delete(
    client: &Client,
    name: &NamespacedName,
    timeout: Duration,
) -> Result<((), String), Failure> {
    let api = api(client, name);
    let read = api.get_opt(&name.name).await;
    let read = read.map_err(|error| api_error::failed(format!("cannot read Cluster {name}"), &error))?;
    let Some(cluster) = read else {
        return Ok(((), format!("Cluster {name} is deleted")));
    };
    if cluster.metadata.deletion_timestamp.is_none() {
        request_deletion(client, name).await?;
    }
    let others: Vec<_> = cluster
        .finalizers()
        .iter()
        .filter(|one| *one != LEAVE_FINALIZER)
        .cloned()
        .collect();
    if others.len() != cluster.finalizers().len() {
        set_finalizers(client, name, &cluster, &others).await?;
    }
    let gone = until(timeout, async || match api.get_metadata_opt(&name.name).await {
        Ok(found) => Ok(found.is_none().then_some(())),
        Err(error) => Err(api_error::failed(format!("cannot read Cluster {name}"), &error)),
    });
    match gone.await? {
        Some(()) => Ok((
            (),
            format!("Cluster {name} deleted, with its BundleDeployments and the account of its agent"),
        )),
        None => Err(Failure::unable(format!(
            "Cluster {name} still exists; its finalizers: {}",
            others.join(", ")
        ))
        .with_hint(NO_CONTROLLER)),
    }
}

async fn request_deletion(client: &Client, name: &NamespacedName) -> Result<(), Failure> {
    match api(client, name)
        .delete(&name.name, &DeleteParams::default())
        .await
    {
        Err(error) if !api_error::is_not_found(&error) => {
            Err(api_error::failed(format!("cannot delete Cluster {name}"), &error))
        }
        _ => Ok(()),
    }
}

async fn set_finalizers(
    client: &Client,
    name: &NamespacedName,
    cluster: &Cluster,
    finalizers: &[String],
) -> Result<(), Failure> {
    let params = PatchParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    };
    // The list as a whole, so it must be that of the version that was read.
    let version = &cluster.metadata.uid;
    let patch = Patch::Merge(json!({ "metadata": { "finalizers": finalizers, "uid": version } }));
    match api(client, name).patch(&name.name, &params, &patch).await {
        Err(error) if !api_error::is_not_found(&error) => Err(api_error::failed(
            format!("cannot change the finalizers of Cluster {name}"),
            &error,
        )),
        _ => Ok(()),
    }
}
