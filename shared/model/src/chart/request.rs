//! What a HelmOp requests: a chart, and a version or a range of versions.

use helm_index::{VersionRequest, is_strict_version};

use super::{registry::reference::Reference, source::ChartSource};

/// The target's own `repo`, `chart` or `version`, or the one of `spec.helm` if the target's is empty.
pub const fn or_inherited<'a>(own: &'a str, main: &'a str) -> &'a str {
    if own.is_empty() { main } else { own }
}

/// A chart and the versions of it that satisfy the request.
#[derive(Clone, Debug)]
pub struct ChartRequest<'a> {
    /// URL of the repository, or reference in a registry; empty for an archive.
    pub repo: &'a str,
    /// Name of the chart, or URL of an archive.
    pub chart: &'a str,
    /// Which versions satisfy the request.
    pub version: VersionRequest<'a>,
}

impl<'a> ChartRequest<'a> {
    /// Where the chart comes from.
    pub fn source(&self) -> ChartSource<'a> {
        ChartSource::of(self.repo, self.chart)
    }

    /// Whether a newer version can appear later; see [`is_floating`].
    pub fn is_floating(&self) -> bool {
        is_floating(self.repo, self.chart, self.version.text())
    }
}

/// Whether a newer version can appear later: not for an archive, which has no versions, nor for an exact version, nor if
/// the reference to a registry names a tag or a digest.
pub fn is_floating(repo: &str, chart: &str, version: &str) -> bool {
    let has_versions = match ChartSource::of(repo, chart) {
        ChartSource::Archive { .. } => false,
        ChartSource::Repository { .. } => true,
        ChartSource::Oci { repo } => Reference::parse(repo)
            .is_ok_and(|reference| reference.tag.is_none() && reference.digest.is_none()),
    };
    has_versions && !is_strict_version(version)
}
