//! Drift: how the live objects of a release differ from its manifest.
//!
//! Only fields that the release owns count. What that means is the API server's to decide: it knows defaults, conversions, and which
//! manager owns which field. So a live object is compared with the result of a server-side dry run that applies the manifest's object
//! to it. Most objects need no dry run, because they evidently contain what the manifest has.
//!
//! ```text
//! manifest, live objects ─► compare ─┬─► unchanged, or not needed
//!                                    ├─► missing, extra                                   ─► Change
//!                                    └─► uncertain ─► dry run by the caller ─► difference ─► Change
//!                                                      (or predicted_locally)
//! ```
//!
//! `rules` has the exceptions: `options.diff` and `lifecycle.drift` of the BundleDeployment. `mode` is what is done about drift, and `limit` how often.

mod applied;
mod autoscaled;
mod ca_bundle;
mod compare;
mod contains;
mod difference;
mod ephemeral;
mod limit;
mod lists;
mod local;
mod mode;
mod redact;
mod rules;

use helmops_api::status::ModifiedStatus;

pub use self::{
    applied::as_applied,
    autoscaled::Autoscalers,
    compare::{Comparison, Desired, ObjectState, OwnedBy, compare},
    contains::contains,
    difference::{Drift, difference},
    limit::{CorrectionLimit, MAX_CORRECTIONS},
    local::predicted_locally,
    mode::DriftMode,
    rules::{DriftRules, RuleProblem},
};
use crate::object::ObjectId;

/// An object that is not as desired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectDrift {
    /// The object.
    pub id: ObjectId,
    /// What is different.
    pub change: Change,
}

/// How an object differs from what is desired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The release has no such object.
    Missing {
        /// There is an object with this identity, but it does not belong to the release.
        exists: bool,
    },
    /// Fields were changed.
    Modified(Drift),
    /// The object should not exist any more.
    Extra,
}

impl ObjectDrift {
    /// The drift as the status has it.
    pub fn to_status(&self) -> ModifiedStatus {
        let status = ModifiedStatus {
            kind: self.id.kind.clone(),
            api_version: self.id.api_version.clone(),
            namespace: self.id.namespace.clone(),
            name: self.id.name.clone(),
            ..ModifiedStatus::default()
        };
        match &self.change {
            Change::Missing { exists } => ModifiedStatus {
                missing: true,
                exist: *exists,
                ..status
            },
            Change::Modified(drift) => ModifiedStatus {
                patch: drift.patch.clone(),
                ..status
            },
            Change::Extra => ModifiedStatus {
                delete: true,
                ..status
            },
        }
    }
}

/// Whether an object is a Secret.
fn is_secret(object: &serde_json::Value) -> bool {
    (text(object, "/apiVersion"), text(object, "/kind")) == ("v1", "Secret")
}

/// Whether an object is a ClusterRole whose rules the cluster collects from others.
fn is_aggregated(object: &serde_json::Value) -> bool {
    let selectors = object.get("aggregationRule");
    text(object, "/kind") == "ClusterRole" && selectors.is_some_and(|rule| !rule.is_null())
}

/// The values of a list; empty if it is none.
fn items(list: Option<&serde_json::Value>) -> &[serde_json::Value] {
    list.and_then(serde_json::Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default()
}

/// The text in a field; empty if it is none.
fn text<'v>(object: &'v serde_json::Value, pointer: &str) -> &'v str {
    object
        .pointer(pointer)
        .and_then(serde_json::Value::as_str)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests;
