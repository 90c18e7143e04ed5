//! Objects of a release that another release owns now, since it has taken them over: an uninstallation must not delete them.
//!
//! Helm deletes what the manifest of the record has, although another release may own it now. So the objects of others get the annotation in the record
//! with which Helm keeps an object.

use std::collections::BTreeSet;

use futures::{StreamExt, TryStreamExt, stream};
use helmops_release::{manifest, names::ReleaseKey, object::ObjectId};

use crate::{context::Context, error::AgentError, live::Objects};

/// How many objects are read at the same time.
const CONCURRENCY: usize = 8;

/// Records that the objects of a revision that another release owns now are kept.
///
/// # Errors
/// If an object or the record cannot be read, or the record cannot be written.
pub(super) async fn keep_objects_of_others(
    context: &Context,
    release: &ReleaseKey,
    revision: u64,
) -> Result<(), AgentError> {
    let Some(record) = context.records.read(release, revision).await? else {
        return Ok(());
    };
    // Helm refuses what cannot be read, and says so.
    let Ok(objects) = manifest::objects(&record.manifest) else {
        return Ok(());
    };
    let ids: Vec<_> = objects
        .iter()
        .filter_map(|object| ObjectId::in_release(object, &release.namespace))
        .collect();
    let owners: Vec<_> = stream::iter(ids)
        .map(|id| async {
            let owner = owner(context, &id).await?;
            Ok::<_, AgentError>(owner.filter(|owner| owner != release).map(|owner| (id, owner)))
        })
        .buffered(CONCURRENCY)
        .try_collect()
        .await?;
    let mut others = BTreeSet::new();
    for (id, owner) in owners.into_iter().flatten() {
        tracing::warn!(%release, object = %id, %owner, "the object is not deleted: another release owns it now");
        others.insert(id);
    }
    if !others.is_empty() {
        context.records.keep_objects(release, revision, &others).await?;
    }
    Ok(())
}

/// The release that owns a live object, as Helm records it; `None` if there is no such object, or it has no owner.
async fn owner(context: &Context, id: &ObjectId) -> Result<Option<ReleaseKey>, AgentError> {
    let objects = Objects {
        kinds: &context.kinds,
        client: &context.downstream,
    };
    let found = objects.metadata(id).await?;
    Ok(found.and_then(|found| ReleaseKey::that_has_made(&found.metadata.annotations.unwrap_or_default())))
}
