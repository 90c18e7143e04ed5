//! The result of resolving a request: one version of a chart.

/// One version of a chart, as the repository or registry lists it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChartVersion {
    /// The version, as listed.
    pub version: String,
    /// Digest of the archive (SHA-256 in hex, as an index lists it) or of the manifest (`sha256:…`, in a registry);
    /// empty if unknown.
    pub digest: String,
    /// URL of the archive or the manifest, without credentials; empty if unknown.
    pub url: String,
}

impl From<String> for ChartVersion {
    fn from(version: String) -> Self {
        Self {
            version,
            ..Self::default()
        }
    }
}
