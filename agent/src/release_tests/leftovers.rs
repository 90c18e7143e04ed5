//! Deletes what earlier runs of tests have left.
//!
//! Helm does that itself, unless the annotation `helm.sh/hook-delete-policy` of a test has other policies only. Then it would apply
//! the test to the object that exists: an old end would count as the new one, or the API server refuses the change.

use std::time::Duration;

use helmops_release::{names::SetId, object::ObjectId, record::Hook};
use helmops_runtime::client::{CallError, bounded};
use kube::{Api, Client, core::DynamicObject};
use tokio::time::{Instant, sleep};

use super::TestError;
use crate::live::{self, KindError, Kinds, ResourceKind};

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
    let mut deleted = Vec::new();
    for test in tests.iter().filter(|test| !test.is_deleted_before_creation()) {
        let Some(mut id) = test.object(namespace) else {
            continue;
        };
        let kind = match kinds.get(&id.api_version, &id.kind).await {
            Ok(kind) => kind,
            // Helm reports that.
            Err(KindError::Unknown { .. }) => continue,
            Err(error) => return Err(error.into()),
        };
        if !kind.is_namespaced {
            id.namespace.clear();
        }
        live::delete(client, &kind, &id, set).await?;
        deleted.push((kind, id));
    }
    let deadline = Instant::now() + GONE;
    for (kind, id) in deleted {
        while is_terminating(client, &kind, &id).await? && Instant::now() < deadline {
            sleep(POLL).await;
        }
    }
    Ok(())
}

async fn is_terminating(client: &Client, kind: &ResourceKind, id: &ObjectId) -> Result<bool, CallError> {
    let api: Api<DynamicObject> = if kind.is_namespaced {
        Api::namespaced_with(client.clone(), &id.namespace, &kind.resource)
    } else {
        Api::all_with(client.clone(), &kind.resource)
    };
    let found = bounded(api.get_metadata_opt(&id.name)).await;
    let found = found.map_err(CallError::of("read", id))?;
    Ok(found.is_some_and(|found| found.metadata.deletion_timestamp.is_some()))
}
