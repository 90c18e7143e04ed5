//! The records of Helm releases on a cluster.

use helmops_release::record::{DATA_KEY, Record, SECRET_SELECTOR, SECRET_TYPE};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client, ResourceExt, api::ListParams};

use crate::failure::Failure;

/// The newest record of a release; `None` if there is no such release.
///
/// # Errors
/// If it cannot be read.
pub async fn newest(client: &Client, namespace: &str, release: &str) -> Result<Option<Record>, Failure> {
    let newest = secrets(client, namespace, release).await?.pop();
    newest
        .map(|secret| decoded(secret, namespace, release))
        .transpose()
}

/// All records of a release, the oldest first.
///
/// # Errors
/// If one cannot be read.
pub async fn all(client: &Client, namespace: &str, release: &str) -> Result<Vec<Record>, Failure> {
    let secrets = secrets(client, namespace, release).await?.into_iter();
    secrets
        .map(|secret| decoded(secret, namespace, release))
        .collect()
}

/// The Secrets with the records, by their revisions.
async fn secrets(client: &Client, namespace: &str, release: &str) -> Result<Vec<Secret>, Failure> {
    let api = Api::<Secret>::namespaced(client.clone(), namespace);
    let selector = format!("{SECRET_SELECTOR},name={release}");
    let listed = api.list(&ListParams::default().labels(&selector)).await;
    let listed = listed.map_err(|error| Failure::because(attempt(namespace, release), &error))?;
    let mut secrets = listed.items;
    secrets.retain(|secret| secret.type_.as_deref() == Some(SECRET_TYPE));
    secrets.sort_by_key(|secret| secret.labels().get("version")?.parse::<u64>().ok());
    Ok(secrets)
}

fn decoded(secret: Secret, namespace: &str, release: &str) -> Result<Record, Failure> {
    let name = secret.name_any();
    let data = secret.data.and_then(|mut data| data.remove(DATA_KEY));
    Record::decode(&data.unwrap_or_default().0).map_err(|error| {
        let attempt = attempt(namespace, release);
        Failure::because(format!("{attempt}: Secret {name}"), &error)
    })
}

fn attempt(namespace: &str, release: &str) -> String {
    format!("cannot read the records of release {namespace}/{release}")
}
