//! The fields of objects that a user's Helm, or another tool with Helm, has applied: the agent becomes their manager before it upgrades
//! the release.
//!
//! With server-side apply, each change of such a field would be a conflict with the manager `helm`, and a field that a new version does
//! not have any more would stay, because `helm` still owns it. Fields of all other managers stay theirs, with their conflicts.

use std::{collections::BTreeSet, time::Instant};

use helmops_kube::with_managers;
use helmops_release::{
    manifest, marks,
    object::{self, ObjectId},
    record::{ApplyMethod, Record},
};
use helmops_runtime::client::CallError;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{FieldsV1, ManagedFieldsEntry};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

use crate::{
    error::AgentError,
    live::{Metadata, Objects},
    monitor::FIELD_MANAGER,
    session::ReleaseSession,
};

/// The names under which Helm 4 applies objects: that of its program, and that of Flux.
const HELM: [&str; 3] = ["helm", "helm4", "helm-controller"];
const APPLY: &str = "Apply";

/// Makes the agent the manager of what Helm has applied for the revision that is upgraded, if that revision was not deployed by an
/// agent: then its objects do not have the marks.
///
/// # Errors
/// If an object cannot be read or written.
pub async fn take_over(
    session: &ReleaseSession<'_>,
    deployer: &Client,
    revision: u64,
) -> Result<(), AgentError> {
    let record = session
        .context
        .records
        .read_known(&session.release, revision)
        .await?;
    let Some(record) = record.filter(|record| is_applied_by_others(record)) else {
        return Ok(());
    };
    // A manifest that cannot be read has no objects that Helm could compare either.
    let objects = manifest::objects(&record.manifest).unwrap_or_default();
    let ids = objects
        .iter()
        .filter_map(|object| ObjectId::in_release(object, &session.release.namespace));
    let deployer = with_managers(deployer);
    for id in ids {
        take_over_of(session, &deployer, &id).await?;
    }
    Ok(())
}

async fn take_over_of(
    session: &ReleaseSession<'_>,
    deployer: &Client,
    id: &ObjectId,
) -> Result<(), AgentError> {
    let objects = Objects {
        kinds: &session.context.kinds,
        client: deployer,
    };
    let Some(found) = objects.read(id).await? else {
        return Ok(());
    };
    let Some(managed) = taken(found.managed_fields()) else {
        return Ok(());
    };
    objects.patch(id, replacement(&found, &managed)).await?;
    Ok(())
}

/// Makes the managers of an object those of a version of its API that is served. With server-side apply, the API server compares the
/// object in the version of each manager, and rejects every change of a custom resource if it does not have one of them. Nothing that was
/// known before `since` counts.
///
/// # Errors
/// If the API server cannot be read, or the object cannot be written.
pub async fn renew_managers(
    objects: Objects<'_>,
    id: &ObjectId,
    live: &Metadata,
    since: Instant,
) -> Result<(), CallError> {
    let managers = live.managed_fields();
    let mut removed = BTreeSet::new();
    for version in managers.iter().filter_map(|entry| entry.api_version.as_deref()) {
        let is_other = version != id.api_version && object::group(version) == id.group();
        if is_other && !objects.kinds.has_since(version, &id.kind, since).await? {
            removed.insert(version);
        }
    }
    if removed.is_empty() {
        return Ok(());
    }
    let renewed = renewed(managers, &id.api_version, &removed);
    objects.patch(id, replacement(live, &renewed)).await
}

/// The managers with another version in place of those that are not served any more.
fn renewed(
    managers: &[ManagedFieldsEntry],
    version: &str,
    removed: &BTreeSet<&str>,
) -> Vec<ManagedFieldsEntry> {
    let mut renewed = managers.to_vec();
    for entry in &mut renewed {
        if entry
            .api_version
            .as_deref()
            .is_some_and(|of_entry| removed.contains(of_entry))
        {
            entry.api_version = Some(version.to_owned());
        }
    }
    renewed
}

/// The patch that replaces the managers of an object. It has the version that was read: it fails if another client has changed the object.
fn replacement(live: &impl ResourceExt, managers: &[ManagedFieldsEntry]) -> json_patch::Patch {
    let change = json!([
        { "op": "replace", "path": "/metadata/managedFields", "value": managers },
        { "op": "replace", "path": "/metadata/resourceVersion", "value": live.resource_version() },
    ]);
    serde_json::from_value(change).unwrap_or_default()
}

