//! What an observation changes in the status.

use std::collections::{BTreeMap, BTreeSet};

use helmops_api::{
    bundle_deployment::{BundleDeploymentResource, BundleDeploymentSpec, BundleDeploymentStatus},
    status::{ModifiedStatus, NonReadyStatus},
};

use super::{
    conditions::{ConditionType, Conditions},
    counts,
    observation::{Observation, ObservedObject, ReleaseObjects},
    set_false,
};
use crate::{drift::ObjectDrift, object::ObjectId};

/// How many objects that are not ready, and how many that were changed, a status lists: as in Fleet.
pub const MAX_LISTED: usize = 10;

/// How many objects of the release a status lists. An object takes about 200 bytes, and etcd stores 1.5 MB; Fleet lists all, so that a
/// large chart has no status. Those that are not ready or changed are listed first.
pub const MAX_RESOURCES: usize = 1_000;

/// Applies an observation to the status.
pub fn apply(
    status: &mut BundleDeploymentStatus,
    spec: &BundleDeploymentSpec,
    observation: &Observation,
    now: &str,
) {
    match observation {
        Observation::None => {}
        Observation::Failed { error, is_lasting } => {
            let mut conditions = Conditions::new(&mut status.conditions, now);
            if *is_lasting {
                status.ready = false;
                let unknown = format!("the state of the objects is not known: {error}");
                set_false(&mut conditions, ConditionType::Ready, unknown);
            }
            set_false(&mut conditions, ConditionType::Monitored, error.clone());
        }
        Observation::Objects(release) => {
            lists(status, release);
            status.sync_generation = Some(spec.options.force_sync_generation);
            let error = release.correction_error.clone().or_else(|| ready_error(status));
            let mut conditions = Conditions::new(&mut status.conditions, now);
            match error {
                Some(error) => set_false(&mut conditions, ConditionType::Ready, error),
                None => conditions.set_true(ConditionType::Ready),
            }
            conditions.set_true(ConditionType::Monitored);
        }
    }
}

/// The text of the first object that is not ready, or else of the first one that was changed.
fn ready_error(status: &BundleDeploymentStatus) -> Option<String> {
    if !status.ready {
        let first = status.non_ready_status.first();
        Some(first.map_or_else(|| "not ready".to_owned(), ToString::to_string))
    } else if !status.non_modified {
        let first = status.modified_status.first();
        Some(first.map_or_else(|| "out of sync".to_owned(), ToString::to_string))
    } else {
        None
    }
}

fn lists(status: &mut BundleDeploymentStatus, release: &ReleaseObjects) {
    let counts = counts::of(release);
    let mut non_ready: Vec<_> = unready(&release.objects).map(non_ready_status).collect();
    non_ready.sort_by(|a, b| (&a.uid, &a.name).cmp(&(&b.uid, &b.name)));
    let mut modified: Vec<_> = release.drift.iter().map(ObjectDrift::to_status).collect();
    modified.sort_by_cached_key(|object| {
        let ModifiedStatus {
            api_version,
            kind,
            namespace,
            name,
            ..
        } = object;
        format!("{api_version}/{kind}/{namespace}/{name}")
    });
    status.ready = non_ready.is_empty();
    status.non_modified = modified.is_empty();
    status.resource_counts = Some(counts::keep_equal(status.resource_counts.as_ref(), counts));
    status.incomplete_state =
        non_ready.len() > MAX_LISTED || modified.len() > MAX_LISTED || release.objects.len() > MAX_RESOURCES;
    non_ready.truncate(MAX_LISTED);
    modified.truncate(MAX_LISTED);
    status.non_ready_status = non_ready;
    status.modified_status = modified;
    status.resources = resources(release);
}

fn unready(objects: &[ObservedObject]) -> impl Iterator<Item = &ObservedObject> {
    objects.iter().filter(|object| !object.health.is_ready())
}

fn non_ready_status(object: &ObservedObject) -> NonReadyStatus {
    NonReadyStatus {
        uid: object.uid.clone(),
        kind: object.id.kind.clone(),
        api_version: object.id.api_version.clone(),
        namespace: object.id.namespace.clone(),
        name: object.id.name.clone(),
        summary: Some(object.health.to_summary()),
    }
}

/// The objects in Fleet's order: kinds in the order of the manifest, and the objects of each by namespace and name.
fn resources(release: &ReleaseObjects) -> Vec<BundleDeploymentResource> {
    let mut ranks = BTreeMap::new();
    for object in &release.objects {
        let next = ranks.len();
        ranks
            .entry((&*object.id.api_version, &*object.id.kind))
            .or_insert(next);
    }
    let rank = |id: &ObjectId| ranks.get(&(&*id.api_version, &*id.kind)).copied();
    let mut objects: Vec<_> = release.objects.iter().collect();
    objects.sort_by_cached_key(|object| {
        let ObjectId { namespace, name, .. } = &object.id;
        let key = if namespace.is_empty() {
            name.clone()
        } else {
            format!("{namespace}/{name}")
        };
        (rank(&object.id), key)
    });
    if objects.len() > MAX_RESOURCES {
        objects = most_relevant(objects, release);
    }
    objects.into_iter().map(resource).collect()
}

/// The first objects, but those that are not ready or were changed before all others; in the same order.
fn most_relevant<'o>(objects: Vec<&'o ObservedObject>, release: &ReleaseObjects) -> Vec<&'o ObservedObject> {
    let changed: BTreeSet<_> = release.drift.iter().map(|drift| &drift.id).collect();
    let is_relevant = |object: &ObservedObject| !object.health.is_ready() || changed.contains(&object.id);
    let relevant = objects.iter().filter(|object| is_relevant(object)).count();
    let mut room = (
        relevant.min(MAX_RESOURCES),
        MAX_RESOURCES.saturating_sub(relevant),
    );
    let mut takes = |object: &ObservedObject| {
        let room = if is_relevant(object) {
            &mut room.0
        } else {
            &mut room.1
        };
        let has_room = *room > 0;
        *room = room.saturating_sub(1);
        has_room
    };
    objects.into_iter().filter(|object| takes(object)).collect()
}

fn resource(object: &ObservedObject) -> BundleDeploymentResource {
    BundleDeploymentResource {
        kind: object.id.kind.clone(),
        api_version: object.id.api_version.clone(),
        namespace: object.id.namespace.clone(),
        name: object.id.name.clone(),
        created_at: object.created_at.clone(),
    }
}
