//! Manifests in ConfigMaps of the namespace of a HelmOp: each key is the name of a file.

/// What the name of ConfigMaps in records, Bundles and Policies starts with.
pub const CONFIG_MAPS_PREFIX: &str = "configmaps+";

/// Manifests in ConfigMaps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigMapFiles {
    /// The names of the ConfigMaps.
    pub names: Vec<String>,
}

impl ConfigMapFiles {
    /// The ConfigMaps, as records have them.
    #[must_use]
    pub fn identity(&self) -> String {
        format!("{CONFIG_MAPS_PREFIX}{}", self.names.join(","))
    }
}
