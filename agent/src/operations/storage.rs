//! Records in another namespace than that of the release (`lifecycle.storageNamespace`).
//!
//! Helm finds a release by the namespace of its records and its name alone, and objects by the namespace of the release and its name alone. So
//! both may be those of another release, which Helm does not notice.

use helmops_kube::path_segment;
use helmops_release::{
    history::{History, Owner},
    names::ReleaseKey,
    record::Status,
    state::ForeignOwner,
};
use helmops_runtime::client::bounded;
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;

use crate::{
    error::{AgentError, Lacking},
    session::ReleaseSession,
};

/// Checks that the records are those of a release in the same namespace: Helm would go on in the namespace that they name.
///
/// # Errors
/// If they are not, or cannot be read.
pub async fn check_namespace(session: &ReleaseSession<'_>, history: &History) -> Result<(), AgentError> {
    let (records, release) = (&session.context.records, &session.release);
    // What is uninstalled has no objects, and the next installation names its own namespace.
    let newest = history
        .newest()
        .filter(|newest| newest.status != Status::Uninstalled);
    let Some(newest) = newest else {
        return Ok(());
    };
    let record = records.read_known(release, newest.number).await?;
    match record {
        Some(record) if record.namespace != release.namespace => Err(AgentError::OtherNamespace {
            release: release.clone(),
            namespace: record.namespace.clone(),
        }),
        _ => Ok(()),
    }
}

/// Checks that no other release has the objects of the present one, which has no records yet: neither one with its records beside its
/// objects, nor one of another BundleDeployment.
///
/// # Errors
/// If another one has them, or what there is cannot be read.
pub async fn check_objects(session: &ReleaseSession<'_>) -> Result<(), AgentError> {
    let (context, release) = (session.context, &session.release);
    let owned = context.owned.known().await?;
    let others = owned.names().filter(|name| **name != session.name());
    let others = others.flat_map(|name| owned.of_deployment(name));
    let others = others.map(|owned| owned.release.clone());
    let beside = ReleaseKey::new(&release.namespace, &release.name);
    for other in others.chain([beside]) {
        if !other.has_objects_of(release) || other.storage == release.storage {
            continue;
        }
        let history = context.records.cached_history(&other).await?;
        if let Some(owner) = owner_of(&history, session.name()) {
            return Err(AgentError::OtherRecords {
                release: other,
                owner,
                storage: release.storage.clone(),
            });
        }
    }
    Ok(())
}

/// Who has objects by these records, if it is not this BundleDeployment.
fn owner_of(history: &History, deployment: &str) -> Option<ForeignOwner> {
    let newest = history
        .newest()
        .filter(|newest| newest.status != Status::Uninstalled)?;
    match &newest.origin.owner {
        Owner::BundleDeployment(name) if name == deployment => None,
        Owner::BundleDeployment(name) => Some(ForeignOwner::BundleDeployment(name.clone())),
        Owner::Other => Some(ForeignOwner::Unmanaged),
    }
}

/// Checks that the namespace of the records exists, if it is not that of the release. It is not created: it is one that others have set up.
///
/// # Errors
/// If it does not exist.
pub async fn check_exists(session: &ReleaseSession<'_>) -> Result<(), AgentError> {
    let (context, release) = (session.context, &session.release);
    if !release.has_records_elsewhere() {
        return Ok(());
    }
    let namespace = &*release.storage;
    let api = Api::<Namespace>::all(context.downstream.clone());
    match bounded(api.get_metadata_opt(&path_segment(namespace))).await {
        Ok(None) => Err(Lacking::StorageNamespace {
            namespace: namespace.to_owned(),
        }
        .into()),
        // An agent that may not read it learns from Helm whether it can be used.
        Ok(Some(_)) | Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use helmops_release::{
        history::Revision,
        marks,
        record::{Info, Record},
    };
    use serde_json::json;

    use super::*;

    #[test]
    fn objects_are_those_of_another_release_until_it_is_uninstalled() {
        let history = |owner: Option<&str>, status| {
            let annotations = json!({ marks::BUNDLE_ID: owner, marks::AGENT_NAMESPACE: "agent" });
            let record = Record {
                info: Info {
                    status,
                    ..Info::default()
                },
                chart: json!({ "metadata": { "annotations": annotations } }),
                ..Record::default()
            };
            History::new(vec![Revision::of(&record, "agent", None)])
        };
        let other = ForeignOwner::BundleDeployment("other".to_owned());
        for (owner, status, expected) in [
            (Some("web"), Status::Deployed, None),
            (Some("other"), Status::Deployed, Some(other)),
            (Some("other"), Status::Uninstalled, None),
            (None, Status::Failed, Some(ForeignOwner::Unmanaged)),
            (None, Status::Uninstalled, None),
        ] {
            assert_eq!(owner_of(&history(owner, status), "web"), expected, "{status:?}");
        }
        assert_eq!(owner_of(&History::default(), "web"), None);
    }
}
