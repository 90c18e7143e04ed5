//! What exists already of what a chart would install.
//!
//! Helm takes objects over that carry the name of the release, or any with `takeOwnership`. An installation does not say which of its
//! objects are new, so this looks at them first.

use helmops_release::{
    history::History,
    lifecycle::Remediation,
    manifest, marks,
    object::ObjectId,
    owner::OtherOwner,
    record::{Cause, Status},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

use super::{adopt::rendered, prepare::Prepared};
use crate::{error::AgentError, live::Objects, owned::OwnedRelease, session::ReleaseSession};

/// Whether all objects of the chart that exist already are of these releases, or of the present one: then Helm may take them over.
/// Otherwise it refuses them, and names the first one.
///
/// # Errors
/// If the chart cannot be rendered because the agent stops, or an object cannot be read.
pub async fn owns_all_that_exists(
    session: &ReleaseSession<'_>,
    prepared: &Prepared,
    releases: &[OwnedRelease],
) -> Result<bool, AgentError> {
    let Some(objects) = objects_to_install(session, prepared).await? else {
        return Ok(false);
    };
    let own = releases.iter().map(|owned| &owned.release);
    let own: Vec<_> = own.chain([&session.release]).collect();
    let set = session.set();
    for object in objects {
        if let Some((id, metadata)) = existing(session, prepared, &object).await?
            && OtherOwner::of(&metadata.annotations.unwrap_or_default(), &own, &set).is_some()
        {
            tracing::info!(release = %session.release, object = %id, "the release that was renamed does not own the object");
            return Ok(false);
        }
    }
    Ok(true)
}

/// Makes an installation over objects of the chart that exist already one of a release whose records are missing: if it fails, nothing is
/// uninstalled. `history` are the records of the release, if it has any: unless they show that it is uninstalled, the objects are its own.
///
/// # Errors
/// As [`owns_all_that_exists`].
pub async fn look_for_older_objects(
    session: &ReleaseSession<'_>,
    history: Option<&History>,
    prepared: &mut Prepared,
) -> Result<(), AgentError> {
    let newest = history.and_then(History::newest);
    let is_installed = newest.is_some_and(|newest| newest.status != Status::Uninstalled);
    if session.policy.install.remediation == Remediation::Uninstall
        && !is_installed
        && let Some(object) = older_object(session, prepared).await?
    {
        tracing::warn!(release = %session.release, %object, "the release has objects without a record: if its installation fails, it is not uninstalled");
        prepared.deploy.set_cause(Cause::Missing);
    }
    Ok(())
}

/// The first object of the chart that exists already and that an uninstallation would delete. Objects that stay in any case
/// (`helm.sh/resource-policy: keep`), or are being deleted, do not count.
///
/// # Errors
/// As [`owns_all_that_exists`].
async fn older_object(
    session: &ReleaseSession<'_>,
    prepared: &Prepared,
) -> Result<Option<ObjectId>, AgentError> {
    for object in objects_to_install(session, prepared).await?.unwrap_or_default() {
        if let Some((id, metadata)) = existing(session, prepared, &object).await?
            && metadata.deletion_timestamp.is_none()
            && !marks::is_kept(&object)
        {
            return Ok(Some(id));
        }
    }
    Ok(None)
}

/// The objects that Helm applies, without hooks, which have no owner; `None` if the chart cannot be rendered, or Helm refuses
/// them: an installation fails too, and reports that.
async fn objects_to_install(
    session: &ReleaseSession<'_>,
    prepared: &Prepared,
) -> Result<Option<Vec<Value>>, AgentError> {
    let Some(rendered) = rendered(session, prepared, false).await? else {
        return Ok(None);
    };
    let rendered = prepared.deploy.post_render.render(&rendered).ok();
    let mut objects = rendered.and_then(|rendered| manifest::objects(&rendered).ok());
    if let Some(objects) = &mut objects {
        objects.retain(|object| {
            object
                .pointer("/metadata/annotations")
                .is_none_or(|own| own.get(marks::HOOK).is_none())
        });
    }
    Ok(objects)
}

/// The live object of an object of the chart.
async fn existing(
    session: &ReleaseSession<'_>,
    prepared: &Prepared,
    object: &Value,
) -> Result<Option<(ObjectId, ObjectMeta)>, AgentError> {
    let Some(id) = ObjectId::in_release(object, &session.release.namespace) else {
        return Ok(None);
    };
    let objects = Objects {
        kinds: &session.context.kinds,
        client: &prepared.deployer,
    };
    let found = objects.metadata(&id).await?;
    Ok(found.map(|found| (id, found.metadata)))
}
