//! How the API server changes what it stores, because its CRDs are not those of this version: it drops fields that the CRD of the object
//! lacks (unknown fields that are passed on to it, and `lifecycle`, which Fleet's CRDs lack), and adds defaults.

use std::{collections::BTreeSet, fmt};

use serde::Serialize;

use super::{
    added_fields::AddedFields,
    bundle::BundleSpec,
    bundle_deployment::BundleDeploymentSpec,
    lifecycle::Lifecycle,
    unknown_fields::{FieldPath, UnknownFields, VisitUnknown},
};

/// Maximum number of paths. The CRDs limit it already; this bounds it in any case.
const MAX_PATHS: usize = 1_000;

/// The path of the life cycle, and that of the one of targets.
const LIFECYCLE: &str = "spec.lifecycle";
const OF_TARGETS: &str = "spec.targets.lifecycle";

/// A spec with fields that a CRD may lack.
pub trait Prunable: VisitUnknown + Clone + PartialEq + Serialize {
    /// Each life cycle of the spec, with its path.
    fn lifecycles(&mut self) -> Vec<(&'static str, &mut Option<Box<Lifecycle>>)>;
}

impl Prunable for BundleSpec {
    fn lifecycles(&mut self) -> Vec<(&'static str, &mut Option<Box<Lifecycle>>)> {
        let targets = self.targets.iter_mut();
        let targets = targets.map(|target| (OF_TARGETS, &mut target.options.lifecycle));
        std::iter::once((LIFECYCLE, &mut self.options.lifecycle))
            .chain(targets)
            .collect()
    }
}

impl Prunable for BundleDeploymentSpec {
    fn lifecycles(&mut self) -> Vec<(&'static str, &mut Option<Box<Lifecycle>>)> {
        vec![(LIFECYCLE, &mut self.lifecycle)]
    }
}

/// The paths of the fields of one kind that were sent to the API server and are missing in its response, and the fields that it has added.
///
/// Without them, an object with such a field would always differ from the desired one, and be written in each reconciliation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PrunedFields {
    pruned: BTreeSet<String>,
    added: AddedFields,
}

static NONE: PrunedFields = PrunedFields {
    pruned: BTreeSet::new(),
    added: AddedFields::NONE,
};

/// What a write has shown for the first time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Learned {
    /// Which fields are dropped.
    pub pruned: bool,
    /// Which fields are added.
    pub added: bool,
}

impl Default for &PrunedFields {
    fn default() -> Self {
        &NONE
    }
}

impl PrunedFields {
    /// Learns from a write. A field that is stored is not pruned any more: the CRD may have been replaced.
    pub fn learn<S: Prunable>(&mut self, sent: &S, stored: &S) -> Learned {
        let (of_sent, of_stored) = (paths(sent), paths(stored));
        let before = self.pruned.clone();
        self.pruned.retain(|path| !of_stored.contains(path));
        let pruned = of_sent.difference(&of_stored).cloned();
        let room = MAX_PATHS.saturating_sub(self.pruned.len());
        self.pruned.extend(pruned.take(room));
        Learned {
            pruned: self.pruned != before,
            added: sent != stored && self.added.learn(&self.without(sent), stored),
        }
    }

    /// Whether `stored` is what the API server would store for `desired`.
    pub fn are_equal<S: Prunable>(&self, desired: &S, stored: &S) -> bool {
        if desired == stored {
            return true;
        }
        if *self == Self::default() {
            return false;
        }
        let desired = self.without(desired);
        desired == *stored || self.added.are_equal(&desired, stored)
    }

    /// The paths of the fields that are added.
    pub fn added(&self) -> impl Iterator<Item = &str> {
        self.added.paths()
    }

    /// The value without the fields that are dropped.
    pub fn without<S: Prunable>(&self, value: &S) -> S {
        let mut value = value.clone();
        let mut remove = |path: FieldPath<'_>, fields: &mut UnknownFields| {
            fields.retain(|name| !self.pruned.contains(&path.field(name).to_string()));
        };
        value.visit_unknown(FieldPath::of("spec"), &mut remove);
        for (path, lifecycle) in value.lifecycles() {
            if self.pruned.contains(path) {
                *lifecycle = None;
            }
        }
        value
    }

    /// Whether `lifecycle` is one of them.
    pub fn has_lifecycle(&self) -> bool {
        self.pruned.contains(LIFECYCLE) || self.pruned.contains(OF_TARGETS)
    }
}

impl fmt::Display for PrunedFields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, path) in self.pruned.iter().enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            write!(f, "{separator}{path}")?;
        }
        Ok(())
    }
}

/// Whether a life cycle was sent and is not stored.
pub fn drops_lifecycle<S: Prunable>(sent: &S, stored: &S) -> bool {
    let count = |spec: &S| {
        spec.clone()
            .lifecycles()
            .iter()
            .filter(|(_, lifecycle)| lifecycle.is_some())
            .count()
    };
    count(sent) > count(stored)
}

