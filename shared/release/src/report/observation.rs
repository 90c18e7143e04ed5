//! What the monitor observed.

use serde_json::Value;

use crate::{drift::ObjectDrift, health::Health, object::ObjectId};

/// What the monitor observed.
#[derive(Clone, Debug, PartialEq)]
pub enum Observation {
    /// Nothing: there was no time, or no reason. The status keeps what it has.
    None,
    /// The objects cannot be read.
    Failed {
        /// The error.
        error: String,
        /// Whether it is more than an interruption: then what was known counts no longer.
        is_lasting: bool,
    },
    /// The objects of the release.
    Objects(ReleaseObjects),
}

/// The objects of a release with their state.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReleaseObjects {
    /// The live ones among the desired objects, in the order of the manifest.
    pub objects: Vec<ObservedObject>,
    /// Those that differ from the manifest.
    pub drift: Vec<ObjectDrift>,
    /// Why the drift could not be corrected, if that was attempted.
    pub correction_error: Option<String>,
}

/// A live object of a release.
#[derive(Clone, Debug, PartialEq)]
pub struct ObservedObject {
    /// Its identity.
    pub id: ObjectId,
    /// Its UID.
    pub uid: String,
    /// When it was created, in RFC 3339.
    pub created_at: String,
    /// Its health.
    pub health: Health,
}

impl ObservedObject {
    /// A live object and its health.
    pub fn new(id: ObjectId, live: &Value, health: Health) -> Self {
        let text = |pointer| live.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        Self {
            id,
            uid: text("/metadata/uid").to_owned(),
            created_at: text("/metadata/creationTimestamp").to_owned(),
            health,
        }
    }
}
