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
    let api = Api::<Secret>::namespaced(client.clone(), namespace);
    let selector = format!("{SECRET_SELECTOR},name={release}");
    let listed = api.list(&ListParams::default().labels(&selector)).await;
    let attempt = format!("cannot read the records of release {namespace}/{release}");
    let listed = listed.map_err(|error| Failure::because(&attempt, &error))?;
    let revision = |secret: &Secret| secret.labels().get("version")?.parse::<u64>().ok();
    let of_release = listed
        .items
        .into_iter()
        .filter(|secret| secret.type_.as_deref() == Some(SECRET_TYPE));
    let Some(secret) = of_release.max_by_key(revision) else {
        return Ok(None);
    };
    let name = secret.name_any();
    let data = secret.data.and_then(|mut data| data.remove(DATA_KEY));
    let record = Record::decode(&data.unwrap_or_default().0)
        .map_err(|error| Failure::because(format!("{attempt}: Secret {name}"), &error))?;
    Ok(Some(record))
}