/// The paths of all unknown fields of a spec, and of its life cycles.
fn paths<S: Prunable>(spec: &S) -> BTreeSet<String> {
    let mut paths = BTreeSet::new();
    let mut collect = |path: FieldPath<'_>, fields: &mut UnknownFields| {
        paths.extend(fields.names().map(|name| path.field(name).to_string()));
    };
    let mut spec = spec.clone();
    spec.visit_unknown(FieldPath::of("spec"), &mut collect);
    let lifecycles = spec
        .lifecycles()
        .into_iter()
        .filter(|(_, lifecycle)| lifecycle.is_some());
    paths.extend(lifecycles.map(|(path, _)| path.to_owned()));
    paths
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::BundleSpec;

    fn spec(value: &Value) -> BundleSpec {
        serde_json::from_str(&value.to_string()).unwrap()
    }

    #[test]
    fn a_field_that_the_api_server_drops_is_no_difference_once_it_was_sent() {
        let desired = spec(&json!({ "newer": 1, "targets": [{ "helm": { "kept": 1, "newer": 1 } }] }));
        let stored = spec(&json!({ "targets": [{ "helm": { "kept": 1 } }] }));
        let mut pruned = PrunedFields::default();
        assert!(!pruned.are_equal(&desired, &stored));
        assert!(pruned.learn(&desired, &stored).pruned);
        assert_eq!(
            pruned.learn(&desired, &stored),
            Learned::default(),
            "known already"
        );
        assert!(pruned.are_equal(&desired, &stored));
        let without_kept = spec(&json!({ "targets": [{ "helm": {} }] }));
        assert!(!pruned.are_equal(&desired, &without_kept));
        let of_helm = spec(&json!({ "helm": { "newer": 1 }, "targets": [{ "helm": { "kept": 1 } }] }));
        assert!(
            !pruned.are_equal(&of_helm, &stored),
            "the same name in another struct"
        );
    }

    #[test]
    fn a_field_that_is_stored_later_is_a_difference_again() {
        let (desired, without) = (spec(&json!({ "newer": 1 })), spec(&json!({})));
        let mut pruned = PrunedFields::default();
        pruned.learn(&desired, &without);
        assert!(pruned.learn(&desired, &desired).pruned);
        assert!(!pruned.are_equal(&desired, &without));
    }

    #[test]
    fn a_life_cycle_that_is_dropped_is_no_difference_until_it_is_stored() {
        let desired = spec(&json!({ "lifecycle": { "suspend": true }, "targets": [{ "lifecycle": {} }] }));
        let without = spec(&json!({ "targets": [{}] }));
        let mut pruned = PrunedFields::default();
        assert!(!pruned.are_equal(&desired, &without));
        assert!(drops_lifecycle(&desired, &without) && !drops_lifecycle(&desired, &desired));
        assert!(pruned.learn(&desired, &without).pruned);
        assert!(pruned.has_lifecycle());
        assert!(pruned.are_equal(&desired, &without));
        assert!(!pruned.are_equal(&desired, &spec(&json!({ "targets": [{ "name": "a" }] }))));

        assert!(pruned.learn(&desired, &desired).pruned, "the CRD was replaced");
        assert!(!pruned.has_lifecycle());
        assert!(!pruned.are_equal(&desired, &without));
    }

    #[test]
    fn the_life_cycle_of_a_deployment_may_be_dropped_too() {
        let of = |value: Value| serde_json::from_str::<BundleDeploymentSpec>(&value.to_string()).unwrap();
        let (desired, without) = (of(json!({ "lifecycle": { "suspend": true } })), of(json!({})));
        let mut pruned = PrunedFields::default();
        assert!(pruned.learn(&desired, &without).pruned);
        assert!(pruned.are_equal(&desired, &without));
        assert!(!pruned.are_equal(&desired, &of(json!({ "deploymentID": "a" }))));
    }

    /// Both a field that the CRD lacks, and defaults of a newer one: of unknown fields and of known ones.
    #[test]
    fn a_default_is_no_difference_and_neither_is_a_dropped_field() {
        let desired =
            spec(&json!({ "dropped": 1, "helm": { "chart": "web" }, "targets": [{ "name": "a" }] }));
        let stored = spec(&json!({
            "helm": { "chart": "web", "newer": 5, "maxHistory": 10 }, "targets": [{ "name": "a", "ofTarget": { "level": 1 } }],
        }));
        let mut pruned = PrunedFields::default();
        let learned = pruned.learn(&desired, &stored);
        assert!(learned.pruned && learned.added);
        assert!(pruned.are_equal(&desired, &stored));
        assert_eq!(pruned.learn(&desired, &stored), Learned::default());
        let other = spec(
            &json!({ "helm": { "chart": "web", "newer": 6, "maxHistory": 10 }, "targets": [{ "name": "a" }] }),
        );
        assert!(!pruned.are_equal(&desired, &other));
    }

    #[test]
    fn the_number_of_paths_is_limited() {
        let fields: serde_json::Map<_, _> = (0..2 * MAX_PATHS)
            .map(|number| (format!("f{number}"), json!(1)))
            .collect();
        let mut pruned = PrunedFields::default();
        pruned.learn(&spec(&Value::Object(fields)), &spec(&json!({})));
        assert_eq!(pruned.pruned.len(), MAX_PATHS);
    }
}
