//! Deletes what a revision has and a later one has not.

use std::{collections::BTreeMap, time::Instant};

use helmops_process::exit::with_causes;
use helmops_release::{
    manifest,
    names::{ReleaseKey, SetId},
    object::ObjectId,
    owner::OtherOwner,
};
use kube::Client;

use crate::{
    context::Context,
    error::AgentError,
    live::Objects,
    monitor::{MonitorError, record_of, recorded_ids},
};

/// What a revision has.
pub struct Kept {
    /// Its release.
    pub release: ReleaseKey,
    ids: Vec<ObjectId>,
}

impl Kept {
    /// The objects and the hooks of a revision: what was an object before may be a hook now.
    ///
    /// # Errors
    /// If its record cannot be read.
    pub async fn of(context: &Context, release: &ReleaseKey, revision: u64) -> Result<Self, AgentError> {
        let record = record_of(&context.records, release, revision).await;
        let record = record.map_err(MonitorError::from)?;
        let recorded = recorded_ids(&record, &release.namespace).map_err(MonitorError::from)?;
        // What cannot be read is no object.
        let hooks = record.hooks.iter();
        let hooks = hooks.flat_map(|hook| manifest::objects(&hook.manifest).unwrap_or_default());
        let hooks = hooks.filter_map(|hook| ObjectId::in_release(&hook, &release.namespace));
        let (mut ids, now) = (Vec::new(), Instant::now());
        for id in recorded.into_iter().chain(hooks) {
            ids.extend(context.kinds.served(&id, now).await?.identity(&id));
        }
        let release = release.clone();
        Ok(Self { release, ids })
    }

    fn has(&self, id: &ObjectId) -> bool {
        self.ids.iter().any(|kept| kept.is_same(id))
    }
}

/// Deletes the objects of a revision that another one does not have, as far as they belong to one of the two releases. `deployer` is a
/// client of the account that has deployed them. What cannot be deleted does not keep the others.
///
/// # Errors
/// If the record cannot be read, or an object cannot be deleted.
pub async fn prune(
    context: &Context,
    deployer: &Client,
    set: &SetId,
    (release, revision): (&ReleaseKey, u64),
    kept: &Kept,
) -> Result<(), AgentError> {
    let now = Instant::now();
    let objects = Objects {
        kinds: &context.kinds,
        client: deployer,
    };
    let record = context.records.read(release, revision).await?;
    let recorded = record.map(|record| recorded_ids(&record, &release.namespace));
    let recorded = recorded.transpose().map_err(MonitorError::from)?;
    let (mut failed, mut left) = (None, Vec::new());
    for id in recorded.iter().flatten().rev() {
        let deleted = async {
            let known = context.kinds.served(id, now).await?;
            if known.identity(id).is_some_and(|id| kept.has(&id)) {
                return Ok(None);
            }
            let (served, _) = objects.resolve(id, now).await?;
            let Some(id) = served.identity(id).filter(|id| !kept.has(id)) else {
                return Ok(None);
            };
            let mut owner = None;
            let is_own = |annotations: &BTreeMap<String, String>| {
                owner = OtherOwner::of(annotations, &[release, &kept.release], set);
                owner.is_none()
            };
            objects.delete(&id, is_own).await?;
            Ok(owner.map(|owner| format!("{id} {owner}")))
        };
        match deleted.await {
            Ok(other) => left.extend(other),
            Err(error) => {
                let error: AgentError = error;
                tracing::warn!(%release, error = with_causes(&error), "an object is not deleted now");
                failed.get_or_insert(error);
            }
        }
    }
    if !left.is_empty() {
        context
            .reports
            .kept(release, &format!("not deleted: {}", left.join("; ")));
    }
    failed.map_or(Ok(()), Err)
}
