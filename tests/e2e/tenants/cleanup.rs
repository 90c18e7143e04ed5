//! Deletes the objects of an attack.

use std::time::Duration;

use anyhow::{Result, ensure};
use helmops_bed::api::Api;
use reqwest::Method;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use crate::environment::FLEET;

/// Kinds that the attacker can create.
const DELETED: [&str; 4] = ["helmops", "bundles", "clusters", "policies"];
const DELETED_OF_CORE: [&str; 2] = ["secrets", "configmaps"];
/// Kinds with finalizers that the controller may have to remove.
const AWAITED: [&str; 2] = ["helmops", "bundles"];
const PAUSE: Duration = Duration::from_millis(200);

/// Deletes the attacker's objects and waits until they are gone.
///
/// # Errors
/// Where their number does not decrease within `patience`.
pub async fn clear(api: &Api, namespaces: &[String], patience: Duration) -> Result<()> {
    let mut collections: Vec<_> = namespaces
        .iter()
        .flat_map(|namespace| collections(namespace))
        .collect();
    let (mut fewest, mut since) = (usize::MAX, Instant::now());
    loop {
        // Deleting many large objects can take longer than the client's timeout. Then the deletion is repeated.
        let mut failed = Vec::new();
        for path in collections {
            if api.call(Method::DELETE, &path, Value::Null).await.is_err() {
                failed.push(path);
            }
        }
        collections = failed;
        let remaining = remaining(api, namespaces).await?;
        if remaining == 0 && collections.is_empty() {
            return Ok(());
        }
        if remaining < fewest {
            (fewest, since) = (remaining, Instant::now());
        }
        ensure!(
            since.elapsed() < patience,
            "{remaining} objects remain, as many as {patience:?} ago; not deleted: {collections:?}"
        );
        sleep(PAUSE).await;
    }
}

fn collections(namespace: &str) -> Vec<String> {
    let of_fleet = DELETED.map(|resource| format!("{FLEET}/namespaces/{namespace}/{resource}"));
    let of_core = DELETED_OF_CORE.map(|resource| format!("api/v1/namespaces/{namespace}/{resource}"));
    of_fleet.into_iter().chain(of_core).collect()
}

/// How many objects remain of the kinds with finalizers.
async fn remaining(api: &Api, namespaces: &[String]) -> Result<usize> {
    let mut remaining = 0;
    for namespace in namespaces {
        for resource in AWAITED {
            remaining += api.count(namespace, resource).await?;
        }
    }
    Ok(remaining)
}
