//! What happens with a release when its BundleDeployment is gone. It has to be known then, so it is a label of its records.

use helmops_release::{history::History, record::OnDelete};

use crate::{error::AgentError, owned::OwnedRelease, session::ReleaseSession};

/// Remembers the release with what decides about its end: only what is remembered is uninstalled when the BundleDeployment is gone.
///
/// # Errors
/// If it cannot be remembered.
pub async fn remember(session: &ReleaseSession<'_>) -> Result<(), AgentError> {
    let (name, release, all) = (session.name(), &session.release, &session.context.owned);
    let owned = (name.to_owned(), OwnedRelease::of(session.deployment));
    all.remember([owned]).await?;
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

/// Sets the label on the newest record, if it differs: also if what is wanted was not deployed yet.
///
/// # Errors
/// If a record cannot be read or written.
pub async fn update_label(session: &ReleaseSession<'_>) -> Result<(), AgentError> {
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