/// Whether objects of a revision were applied by another client than an agent, in the way that has managers.
fn is_applied_by_others(record: &Record) -> bool {
    record.apply_method() == ApplyMethod::ServerSide && !record.manifest.contains(marks::SET_HASH)
}

/// The managers of an object after the agent has taken over what Helm has applied; `None` if there is nothing.
fn taken(managers: &[ManagedFieldsEntry]) -> Option<Vec<ManagedFieldsEntry>> {
    let applies = |entry: &ManagedFieldsEntry, names: &[&str]| {
        let is_of = entry
            .manager
            .as_deref()
            .is_some_and(|manager| names.contains(&manager));
        is_of && entry.operation.as_deref() == Some(APPLY) && entry.subresource.is_none()
    };
    if !managers.iter().any(|entry| applies(entry, &HELM)) {
        return None;
    }
    let (own, mut others): (Vec<_>, Vec<_>) = managers
        .iter()
        .cloned()
        .partition(|entry| applies(entry, &HELM) || applies(entry, &[FIELD_MANAGER]));
    let mut own = own.into_iter();
    let mut first = own.next()?;
    first.manager = Some(FIELD_MANAGER.to_owned());
    for entry in own {
        if let Some(FieldsV1(fields)) = entry.fields_v1 {
            let all = first.fields_v1.get_or_insert_with(|| FieldsV1(json!({})));
            add(&mut all.0, fields);
        }
    }
    others.push(first);
    Some(others)
}

/// Adds the fields of one set to another.
fn add(all: &mut Value, more: Value) {
    if let (Value::Object(all), Value::Object(more)) = (all, more) {
        for (name, fields) in more {
            match all.get_mut(&name) {
                Some(existing) => add(existing, fields),
                None => _ = all.insert(name, fields),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(manager: &str, operation: &str, subresource: Option<&str>, fields: Value) -> ManagedFieldsEntry {
        ManagedFieldsEntry {
            manager: Some(manager.to_owned()),
            operation: Some(operation.to_owned()),
            subresource: subresource.map(str::to_owned),
            fields_v1: Some(FieldsV1(fields)),
            ..ManagedFieldsEntry::default()
        }
    }

    #[test]
    fn what_helm_has_applied_is_taken_over_and_nothing_else() {
        let helm = || entry("helm", "Apply", None, json!({ "f:data": { "f:a": {} } }));
        let kubectl = || entry("kubectl", "Apply", None, json!({ "f:data": { "f:b": {} } }));
        let update = || entry("helm", "Update", None, json!({}));
        let status = || entry("helm", "Apply", Some("status"), json!({}));
        let own = |fields| entry(FIELD_MANAGER, "Apply", None, fields);
        let a = || json!({ "f:data": { "f:a": {} } });
        for (managers, expected) in [
            (vec![], None),
            (vec![kubectl(), update(), status()], None),
            (vec![own(a())], None),
            (vec![helm(), kubectl()], Some(vec![kubectl(), own(a())])),
            (
                vec![update(), helm(), status()],
                Some(vec![update(), status(), own(a())]),
            ),
            (
                vec![helm(), own(json!({ "f:data": { "f:c": {} } }))],
                Some(vec![own(json!({ "f:data": { "f:a": {}, "f:c": {} } }))]),
            ),
        ] {
            assert_eq!(taken(&managers), expected, "{managers:?}");
        }
    }

    #[test]
    fn managers_get_a_version_that_is_served() {
        let of = |version: &str| ManagedFieldsEntry {
            api_version: Some(version.to_owned()),
            ..entry("helm", "Apply", None, json!({}))
        };
        let removed = ["example.com/v1beta1"].into();
        let managers = [of("example.com/v1beta1"), of("example.com/v1alpha1")];
        let expected = [of("example.com/v1"), of("example.com/v1alpha1")];
        assert_eq!(renewed(&managers, "example.com/v1", &removed), expected);
    }

    #[test]
    fn revisions_of_an_agent_and_of_helm_3_have_nothing_to_take_over() {
        let record = |apply_method, manifest: &str| Record {
            apply_method,
            manifest: manifest.to_owned(),
            ..Record::default()
        };
        let server = Some(ApplyMethod::ServerSide);
        assert!(is_applied_by_others(&record(server, "kind: A")));
        assert!(!is_applied_by_others(&record(server, marks::SET_HASH)));
        assert!(!is_applied_by_others(&record(None, "kind: A")));
    }
}
