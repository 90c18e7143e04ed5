//! The requests to the management cluster: the Cluster, and a token of its agent's account.

use std::{collections::BTreeMap, time::Duration};

use helmops_api::{Cluster, NamespacedName};
use helmops_core::{agents::ACCOUNT, status::is_refused};
use helmops_join::access::token_request;
use helmops_model::{condition::ConditionType, reason::Reason};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::ServiceAccount};
use kube::{
    Api, Client,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use crate::{
    cluster::{
        api_error,
        apply::{FIELD_MANAGER, Written},
        until::until,
    },
    clusters::workload::image,
    failure::Failure,
};

/// The label of the controllers.
const CONTROLLERS: &str = "app.kubernetes.io/part-of=helmops,app.kubernetes.io/name=helmops-controller";
const NO_CONTROLLER: &str =
    "does the controller run, with --controllers=helmop,bundle? Find out with: kubectl helmop check";

fn api(client: &Client, namespace: &str) -> Api<Cluster> {
    Api::namespaced(client.clone(), namespace)
}

/// The Cluster, if it exists.
///
/// # Errors
/// If it cannot be read, or there is no such kind.
pub async fn get(client: &Client, cluster: &NamespacedName) -> Result<Option<Cluster>, Failure> {
    let clusters = api(client, &cluster.namespace);
    match clusters.get_opt(&cluster.name).await {
        Ok(Some(found)) => return Ok(Some(found)),
        Ok(None) => {}
        // No kind of the group exists.
        Err(error) if api_error::is_not_found(&error) => return Err(no_crd()),
        Err(error) => {
            return Err(api_error::failed(
                format!("cannot read Cluster {cluster}"),
                &error,
            ));
        }
    }
    // Nor is there an object of a kind that does not exist.
    match clusters.list_metadata(&ListParams::default().limit(1)).await {
        Err(error) if api_error::is_not_found(&error) => Err(no_crd()),
        // The permission to read this one is enough.
        _ => Ok(None),
    }
}

fn no_crd() -> Failure {
    let message = "the management cluster has no CRD clusters.fleet.cattle.io";
    let hint =
        "install helmops without Fleet there (docs/standalone.md), or select its context with --context";
    Failure::unable(message).with_hint(hint)
}

/// A Cluster as it is created.
pub fn desired(cluster: &NamespacedName, labels: &BTreeMap<String, String>) -> Value {
    json!({
        "apiVersion": "fleet.cattle.io/v1alpha1",
        "kind": "Cluster",
        "metadata": { "name": cluster.name, "namespace": cluster.namespace, "labels": labels },
    })
}

/// Creates the Cluster.
///
/// # Errors
/// If the API server rejects it.
pub async fn create(
    client: &Client,
    cluster: &NamespacedName,
    labels: &BTreeMap<String, String>,
) -> Result<(), Failure> {
    let attempt = format!("cannot create Cluster {cluster}");
    let params = PostParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PostParams::default()
    };
    let mut new = Cluster::default();
    new.metadata.name = Some(cluster.name.clone());
    new.metadata.labels = (!labels.is_empty()).then(|| labels.clone());
    match api(client, &cluster.namespace).create(&params, &new).await {
        Ok(_) => Ok(()),
        Err(error) if api_error::is_not_found(&error) => Err(api_error::failed(attempt, &error).with_hint(format!(
            "create the workspace with: kubectl create namespace {}; or select another one with --namespace",
            cluster.namespace
        ))),
        Err(error) => Err(api_error::failed(attempt, &error)),
    }
}

/// Sets these labels of the Cluster.
///
/// # Errors
/// If the API server rejects it.
pub async fn label(
    client: &Client,
    cluster: &NamespacedName,
    labels: &BTreeMap<String, String>,
) -> Result<Written, Failure> {
    if labels.is_empty() {
        return Ok(Written::Unchanged);
    }
    let params = PatchParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    };
    let patch = Patch::Merge(json!({ "metadata": { "labels": labels } }));
    let patched = api(client, &cluster.namespace)
        .patch(&cluster.name, &params, &patch)
        .await;
    patched.map_err(|error| api_error::failed(format!("cannot label Cluster {cluster}"), &error))?;
    Ok(Written::Changed)
}

/// Waits for the namespace of the Cluster.
///
/// # Errors
/// If there is none in time, or it belongs to another Cluster.
pub async fn namespace(
    client: &Client,
    cluster: &NamespacedName,
    timeout: Duration,
) -> Result<String, Failure> {
    let read = async || {
        let Some(found) = get(client, cluster).await? else {
            return Err(Failure::unable(format!("Cluster {cluster} was deleted")));
        };
        if let Some(failure) = refused(cluster, &found) {
            return Err(failure);
        }
        let namespace = found.status.namespace;
        Ok((!namespace.is_empty()).then_some(namespace))
    };
    let found = until(timeout, read).await?;
    found.ok_or_else(|| {
        let waited = timeout.as_secs();
        Failure::unable(format!(
            "the controller has not given Cluster {cluster} a namespace within {waited} s"
        ))
        .with_hint(NO_CONTROLLER)
    })
}

fn refused(cluster: &NamespacedName, found: &Cluster) -> Option<Failure> {
    let is_ready = |r#type: &str| r#type == ConditionType::Ready.as_str();
    let message = || {
        let condition = found
            .status
            .conditions
            .iter()
            .find(|condition| is_ready(&condition.r#type));
        condition
            .map(|condition| condition.message.clone())
            .unwrap_or_default()
    };
    is_refused(&found.status).then(|| {
        Failure::unable(format!(
            "Cluster {cluster} has no namespace ({}): {}",
            Reason::NamespaceConflict,
            message()
        ))
        .with_hint("docs/standalone.md#namespace-conflicts describes how to resolve it")
    })
}

/// Waits for the account of the agent, and returns a token of it.
///
/// # Errors
/// If there is none in time.
pub async fn token(client: &Client, namespace: &str, timeout: Duration) -> Result<String, Failure> {
    let accounts = Api::<ServiceAccount>::namespaced(client.clone(), namespace);
    let request = token_request();
    let attempt = || format!("cannot create a token of ServiceAccount {namespace}/{ACCOUNT}");
    let read = async || match accounts
        .create_token_request(ACCOUNT, &PostParams::default(), &request)
        .await
    {
        Ok(created) => Ok(created.status.and_then(|status| status.token)),
        Err(error) if api_error::is_not_found(&error) => Ok(None),
        Err(error) => Err(api_error::failed(attempt(), &error)),
    };
    let found = until(timeout, read).await?;
    found.ok_or_else(|| {
        let waited = timeout.as_secs();
        let message = format!("the controller has not created ServiceAccount {namespace}/{ACCOUNT} within {waited} s");
        let hint = format!("{NO_CONTROLLER}. With --agent-accounts=false, create the account yourself (docs/agent.md#permissions)");
        Failure::unable(message).with_hint(hint)
    })
}

/// The image of the controller, if the user may see it.
pub async fn controller_image(client: &Client) -> Option<String> {
    let all = Api::<Deployment>::all(client.clone());
    let found = all.list(&ListParams::default().labels(CONTROLLERS)).await.ok()?;
    found.items.iter().find_map(image).map(str::to_owned)
}
