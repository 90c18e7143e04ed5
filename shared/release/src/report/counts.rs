//! The number of objects by state.

use std::collections::BTreeSet;

use helmops_api::status::{ResourceCounts, number};

use super::observation::ReleaseObjects;
use crate::{drift::Change, object::ObjectId};

/// The number of objects of a release by state. An object has one state, except that it can be missing in one version of its API and
/// extra in another; one that is both changed and not ready counts as changed.
pub fn of(release: &ReleaseObjects) -> ResourceCounts {
    let mut ready: BTreeSet<&ObjectId> = release.objects.iter().map(|object| &object.id).collect();
    let is_missing = |change: &Change| matches!(change, Change::Missing { .. });
    let missing = release.drift.iter().filter(|drift| is_missing(&drift.change));
    let desired: BTreeSet<_> = missing
        .map(|drift| &drift.id)
        .chain(ready.iter().copied())
        .collect();
    let [mut missing, mut orphaned, mut modified, mut not_ready] = [0_usize; 4];
    for drift in &release.drift {
        match drift.change {
            Change::Missing { .. } => missing += 1,
            Change::Extra => orphaned += 1,
            Change::Modified(_) => modified += 1,
        }
        ready.remove(&drift.id);
    }
    for object in release.objects.iter().filter(|object| !object.health.is_ready()) {
        not_ready += usize::from(ready.remove(&object.id));
    }
    let count = |count| Some(number(count));
    ResourceCounts {
        ready: count(ready.len()),
        desired_ready: count(desired.len()),
        wait_applied: count(0),
        modified: count(modified),
        orphaned: count(orphaned),
        missing: count(missing),
        unknown: count(0),
        not_ready: count(not_ready),
    }
}

/// The new counts, or the previous ones if they are the same numbers. Fleet's patches omit zeros, and to add them is no reason to
/// write a status.
pub fn keep_equal(previous: Option<&ResourceCounts>, new: ResourceCounts) -> ResourceCounts {
    match previous {
        Some(previous) if numbers(previous) == numbers(&new) => previous.clone(),
        _ => new,
    }
}

fn numbers(counts: &ResourceCounts) -> [i64; 8] {
    [
        counts.ready,
        counts.desired_ready,
        counts.wait_applied,
        counts.modified,
        counts.orphaned,
        counts.missing,
        counts.unknown,
        counts.not_ready,
    ]
    .map(Option::unwrap_or_default)
}
