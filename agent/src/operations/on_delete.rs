//! What happens with a release when its BundleDeployment is gone. It has to be known then, so it is a label of its records.

use helmops_api::{BundleDeployment, NamespacedName};
use helmops_release::{dependencies, history::History, names::name_of, record::OnDelete};
use helmops_runtime::client::CallError;

use crate::{context::Context, error::AgentError, owned::OwnedRelease, session::ReleaseSession};

/// The release of a BundleDeployment, with what it depends on. What it has depended on and is being removed stays, unless it does not depend
/// on that any more: that waits for it.
///
/// # Errors
/// If what is remembered cannot be read.
pub async fn owned(context: &Context, deployment: &BundleDeployment) -> Result<OwnedRelease, CallError> {
    let owned = OwnedRelease::of(deployment);
    if !dependencies::has_any(deployment) {
        return Ok(owned);
    }
    let all = context.deployments.state();
    let all: Vec<_> = all.iter().filter_map(|deployment| deployment.valid()).collect();
    let mut names = dependencies::names(deployment, &all);
    let known = context.owned.of_deployment(name_of(deployment)).await?;
    let known = known.into_iter().filter(|known| known.release == owned.release);
    for name in known.flat_map(|known| known.depends_on) {
        if context.deployments.get(&context.key(&name)).is_none() {
            let removed = context.owned.of_deployment(&name).await?;
            if still_depends(deployment, &name, &removed) {
                names.insert(name);
            }
        }
    }
    Ok(owned.depending_on(names))
}

/// Whether a BundleDeployment still depends on one that does not exist any more, and has these releases.
fn still_depends(deployment: &BundleDeployment, name: &str, removed: &[OwnedRelease]) -> bool {
    removed.iter().any(|owned| {
        let bundle = NamespacedName::new(&*owned.bundle_namespace, name);
        dependencies::may_depend_on(deployment, bundle)
    })
}

/// Remembers the release with what decides about its end: only what is remembered is uninstalled when the BundleDeployment is gone.
///
/// # Errors
/// If it cannot be remembered.
pub async fn remember(session: &ReleaseSession<'_>) -> Result<(), AgentError> {
    let (name, release, all) = (session.name(), &session.release, &session.context.owned);
    let owned = owned(session.context, session.deployment).await?;
    all.remember([(name.to_owned(), owned)]).await?;
    // Its objects are gone: the namespace of a release that is not uninstalled does not change while its records stay where they are.
    let replaced = all.of_deployment(name).await?.into_iter();
    let replaced = replaced.map(|owned| owned.release);
    let replaced = replaced.filter(|other| other != release && other.records() == release.records());
    let replaced: Vec<_> = replaced.collect();
    if !replaced.is_empty() {
        all.forget(name, replaced).await?;
    }
    Ok(())
}

/// What the label of a record says, if that is not the default. `keeps_objects`: the record itself says that the objects stay.
pub fn label(session: &ReleaseSession<'_>, keeps_objects: bool) -> Option<OnDelete> {
    let keep_resources = session.deployment.spec.options.keep_resources && !keeps_objects;
    let on_delete = session.policy.on_delete.with_keep_resources(keep_resources);
    Some(on_delete).filter(|on_delete| !on_delete.is_default())
}

/// Updates what is remembered, if it differs: also if what is wanted was not deployed yet.
///
/// # Errors
/// If it cannot be read or written.
pub async fn update(session: &ReleaseSession<'_>) -> Result<(), AgentError> {
    update_dependencies(session).await?;
    update_label(session).await
}

/// Updates what a remembered release depends on.
async fn update_dependencies(session: &ReleaseSession<'_>) -> Result<(), AgentError> {
    let (name, all) = (session.name(), &session.context.owned);
    let known = all.of_deployment(name).await?;
    let Some(known) = known.into_iter().find(|known| known.release == session.release) else {
        return Ok(());
    };
    if known.depends_on.is_empty() && !dependencies::has_any(session.deployment) {
        return Ok(());
    }
    let depends_on = owned(session.context, session.deployment).await?.depends_on;
    if depends_on != known.depends_on {
        all.remember([(name.to_owned(), OwnedRelease { depends_on, ..known })])
            .await?;
    }
    Ok(())
}

/// Sets the label on the newest record, if it differs.
async fn update_label(session: &ReleaseSession<'_>) -> Result<(), AgentError> {
    let (records, release) = (&session.context.records, &session.release);
    let wanted = |history: &History| {
        let newest = history.newest_of(session.name())?;
        Some((newest.number, label(session, newest.keeps_objects)))
    };
    let cached = records.cached_history(release).await?;
    if wanted(&cached).is_none_or(|(_, wanted)| records.on_delete(release) == wanted) {
        return Ok(());
    }
    let current = session.records.history().await?;
    let Some((newest, wanted)) = wanted(&current) else {
        return Ok(());
    };
    tracing::info!(%release, on_delete = wanted.map(tracing::field::display), "recording what happens at the end");
    let set = records.set_on_delete(release, newest, wanted.as_ref());
    session.records.changed_by(set).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use helmops_api::labels;
    use serde_json::{Value, json};

    use super::*;

    /// In one commit: `web` does not need `db` any more, and `db` is deleted.
    #[test]
    fn a_release_does_not_wait_for_one_that_needs_it_no_more() {
        let deployment = |name: &str, spec: Value| -> BundleDeployment {
            let labels = json!({ labels::BUNDLE_NAME: name, labels::BUNDLE_NAMESPACE: "team" });
            let object = json!({ "metadata": { "name": name, "labels": labels }, "spec": spec });
            serde_json::from_str(&object.to_string()).unwrap()
        };
        let db = [OwnedRelease::of(&deployment("db", json!({})))];
        for (depends_on, removed, expected) in [
            (json!([{ "name": "db" }]), &db[..], true),
            (json!([{ "name": "cache" }]), &db, false),
            (json!([]), &db, false),
            // Its releases are gone.
            (json!([{ "name": "db" }]), &[], false),
        ] {
            let web = deployment("web", json!({ "dependsOn": depends_on }));
            assert_eq!(still_depends(&web, "db", removed), expected, "{depends_on}");
        }
    }
}
