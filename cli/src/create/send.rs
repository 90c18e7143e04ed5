//! Sends objects to the API server.

use helmops_api::HelmOp;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{Api, Client, api::PostParams};
use serde_json::Value;

use super::draft::Draft;
use crate::{
    cluster::{Cluster, apply::FIELD_MANAGER},
    failure::Failure,
};

/// Creates a HelmOp and the objects that it needs, or only validates them.
///
/// # Errors
/// If the API server does not accept one of them. Those before it exist then.
pub async fn create(cluster: &Cluster, mut draft: Draft, is_dry_run: bool) -> Result<Draft, Failure> {
    let params = PostParams {
        dry_run: is_dry_run,
        field_manager: Some(FIELD_MANAGER.to_owned()),
    };
    let namespace = draft.helmop.metadata.namespace.clone();
    let namespace = namespace.unwrap_or_else(|| cluster.namespace.clone());
    for object in &draft.objects {
        create_object(&cluster.client, &namespace, object, &params).await?;
    }
    let api = Api::<HelmOp>::namespaced(cluster.client.clone(), &namespace);
    let name = draft.name().to_owned();
    let created = api.create(&params, &draft.helmop).await;
    draft.helmop = created.map_err(|error| failure("HelmOp", &namespace, &name, error))?;
    draft.helmop.metadata.managed_fields = None;
    Ok(draft)
}

async fn create_object(
    client: &Client,
    namespace: &str,
    object: &Value,
    params: &PostParams,
) -> Result<(), Failure> {
    let text = |pointer| {
        object
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let (kind, name) = (text("/kind"), text("/metadata/name"));
    let invalid =
        |error: serde_json::Error| Failure::because(format!("{kind} {name:?} does not decode"), &error);
    let created = if kind == "Secret" {
        let secret: Secret = serde_json::from_value(object.clone()).map_err(invalid)?;
        let api = Api::<Secret>::namespaced(client.clone(), namespace);
        api.create(params, &secret).await.map(drop)
    } else {
        let config: ConfigMap = serde_json::from_value(object.clone()).map_err(invalid)?;
        let api = Api::<ConfigMap>::namespaced(client.clone(), namespace);
        api.create(params, &config).await.map(drop)
    };
    created.map_err(|error| failure(kind, namespace, name, error))
}

fn failure(kind: &str, namespace: &str, name: &str, error: kube::Error) -> Failure {
    let what = format!("{kind} {name:?} in namespace {namespace:?}");
    match error {
        kube::Error::Api(status) if status.reason == "AlreadyExists" => {
            Failure::negative(format!("{what} exists already")).with_hint(format!(
                "print what would be created with --dry-run=client -o yaml, and compare it with: kubectl helmop diff -n {namespace} -f FILE"
            ))
        }
        kube::Error::Api(status) if (400..500).contains(&status.code) => {
            Failure::negative(format!("the API server does not accept {what}: {}", status.message))
        }
        error => Failure::because(format!("cannot create {what}"), &error),
    }
}
