//! Objects that failed attempts have created, and that the revision which is deployed after them does not have.
//!
//! Helm compares a revision with the one that was deployed last, and an installation with none. So what only a failed attempt has created is
//! in no manifest that it looks at, and would stay without an owner.

use std::collections::BTreeMap;

use helmops_release::{
    history::{History, Revision},
    manifest, marks,
    names::ReleaseKey,
    object::ObjectId,
};

use super::{
    deployed::Deployed,
    deployment::{Deployment, name},
    wait::Watched,
};
use crate::{
    context::Context,
    error::AgentError,
    live::Objects,
    monitor::{Installed, MonitorError},
};

impl Deployment<'_> {
    /// Once for each deployed revision: deletes the objects that only unfinished attempts before it had, and the records that it replaces.
    ///
    /// # Errors
    /// If a record cannot be read or deleted, or an object cannot be deleted. A repetition continues.
    pub(super) async fn clear_leftovers(
        &self,
        deployed: &Deployed,
        watched: &mut Watched,
    ) -> Result<(), AgentError> {
        if !watched.is_cleared {
            let history = self.context.records.cached_history(&self.release).await?;
            self.clear(&history, deployed.id.number, |_| true).await?;
            self.keep(&history, self.policy.history).await?;
            watched.is_cleared = true;
        }
        Ok(())
    }

    /// Deletes the records of earlier installations that failed with the same input as the last one, and what only they have created: one
    /// record counts the attempts.
    ///
    /// # Errors
    /// As [`Self::clear_leftovers`].
    pub(super) async fn clear_repeated(&self) -> Result<(), AgentError> {
        let history = self.context.records.current_history(&self.release).await?;
        let newest = history.newest_of(name(self.wanted));
        let Some(newest) = newest.filter(|newest| newest.has_failed() && newest.is_replaceable()) else {
            return Ok(());
        };
        let id = newest.origin.deployment_id();
        let is_repeated =
            |earlier: &Revision| earlier.is_replaceable() && earlier.origin.deployment_id() == id;
        self.clear(&history, newest.number, is_repeated).await
    }

    async fn clear(
        &self,
        history: &History,
        number: u64,
        is_cleared: impl Fn(&Revision) -> bool,
    ) -> Result<(), AgentError> {
        let (context, release) = (self.context, &self.release);
        let unfinished: Vec<_> = history
            .unfinished_before(number)
            .filter(|attempt| is_cleared(attempt))
            .collect();
        let Some(present) = history.get(number).filter(|_| !unfinished.is_empty()) else {
            return Ok(());
        };
        let kept = objects_of(context, release, present).await?;
        let hooks = self.hooks_of(number).await?;
        for attempt in unfinished {
            let mut left = objects_of(context, release, attempt).await?;
            left.desired
                .retain(|object| !hooks.iter().any(|hook| hook.is_same(&object.id)));
            prune(context, name(self.wanted), &left, &kept).await?;
            if attempt.is_replaceable() {
                context
                    .records
                    .delete(release, attempt.number, attempt.status)
                    .await?;
            }
        }
        Ok(())
    }

    /// The hooks of a revision: an object may have become one.
    async fn hooks_of(&self, number: u64) -> Result<Vec<ObjectId>, AgentError> {
        let record = self.context.records.read(&self.release, number).await?;
        let hooks = record.into_iter().flat_map(|record| record.hooks);
        // What cannot be read is no object.
        let objects = hooks.flat_map(|hook| manifest::objects(&hook.manifest).unwrap_or_default());
        Ok(objects
            .filter_map(|object| ObjectId::in_release(&object, &self.release.namespace))
            .collect())
    }
}

/// The objects of a revision.
pub(super) async fn objects_of(
    context: &Context,
    release: &ReleaseKey,
    revision: &Revision,
) -> Result<Installed, AgentError> {
    let read = Installed::read(&context.records, &context.kinds, release, revision.number, None);
    Ok(read.await.map_err(MonitorError::from)?)
}

/// Deletes the objects of a revision that are not among others, as far as they belong to the BundleDeployment.
pub(super) async fn prune(
    context: &Context,
    deployment: &str,
    old: &Installed,
    kept: &Installed,
) -> Result<(), AgentError> {
    let set = context.set_of(deployment);
    let is_kept = |id: &ObjectId| kept.desired.iter().any(|kept| kept.id.is_same(id));
    let is_own = |annotations: &BTreeMap<String, String>| {
        annotations.get(marks::SET_ID).map(String::as_str) == Some(set.as_str())
    };
    let objects = Objects {
        kinds: &context.kinds,
        client: &context.downstream,
    };
    for object in old.desired.iter().rev().filter(|object| !is_kept(&object.id)) {
        objects.delete(&object.id, is_own).await?;
    }
    Ok(())
}
