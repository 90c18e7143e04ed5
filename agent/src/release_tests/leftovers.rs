//! Deletes what earlier runs of tests have left.
//!
//! Helm does that itself, unless the annotation `helm.sh/hook-delete-policy` of a test has other policies only. Then it would apply
//! the test to the object that exists: an old end would count as the new one, or the API server refuses the change.

use std::{collections::BTreeMap, time::Duration};

use helmops_release::{marks, names::SetId, object::ObjectId, record::Hook};
use helmops_runtime::client::CallError;
use kube::Client;
use tokio::time::{Instant, sleep};

use super::TestError;
use crate::live::{Kinds, Objects};

/// How long pods may take to end.
const GONE: Duration = Duration::from_mins(1);
/// Between two looks.
const POLL: Duration = Duration::from_millis(200);

/// Deletes the objects of tests, if they belong to the release, and waits until they are gone. What is not gone in time is left to Helm.
///
/// # Errors
/// If one cannot be read or deleted.
pub async fn delete(client: &Client, tests: &[&Hook], namespace: &str, set: &SetId) -> Result<(), TestError> {
    let kinds = Kinds::new(client.clone());
    let objects = Objects {
        kinds: &kinds,
        client,
    };
    let of_release = |annotations: &BTreeMap<String, String>| {
        annotations.get(marks::SET_ID).map(String::as_str) == Some(set.as_str())
    };
    let mut deleted = Vec::new();
    for test in tests.iter().filter(|test| !test.is_deleted_before_creation()) {
        // Helm reports a kind that does not exist.
        if let Some(id) = test.object(namespace) {
            objects.delete(&id, of_release).await?;
            deleted.push(id);
        }
    }
    let deadline = Instant::now() + GONE;
    for id in deleted {
        while is_terminating(objects, &id).await? && Instant::now() < deadline {
            sleep(POLL).await;
        }
    }
    Ok(())
}

async fn is_terminating(objects: Objects<'_>, id: &ObjectId) -> Result<bool, CallError> {
    let found = objects.metadata(id).await?;
    Ok(found.is_some_and(|found| found.metadata.deletion_timestamp.is_some()))
}
