//! Desired objects against live ones, without any request.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{DriftRules, contains};
use crate::{
    marks::{PRUNE, SET_ID, is_kept},
    object::ObjectId,
};

/// A desired object: one of the manifest of the recorded revision.
#[derive(Clone, Copy, Debug)]
pub struct Desired<'a> {
    /// Its identity on the cluster: with the namespace of the release, if the manifest has none and the kind is namespaced.
    pub id: &'a ObjectId,
    /// The object of the manifest as Helm applies it, [`as_applied`](super::as_applied).
    pub object: &'a Value,
}

/// Whose live objects these are.
#[derive(Clone, Copy, Debug)]
pub struct OwnedBy<'a> {
    /// The ID of the set of objects of the BundleDeployment.
    pub set_id: &'a str,
    /// The objects of the manifest of the revision before the recorded one.
    pub previous: &'a [ObjectId],
}

/// The state of a desired object.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ObjectState<'a> {
    /// It is as desired.
    Unchanged {
        /// The live object.
        live: &'a Value,
    },
    /// It may be changed. A dry run of `desired` shows it.
    Uncertain {
        /// The desired object, which is the body of the dry run.
        desired: &'a Value,
        /// The live object.
        live: &'a Value,
    },
    /// The release has no such object. A GET shows whether there is one that belongs to another owner.
    Missing,
    /// It does not exist, and need not: a rule ignores it, or it is a Job that the cluster deletes after its end.
    NotNeeded,
}

impl<'a> ObjectState<'a> {
    /// The live object, if the release has it.
    pub fn live(self) -> Option<&'a Value> {
        match self {
            Self::Unchanged { live } | Self::Uncertain { live, .. } => Some(live),
            Self::Missing | Self::NotNeeded => None,
        }
    }
}

/// All objects of a release, compared.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Comparison<'a> {
    /// Every desired object with its state, in the order of the manifest.
    pub objects: Vec<(&'a ObjectId, ObjectState<'a>)>,
    /// Live objects that were in the previous revision, and are not desired any more.
    pub extra: Vec<ObjectId>,
}

/// Compares the objects of a manifest with the live objects that have the label of the BundleDeployment, in any order.
///
/// An object without the label belongs to another owner, so it counts as missing.
pub fn compare<'a>(
    desired: &[Desired<'a>],
    live: &[&'a Value],
    owned_by: OwnedBy<'_>,
    rules: &DriftRules,
) -> Comparison<'a> {
    let live: BTreeMap<ObjectId, &Value> = live
        .iter()
        .filter_map(|object| Some((ObjectId::of(object)?, *object)))
        .collect();
    let objects = desired
        .iter()
        .map(|one| (one.id, state(*one, live.get(one.id).copied(), rules)))
        .collect();
    Comparison {
        objects,
        extra: extra(desired, &live, owned_by),
    }
}

fn state<'a>(desired: Desired<'a>, live: Option<&'a Value>, rules: &DriftRules) -> ObjectState<'a> {
    let Desired { id, object } = desired;
    match live {
        Some(live) if contains(object, live) => ObjectState::Unchanged { live },
        Some(live) => ObjectState::Uncertain {
            desired: object,
            live,
        },
        None if rules.ignores_missing(id) || is_deleted_after_its_end(id, object) => ObjectState::NotNeeded,
        None => ObjectState::Missing,
    }
}

/// Whether the cluster deletes the object after it has ended. To create it again would run it again.
fn is_deleted_after_its_end(id: &ObjectId, desired: &Value) -> bool {
    let deadline = desired.pointer("/spec/ttlSecondsAfterFinished");
    id.group() == "batch" && id.kind == "Job" && deadline.is_some_and(|seconds| !seconds.is_null())
}

fn extra(desired: &[Desired<'_>], live: &BTreeMap<ObjectId, &Value>, owned_by: OwnedBy<'_>) -> Vec<ObjectId> {
    // The same object has an identity for each version of its API.
    let without_version = |id: &ObjectId| {
        let group = id.group().to_owned();
        (group, id.kind.clone(), id.namespace.clone(), id.name.clone())
    };
    let desired: BTreeSet<_> = desired.iter().map(|one| without_version(one.id)).collect();
    // The namespace may have been moved since, so it is not compared.
    let previous: BTreeSet<_> = owned_by
        .previous
        .iter()
        .map(|id| (&*id.kind, &*id.name))
        .collect();
    live.iter()
        .filter(|(id, _)| !desired.contains(&without_version(id)))
        .filter(|(id, _)| previous.contains(&(&*id.kind, &*id.name)))
        .filter(|(_, object)| is_deletable(object, owned_by.set_id))
        .map(|(id, _)| id.clone())
        .collect()
}

fn is_deletable(object: &Value, set_id: &str) -> bool {
    let mark = |part: &str, key: &str| {
        let marks = object.get("metadata").and_then(|metadata| metadata.get(part));
        marks.and_then(|marks| marks.get(key)).and_then(Value::as_str)
    };
    // The live objects are selected by the label of the set, but operators copy labels to objects of their own.
    mark("annotations", SET_ID) == Some(set_id) && mark("labels", PRUNE) != Some("false") && !is_kept(object)
}
