//! The exceptions of a deployment: `options.diff` and `lifecycle.drift.ignore`.
//!
//! A part of an entry that cannot be used is a [`RuleProblem`]. The other parts apply.

mod glob;
mod missing;
mod operations;
mod pointers;
mod selected;

use std::fmt;

use helmops_api::{
    diff::{ComparePatch, DiffOptions},
    lifecycle::DriftIgnore,
};
use serde_json::Value;

use self::{missing::MissingRule, operations::OperationRule, pointers::PointerRule, selected::SelectedRule};
use crate::object::ObjectId;

/// The exceptions of a deployment, compiled. Build them once for each BundleDeployment.
#[derive(Clone, Debug, Default)]
pub struct DriftRules {
    entries: Vec<Entry>,
    selected: Vec<SelectedRule>,
    problems: Vec<RuleProblem>,
}

/// An entry of `comparePatches`.
#[derive(Clone, Debug)]
struct Entry {
    /// The object in messages, as the user wrote it.
    object: String,
    pointers: Option<PointerRule>,
    operations: Option<OperationRule>,
    missing: Option<MissingRule>,
}

/// A part of `options.diff` that has no effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleProblem {
    /// For example `diff.comparePatches[0].operations[1].path`.
    pub field: String,
    /// Its value, or the object that the entry is for.
    pub value: String,
    /// Why it has no effect, and what to write.
    pub reason: String,
}

impl fmt::Display for RuleProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {:?} {}", self.field, self.value, self.reason)
    }
}

impl DriftRules {
    /// The exceptions of a deployment.
    pub fn new(diff: Option<&DiffOptions>, ignored: &[DriftIgnore]) -> Self {
        let mut rules = Self::default();
        for (index, entry) in ignored.iter().enumerate() {
            let rule = SelectedRule::new(index, entry, &mut rules.problems);
            rules.selected.extend(rule);
        }
        let patches = diff.map(|diff| &*diff.compare_patches).unwrap_or_default();
        for (index, patch) in patches.iter().enumerate() {
            let mut report = Report {
                entry: format!("diff.comparePatches[{index}]"),
                problems: &mut rules.problems,
            };
            rules.entries.push(Entry {
                object: name(patch),
                pointers: PointerRule::new(patch, &mut report),
                operations: OperationRule::new(patch, &mut report),
                missing: MissingRule::new(patch, &mut report),
            });
        }
        rules
    }

    /// The parts that cannot be used.
    pub fn problems(&self) -> &[RuleProblem] {
        &self.problems
    }

    /// The entries that are for none of these objects, the desired ones of a release: often the name or the API version has a typing
    /// error.
    pub fn unmatched(&self, objects: &[&ObjectId]) -> Vec<RuleProblem> {
        let unused = |entry: &Entry| !objects.iter().any(|id| entry.is_for(id));
        self.entries
            .iter()
            .enumerate()
            .filter(|(_, entry)| unused(entry))
            .map(|(index, entry)| RuleProblem {
                field: format!("diff.comparePatches[{index}]"),
                value: entry.object.clone(),
                reason:
                    "matches no object of the release; compare apiVersion, kind, namespace and name with it"
                        .to_owned(),
            })
            .collect()
    }

    /// Whether it is no drift that an object is missing.
    pub fn ignores_missing(&self, id: &ObjectId) -> bool {
        let mut rules = self.entries.iter().filter_map(|entry| entry.missing.as_ref());
        rules.any(|rule| rule.matches(id))
    }

    /// Whether all differences of an object are ignored.
    pub fn ignores(&self, id: &ObjectId, object: &Value) -> bool {
        let mut whole = self.selected.iter().filter(|rule| rule.is_whole());
        whole.any(|rule| rule.matches(id, object))
    }

    /// Leaves fields of the live object as they are when `desired` is applied: those of `lifecycle.drift.ignore`. Fleet has no such
    /// exceptions from a correction.
    pub fn keep_ignored(&self, id: &ObjectId, desired: &mut Value, live: &Value) {
        for rule in self.selected.iter().filter(|rule| rule.matches(id, live)) {
            rule.keep(desired, live);
        }
    }

    /// Whether a correction may have fields to keep.
    pub const fn keeps_fields(&self) -> bool {
        !self.selected.is_empty()
    }

    /// Changes both objects before they are compared: JSON pointers first, then the operations.
    pub(super) fn apply(&self, id: &ObjectId, predicted: &mut Value, live: &mut Value) {
        for rule in self.entries.iter().filter_map(|entry| entry.pointers.as_ref()) {
            if rule.matches(id) {
                rule.apply(predicted);
                rule.apply(live);
            }
        }
        for rule in self.entries.iter().filter_map(|entry| entry.operations.as_ref()) {
            if rule.matches(id) {
                rule.apply(predicted);
                rule.apply(live);
            }
        }
        for rule in &self.selected {
            if rule.matches(id, live) {
                rule.apply(predicted);
                rule.apply(live);
            }
        }
    }
}

impl Entry {
    fn is_for(&self, id: &ObjectId) -> bool {
        self.pointers.as_ref().is_some_and(|rule| rule.matches(id))
            || self.operations.as_ref().is_some_and(|rule| rule.matches(id))
            || self.missing.as_ref().is_some_and(|rule| rule.matches(id))
    }
}

/// Where problems of an entry go.
struct Report<'p> {
    entry: String,
    problems: &'p mut Vec<RuleProblem>,
}

impl Report<'_> {
    fn add(&mut self, field: &str, value: &str, reason: impl Into<String>) {
        self.problems.push(RuleProblem {
            field: format!("{}.{field}", self.entry),
            value: value.to_owned(),
            reason: reason.into(),
        });
    }
}

fn name(patch: &ComparePatch) -> String {
    let ComparePatch {
        api_version,
        kind,
        namespace,
        name,
        ..
    } = patch;
    let separator = if namespace.is_empty() { "" } else { "/" };
    format!("{api_version} {kind} {namespace}{separator}{name}")
        .trim_end()
        .to_owned()
}

/// The operation that excludes missing objects, and is no JSON patch.
const IGNORE: &str = "ignore";
