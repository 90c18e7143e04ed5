//! The copies that a cluster has, and their end.

use std::{
    collections::{BTreeMap, BTreeSet},
    pin::pin,
};

use futures::StreamExt;
use helmops_api::labels;
use helmops_core::targeting::copies::CopyKind;
use helmops_release::marks;
use helmops_runtime::{
    client::{ApiError, CallError, bounded},
    pages::pages,
};
use k8s_openapi::{
    api::core::v1::{ConfigMap, Secret},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams, Patch, Preconditions},
};
use serde_json::json;

use super::{Copied, CopyId, LABEL};
use crate::inputs::MANAGER;

/// A copy that may be deleted: it does not say that it stays.
#[derive(Clone, Debug)]
pub struct ExistingCopy {
    pub id: CopyId,
    deployment: String,
    version: Preconditions,
}

/// Whether a deployment has copies that are deleted with it, in these namespaces, or in all of them if there are none.
///
/// # Errors
/// If they cannot be listed.
pub async fn has_copies(
    downstream: &Client,
    deployment: &str,
    namespaces: &[String],
) -> Result<bool, CallError> {
    Ok(!list(downstream, &of_deployment(deployment), namespaces)
        .await?
        .is_empty())
}

/// Deletes all copies of a deployment, as of [`has_copies`].
///
/// # Errors
/// If one cannot be deleted.
pub async fn delete_copies(
    downstream: &Client,
    deployment: &str,
    namespaces: &[String],
) -> Result<(), CallError> {
    for copy in list(downstream, &of_deployment(deployment), namespaces).await? {
        delete(downstream, &copy).await?;
    }
    Ok(())
}

/// Marks all copies of a deployment, as of [`has_copies`], so that they are not deleted: the objects that use them stay.
///
/// # Errors
/// If one cannot be changed.
pub async fn keep_copies(
    downstream: &Client,
    deployment: &str,
    namespaces: &[String],
) -> Result<(), CallError> {
    for copy in list(downstream, &of_deployment(deployment), namespaces).await? {
        match copy.id.kind {
            CopyKind::Secret => keep::<Secret>(downstream, &copy.id).await?,
            CopyKind::ConfigMap => keep::<ConfigMap>(downstream, &copy.id).await?,
        }
    }
    Ok(())
}

/// The copies that the agent in `agent_namespace` has made, by deployment: of one, or of all. Those of Fleet's agent count once they were
/// made again.
///
/// # Errors
/// If they cannot be listed.
pub async fn agent_copies(
    downstream: &Client,
    agent_namespace: &str,
    deployment: Option<&str>,
    namespaces: &[String],
) -> Result<BTreeMap<String, Vec<ExistingCopy>>, CallError> {
    let of_deployments = deployment.map_or_else(|| LABEL.to_owned(), of_deployment);
    let selector = format!("{of_deployments},{}={agent_namespace}", marks::AGENT_NAMESPACE);
    let mut copies = BTreeMap::<_, Vec<_>>::new();
    for copy in list(downstream, &selector, namespaces).await? {
        copies.entry(copy.deployment.clone()).or_default().push(copy);
    }
    Ok(copies)
}

/// Deletes, of these copies, those that are not wanted any more. Those in a namespace of `others`, which has another release of the
/// deployment, stay with it.
///
/// # Errors
/// If one cannot be deleted.
pub async fn prune_copies(
    deployer: &Client,
    copies: &[ExistingCopy],
    wanted: &BTreeSet<CopyId>,
    others: &BTreeSet<&str>,
) -> Result<(), CallError> {
    let unwanted = copies
        .iter()
        .filter(|copy| !wanted.contains(&copy.id) && !others.contains(&*copy.id.namespace));
    for copy in unwanted {
        let CopyId {
            kind,
            namespace,
            name,
        } = &copy.id;
        tracing::info!(bundledeployment = copy.deployment, %kind, namespace, name, "deleting a copy: downstreamResources does not name it any more");
        delete(deployer, copy).await?;
    }
    Ok(())
}

