//! The deletion of a Cluster, with or without a hold.

use std::time::Duration;

use helmops_api::{
    BundleDeployment, Cluster, MetadataOnly, NamespacedName,
    labels::{LEAVE_FINALIZER, LEAVE_RELEASES},
};
use helmops_runtime::writes::without_finalizer;
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::{
    cluster::{api_error, apply::FIELD_MANAGER, until::until},
    failure::Failure,
};

const NO_CONTROLLER: &str = "does the controller run? Find out with: kubectl helmop check";

/// Maximum number of attempts to change an object that other clients change at the same time.
const ATTEMPTS: usize = 10;

fn api(client: &Client, cluster: &NamespacedName) -> Api<Cluster> {
    Api::namespaced(client.clone(), &cluster.namespace)
}

/// Deletes the Cluster, but holds it with a finalizer: the controller deletes its BundleDeployments, and leaves its agent the account.
/// `record` is what a repeated run needs to know; it is written before anything is deleted.
///
/// # Errors
/// If the BundleDeployments are not gone in time.
pub async fn withdraw(
    client: &Client,
    cluster: &Cluster,
    name: &NamespacedName,
    record: &str,
    timeout: Duration,
) -> Result<((), String), Failure> {
    // One that is being deleted already accepts no new finalizers.
    if cluster.metadata.deletion_timestamp.is_none() {
        change(client, name, |cluster| with_hold(cluster, record)).await?;
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
    let others = others(&cluster).unwrap_or_else(|| cluster.finalizers().to_vec());
    change(client, name, without_hold).await?;
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

/// Whether the Cluster has the hold.
pub fn is_held(cluster: &Cluster) -> bool {
    cluster.finalizers().iter().any(|one| one == LEAVE_FINALIZER)
}

/// The metadata with the hold and the record; `None` if both are there.
fn with_hold(cluster: &Cluster, record: &str) -> Option<Value> {
    let is_recorded = cluster
        .annotations()
        .get(LEAVE_RELEASES)
        .is_some_and(|found| found == record);
    if is_held(cluster) && is_recorded {
        return None;
    }
    let mut finalizers = cluster.finalizers().to_vec();
    if !is_held(cluster) {
        finalizers.push(LEAVE_FINALIZER.to_owned());
    }
    Some(json!({ "finalizers": finalizers, "annotations": { LEAVE_RELEASES: record } }))
}

/// The metadata without the hold; `None` if it is not there.
fn without_hold(cluster: &Cluster) -> Option<Value> {
    others(cluster).map(|finalizers| json!({ "finalizers": finalizers }))
}

/// The finalizers without the hold; `None` if it is not there.
fn others(cluster: &Cluster) -> Option<Vec<String>> {
    without_finalizer(cluster, LEAVE_FINALIZER)
}

/// Changes the metadata of the Cluster. Finalizers are written as a whole, so they are those of the version that was read: if another
/// client changes the Cluster at the same time, it is read again.
async fn change(
    client: &Client,
    name: &NamespacedName,
    metadata_of: impl Fn(&Cluster) -> Option<Value>,
) -> Result<(), Failure> {
    let params = PatchParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    };
    let api = api(client, name);
    let failed = |error: &kube::Error| {
        api_error::failed(format!("cannot change the finalizers of Cluster {name}"), error)
    };
    let mut attempts = 0;
    loop {
        attempts += 1;
        let Some(cluster) = api.get_opt(&name.name).await.map_err(|error| failed(&error))? else {
            return Ok(());
        };
        let Some(mut metadata) = metadata_of(&cluster) else {
            return Ok(());
        };
        if let Some(metadata) = metadata.as_object_mut() {
            metadata.insert("uid".to_owned(), json!(cluster.uid()));
            metadata.insert("resourceVersion".to_owned(), json!(cluster.resource_version()));
        }
        let patch = Patch::Merge(json!({ "metadata": metadata }));
        match api.patch(&name.name, &params, &patch).await {
            Ok(_) => return Ok(()),
            Err(error) if api_error::is_not_found(&error) => return Ok(()),
            Err(error) if api_error::is_conflict(&error) && attempts < ATTEMPTS => {}
            Err(error) => return Err(failed(&error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        convert::Infallible,
        sync::{Arc, Mutex},
    };

    use helmops_process::lock;
    use http::{Method, Request, Response, StatusCode};
    use kube::client::Body;
    use tower::service_fn;

    use super::*;

    /// An API server with a Cluster, to which another client adds a finalizer between the first read and the first write.
    fn client(cluster: &Arc<Mutex<Value>>) -> Client {
        let (cluster, is_first) = (Arc::clone(cluster), Arc::new(Mutex::new(true)));
        let service = service_fn(move |request: Request<Body>| {
            let (cluster, is_first) = (Arc::clone(&cluster), Arc::clone(&is_first));
            async move {
                let (head, body) = request.into_parts();
                let body = body.collect_bytes().await.unwrap();
                let mut cluster = lock(&cluster);
                let mut code = StatusCode::OK;
                let mut response = cluster.clone();
                if head.method == Method::GET {
                    if std::mem::take(&mut *lock(&is_first)) {
                        let finalizers = cluster["metadata"]["finalizers"].as_array_mut().unwrap();
                        finalizers.push(json!("example.com/theirs"));
                        cluster["metadata"]["resourceVersion"] = json!("2");
                    }
                } else {
                    let patch: Value = serde_json::from_slice(&body).unwrap();
                    let version = &cluster["metadata"]["resourceVersion"];
                    // As the API server: what a patch does not name is not compared.
                    if patch["metadata"]
                        .get("resourceVersion")
                        .is_none_or(|of| of == version)
                    {
                        for (key, value) in patch["metadata"].as_object().unwrap() {
                            cluster["metadata"][key] = value.clone();
                        }
                        response = cluster.clone();
                    } else {
                        code = StatusCode::CONFLICT;
                        response = json!({ "kind": "Status", "status": "Failure", "code": 409, "reason": "Conflict" });
                    }
                }
                let mut response = Response::new(Body::from(response.to_string().into_bytes()));
                *response.status_mut() = code;
                Ok::<_, Infallible>(response)
            }
        });
        helmops_kube::client_of(service, "fleet")
    }

    #[tokio::test]
    async fn a_finalizer_that_another_client_adds_at_the_same_time_stays() {
        let name = NamespacedName::new("fleet", "c1");
        let hold = |cluster: &Cluster| with_hold(cluster, "{}");
        let record = json!({ LEAVE_RELEASES: "{}" });
        for (before, metadata_of, after, annotations) in [
            (
                json!([]),
                hold as fn(&Cluster) -> _,
                json!(["example.com/theirs", LEAVE_FINALIZER]),
                &record,
            ),
            // An earlier run was interrupted before it has deleted the Cluster.
            (
                json!([LEAVE_FINALIZER]),
                hold,
                json!([LEAVE_FINALIZER, "example.com/theirs"]),
                &record,
            ),
            (
                json!([LEAVE_FINALIZER]),
                without_hold,
                json!(["example.com/theirs"]),
                &Value::Null,
            ),
        ] {
            let metadata = json!({ "namespace": "fleet", "name": "c1", "uid": "u", "resourceVersion": "1", "finalizers": before });
            let cluster = Arc::new(Mutex::new(
                json!({ "metadata": metadata, "spec": {}, "status": {} }),
            ));
            change(&client(&cluster), &name, metadata_of).await.unwrap();
            let metadata = lock(&cluster)["metadata"].clone();
            assert_eq!(
                (&metadata["finalizers"], &metadata["annotations"]),
                (&after, annotations)
            );
        }
    }
}
