//! The records of Helm releases on a cluster.

use helmops_release::{
    names::RecordsKey,
    record::{DATA_KEY, Record, SECRET_SELECTOR, SECRET_TYPE},
};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client, ResourceExt, api::ListParams};

use crate::failure::Failure;

/// The newest record of a release; `None` if there is no such release.
///
/// # Errors
/// If it cannot be read.
pub async fn newest(client: &Client, records: &RecordsKey) -> Result<Option<Record>, Failure> {
    let newest = secrets(client, records).await?.pop();
    newest.map(|secret| decoded(secret, records)).transpose()
}

/// All records of a release, the oldest first.
///
/// # Errors
/// If one cannot be read.
pub async fn all(client: &Client, records: &RecordsKey) -> Result<Vec<Record>, Failure> {
    let secrets = secrets(client, records).await?.into_iter();
    secrets.map(|secret| decoded(secret, records)).collect()
}

/// The Secrets with the records, by their revisions.
async fn secrets(client: &Client, records: &RecordsKey) -> Result<Vec<Secret>, Failure> {
    let api = Api::<Secret>::namespaced(client.clone(), &records.namespace);
    let selector = format!("{SECRET_SELECTOR},name={}", records.name);
    let listed = api.list(&ListParams::default().labels(&selector)).await;
    let listed = listed.map_err(|error| Failure::because(attempt(records), &error))?;
    let mut secrets = listed.items;
    secrets.retain(|secret| secret.type_.as_deref() == Some(SECRET_TYPE));
    secrets.sort_by_key(|secret| secret.labels().get("version")?.parse::<u64>().ok());
    Ok(secrets)
}

fn decoded(secret: Secret, records: &RecordsKey) -> Result<Record, Failure> {
    let name = secret.name_any();
    let data = secret.data.and_then(|mut data| data.remove(DATA_KEY));
    Record::decode(&data.unwrap_or_default().0).map_err(|error| {
        let attempt = attempt(records);
        Failure::because(format!("{attempt}: Secret {name}"), &error)
    })
}

fn attempt(records: &RecordsKey) -> String {
    format!("cannot read the records of release {records}")
}
