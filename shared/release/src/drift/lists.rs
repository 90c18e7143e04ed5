//! How the API server applies lists.

use serde_json::Value;

use super::text;

/// Lists of built-in kinds whose elements the API server merges: others may add fields to an element, and defaults are added to it.
/// Elements of all other lists are replaced as a whole, so any difference in them counts.
const MERGED_LISTS: [&str; 10] = [
    "containers",
    "initContainers",
    "env",
    "ports",
    "volumes",
    "volumeMounts",
    "volumeDevices",
    "topologySpreadConstraints",
    "webhooks",
    // Replaced as a whole, but immutable: the defaults are the only difference that there can be.
    "volumeClaimTemplates",
];

/// Which lists of an object are merged.
#[derive(Clone, Copy, Debug)]
pub enum Lists {
    /// Those of a built-in kind: some.
    BuiltIn,
    /// Those of a custom resource: that is not known.
    Custom,
}

impl Lists {
    /// The lists of the kind of an object.
    pub fn of(object: &Value) -> Self {
        let api_version = text(object, "/apiVersion");
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        if group.contains('.') && !group.ends_with(".k8s.io") {
            Self::Custom
        } else {
            Self::BuiltIn
        }
    }

    /// Whether the list in the field `key` is merged by element.
    pub fn are_merged(self, key: &str) -> bool {
        matches!(self, Self::BuiltIn) && MERGED_LISTS.contains(&key)
    }
}
