//! The removal of the agent from the workload cluster.

use std::{fmt::Debug, time::Duration};

use helmops_join::{
    access::SECRET,
    agent_objects::{self, AgentOptions, NAME, SELECTOR},
    object::name_of,
};
use k8s_openapi::{
    NamespaceResourceScope,
    api::{
        apps::v1::Deployment,
        coordination::v1::Lease,
        core::v1::{ConfigMap, Pod, Secret},
    },
};
use kube::{
    Api, Client, Resource,
    api::{DeleteParams, DynamicObject, ListParams, PropagationPolicy},
};
use serde::de::DeserializeOwned;

use crate::{
    cluster::{api_error, apply, until::until},
    failure::Failure,
};

/// The Lease of the agent, and of Fleet's.
pub const LEASE: &str = "fleet-agent";
/// The ConfigMaps in which the agent remembers the management cluster, and its releases.
pub const STATE: [&str; 2] = ["helmops-agent", "helmops-agent-releases"];

/// Deletes the Deployment of the agent, and waits until its pods have ended: only then nothing can be uninstalled any more.
///
/// # Errors
/// If they have not ended in time.
pub async fn stop(client: &Client, namespace: &str, timeout: Duration) -> Result<((), String), Failure> {
    let deployments = Api::<Deployment>::namespaced(client.clone(), namespace);
    let params = DeleteParams {
        propagation_policy: Some(PropagationPolicy::Foreground),
        ..DeleteParams::default()
    };
    match deployments.delete(NAME, &params).await {
        Err(error) if !api_error::is_not_found(&error) => {
            return Err(api_error::failed(
                format!("cannot delete Deployment {namespace}/{NAME}"),
                &error,
            ));
        }
        _ => {}
    }
    let pods = Api::<Pod>::namespaced(client.clone(), namespace);
    let read = async || {
        let left = pods.list_metadata(&ListParams::default().labels(SELECTOR)).await;
        let left = left.map_err(|error| {
            api_error::failed(format!("cannot list pods in namespace {namespace}"), &error)
        })?;
        let deployment = deployments.get_metadata_opt(NAME).await;
        let deployment = deployment.map_err(|error| {
            api_error::failed(format!("cannot read Deployment {namespace}/{NAME}"), &error)
        })?;
        Ok((left.items.is_empty() && deployment.is_none()).then_some(()))
    };
    match until(timeout, read).await? {
        Some(()) => Ok((
            (),
            format!("Deployment {namespace}/{NAME} deleted; no pod of the agent is left"),
        )),
        None => Err(Failure::unable(format!(
            "pods of the agent in namespace {namespace} have not ended"
        ))
        .with_hint(format!(
            "see them on the workload cluster: kubectl --namespace {namespace} get pods --selector {SELECTOR}"
        ))),
    }
}

/// The objects of the agent that are deleted, in this order.
///
/// # Errors
/// Never in practice: the manifests are part of the program.
pub fn objects(namespace: &str) -> Result<Vec<DynamicObject>, Failure> {
    let scope = if namespace == agent_objects::NAMESPACE {
        ""
    } else {
        namespace
    };
    let options = AgentOptions::in_scope(scope);
    let objects = agent_objects::objects(&options).map_err(|error| Failure::unable(error.to_string()))?;
    // In reverse, so that permissions end last. The namespace comes first, and stays.
    Ok(objects.into_iter().skip(1).rev().collect())
}

/// Deletes everything else that the agent had. The namespace stays, and, if Fleet's agent is installed too, so does their Secret.
///
/// # Errors
/// If an object cannot be deleted.
pub async fn delete(client: &Client, namespace: &str, keeps_access: bool) -> Result<((), String), Failure> {
    for object in objects(namespace)? {
        let name = object.metadata.name.as_deref().unwrap_or_default();
        let deleted = apply::api_of(client, &object)
            .delete(name, &DeleteParams::background())
            .await;
        tolerate(deleted.map(drop), || name_of(&object))?;
    }
    for name in STATE {
        remove::<ConfigMap>(client, namespace, name).await?;
    }
    if !keeps_access {
        remove::<Secret>(client, namespace, SECRET).await?;
        remove::<Lease>(client, namespace, LEASE).await?;
    }
    Ok((
        (),
        format!("the agent's objects deleted; namespace {namespace} stays"),
    ))
}

async fn remove<K>(client: &Client, namespace: &str, name: &str) -> Result<(), Failure>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
{
    let api = Api::<K>::namespaced(client.clone(), namespace);
    let deleted = api.delete(name, &DeleteParams::default()).await;
    tolerate(deleted.map(drop), || {
        format!("{} {namespace}/{name}", K::kind(&()))
    })
}

fn tolerate(deleted: Result<(), kube::Error>, object: impl FnOnce() -> String) -> Result<(), Failure> {
    match deleted {
        Err(error) if !api_error::is_not_found(&error) => {
            Err(api_error::failed(format!("cannot delete {}", object()), &error))
        }
        _ => Ok(()),
    }
}