fn of_deployment(name: &str) -> String {
    format!("{LABEL}={name}")
}

async fn list(
    client: &Client,
    selector: &str,
    namespaces: &[String],
) -> Result<Vec<ExistingCopy>, CallError> {
    let mut found = list_kind::<Secret>(client, CopyKind::Secret, selector, namespaces).await?;
    found.extend(list_kind::<ConfigMap>(client, CopyKind::ConfigMap, selector, namespaces).await?);
    Ok(found)
}

async fn list_kind<K: Copied>(
    client: &Client,
    kind: CopyKind,
    selector: &str,
    namespaces: &[String],
) -> Result<Vec<ExistingCopy>, CallError> {
    let apis = if namespaces.is_empty() {
        vec![Api::<K>::all(client.clone())]
    } else {
        let of_namespace = |namespace: &String| Api::<K>::namespaced(client.clone(), namespace);
        namespaces.iter().map(of_namespace).collect()
    };
    let params = ListParams::default().labels(selector);
    let mut found = Vec::new();
    for api in apis {
        let read = async |params| api.list_metadata(&params).await;
        let mut pages = pin!(pages(params.clone(), read));
        while let Some(page) = pages.next().await {
            let page = page.map_err(CallError::of("list", format_args!("the copies of kind {kind}")))?;
            found.extend(page.into_iter().filter_map(|copy| existing(kind, copy.metadata)));
        }
    }
    Ok(found)
}

fn existing(kind: CopyKind, metadata: ObjectMeta) -> Option<ExistingCopy> {
    if labels::annotation(&metadata, marks::RESOURCE_POLICY).is_some_and(marks::says_keep) {
        return None;
    }
    Some(ExistingCopy {
        deployment: metadata.labels.as_ref()?.get(LABEL)?.clone(),
        id: CopyId {
            kind,
            namespace: metadata.namespace?,
            name: metadata.name?,
        },
        version: Preconditions {
            uid: metadata.uid,
            resource_version: metadata.resource_version,
        },
    })
}

async fn delete(client: &Client, copy: &ExistingCopy) -> Result<(), CallError> {
    match copy.id.kind {
        CopyKind::Secret => delete_kind::<Secret>(client, copy).await,
        CopyKind::ConfigMap => delete_kind::<ConfigMap>(client, copy).await,
    }
}

/// Another client may have changed it, so that it is no copy any more: then it is looked at again.
async fn delete_kind<K: Copied>(client: &Client, copy: &ExistingCopy) -> Result<(), CallError> {
    let api = Api::<K>::namespaced(client.clone(), &copy.id.namespace);
    let params = DeleteParams::default().preconditions(copy.version.clone());
    ended(
        "delete",
        &copy.id,
        bounded(api.delete(&copy.id.name, &params)).await,
    )
}

async fn keep<K: Copied>(client: &Client, copy: &CopyId) -> Result<(), CallError> {
    let api = Api::<K>::namespaced(client.clone(), &copy.namespace);
    let patch = json!({ "metadata": { "annotations": { marks::RESOURCE_POLICY: marks::KEEP } } });
    let patch = Patch::Merge(patch);
    ended(
        "mark",
        copy,
        bounded(api.patch_metadata(&copy.name, &MANAGER.patch(), &patch)).await,
    )
}

fn ended<T>(verb: &'static str, copy: &CopyId, ended: Result<T, ApiError>) -> Result<(), CallError> {
    let CopyId {
        kind,
        namespace,
        name,
    } = copy;
    match ended {
        Ok(_) => Ok(()),
        Err(error) if ApiError::is_not_found(&error) => Ok(()),
        Err(error) => Err(CallError::of(verb, format_args!("{kind} {namespace}/{name}"))(
            error,
        )),
    }
}
