//! What was found: one version of a chart.

/// One version of a chart, as the repository or registry has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChartVersion {
    /// The version, as it is listed.
    pub version: String,
    /// Digest of the archive (SHA-256 in hex, as an index lists it) or of the manifest (`sha256:…`, in a registry);
    /// empty where it is not known.
    pub digest: String,
    /// Where the archive or the manifest is, without credentials; empty where it is not known.
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
