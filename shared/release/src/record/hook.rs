//! A hook in a record.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{manifest, object::ObjectId};

/// The event of hooks that are tests.
pub const TEST_EVENT: &str = "test";
/// What Helm deletes before it runs a hook again.
const BEFORE_CREATION: &str = "before-hook-creation";
/// Helm never deletes CRDs.
const CRD: &str = "CustomResourceDefinition";

/// A hook of a release.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Hook {
    /// The name of its object.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The kind of its object.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// The template that it is from.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// Its object, as YAML.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub manifest: String,
    /// When it runs, such as `pre-install`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<String>,
    /// Its last run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_run: Option<HookRun>,
    /// Hooks of an event run in the order of their weights.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub weight: i64,
    /// When its object is deleted: `before-hook-creation` (the default), `hook-succeeded`, `hook-failed`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub delete_policies: Vec<String>,
    /// Fields that the agent does not use.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// The last run of a hook.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HookRun {
    /// When its object was created: RFC 3339; empty if it has not run.
    #[serde(default, skip_serializing_if = "String::is_empty", deserialize_with = "text")]
    pub started_at: String,
    /// When it ended: RFC 3339.
    #[serde(default, skip_serializing_if = "String::is_empty", deserialize_with = "text")]
    pub completed_at: String,
    /// How it ended.
    #[serde(default)]
    pub phase: HookPhase,
    /// Fields that the agent does not use.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// The phase of a run of a hook.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "&'static str")]
pub enum HookPhase {
    /// It has not run.
    #[default]
    None,
    /// Helm does not know it. A phase that this agent does not know is one of these, too.
    Unknown,
    /// It runs, or Helm was interrupted.
    Running,
    /// It succeeded.
    Succeeded,
    /// It failed, or did not end in time.
    Failed,
}

impl From<String> for HookPhase {
    fn from(text: String) -> Self {
        match &*text {
            "" => Self::None,
            "Running" => Self::Running,
            "Succeeded" => Self::Succeeded,
            "Failed" => Self::Failed,
            _ => Self::Unknown,
        }
    }
}

impl From<HookPhase> for &'static str {
    fn from(phase: HookPhase) -> Self {
        match phase {
            HookPhase::None => "",
            HookPhase::Unknown => "Unknown",
            HookPhase::Running => "Running",
            HookPhase::Succeeded => "Succeeded",
            HookPhase::Failed => "Failed",
        }
    }
}

impl Hook {
    /// Whether it is a test.
    pub fn is_test(&self) -> bool {
        self.events.iter().any(|event| event == TEST_EVENT)
    }

    /// Whether Helm itself deletes the object of a previous run before it creates the next one. Without that, Helm 4 would take the
    /// end of the previous run for the end of this one.
    pub fn is_deleted_before_creation(&self) -> bool {
        let policies = &self.delete_policies;
        self.kind == CRD || policies.is_empty() || policies.iter().any(|policy| policy == BEFORE_CREATION)
    }

    /// Its object; in the namespace of the release if it names none. `None` if its manifest cannot be read.
    pub fn object(&self, release_namespace: &str) -> Option<ObjectId> {
        let objects = manifest::objects(&self.manifest).ok()?;
        let mut id = ObjectId::of(objects.first()?)?;
        if id.namespace.is_empty() {
            release_namespace.clone_into(&mut id.namespace);
        }
        Some(id)
    }

    /// Whether another hook is of the same object.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        (&self.path, &self.kind, &self.name) == (&other.path, &other.kind, &other.name)
            && self.events == other.events
            && self.manifest == other.manifest
    }
}

/// A text, or null.
fn text<'d, D: serde::Deserializer<'d>>(from: D) -> Result<String, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_zero(number: &i64) -> bool {
    *number == 0
}
