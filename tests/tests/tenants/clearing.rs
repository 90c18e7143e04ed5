//! Removes what an attack left.

use std::time::Duration;

use anyhow::{Result, ensure};
use helmops_tests::api::Api;
use reqwest::Method;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use crate::bed::FLEET;

/// Kinds that the attacker can create.
const DELETED: [&str; 4] = ["helmops", "bundles", "clusters", "policies"];
const DELETED_OF_CORE: [&str; 2] = ["secrets", "configmaps"];
/// Kinds that the controller may have to release.
const AWAITED: [&str; 2] = ["helmops", "bundles"];
const PAUSE: Duration = Duration::from_millis(200);

/// Deletes the attacker's objects and waits until they are gone.
///
/// # Errors
/// Where their number does not decrease for as long as `patience`.
pub async fn clear(api: &Api, namespaces: &[String], patience: Duration) -> Result<()> {
    let mut collections: Vec<_> = namespaces
        .iter()
        .flat_map(|namespace| collections(namespace))
        .collect();
    let (mut fewest, mut since) = (usize::MAX, Instant::now());
    loop {
        // To delete many large objects can take longer than the client's timeout. Then the rest is deleted again.
        let mut failed = Vec::new();
        for path in collections {
            if api.call(Method::DELETE, &path, Value::Null).await.is_err() {
                failed.push(path);
            }
        }
        collections = failed;
        let left = left(api, namespaces).await?;
        if left == 0 && collections.is_empty() {
            return Ok(());
        }
        if left < fewest {
            (fewest, since) = (left, Instant::now());
        }
        ensure!(
            since.elapsed() < patience,
            "{left} objects are left, as many as {patience:?} ago; not deleted: {collections:?}"
        );
        sleep(PAUSE).await;
    }
}

fn collections(namespace: &str) -> Vec<String> {
    let of_fleet = DELETED.map(|resource| format!("{FLEET}/namespaces/{namespace}/{resource}"));
    let of_core = DELETED_OF_CORE.map(|resource| format!("api/v1/namespaces/{namespace}/{resource}"));
    of_fleet.into_iter().chain(of_core).collect()
}

/// How many objects there are that the controller may have to release.
async fn left(api: &Api, namespaces: &[String]) -> Result<usize> {
    let mut left = 0;
    for namespace in namespaces {
        for resource in AWAITED {
            left += api.count(namespace, resource).await?;
        }
    }
    Ok(left)
}
