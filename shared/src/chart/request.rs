//! What a HelmOp requests: a chart, and a version or a range of versions.

use super::{
    constraint::{Constraint, ConstraintError},
    registry::reference::Reference,
    source::ChartSource,
    version::Version,
};

/// A parsed version field.
#[derive(Clone, Debug)]
pub struct VersionRequest<'a> {
    text: &'a str,
    constraint: Constraint,
}

impl<'a> VersionRequest<'a> {
    /// Parses a version field: an exact version, a range, or empty for the latest release.
    ///
    /// # Errors
    /// What is wrong with the text, and at which byte.
    pub fn parse(text: &'a str) -> Result<Self, ConstraintError> {
        let constraint = if text.is_empty() {
            Constraint::any()
        } else {
            Constraint::parse(text)?
        };
        Ok(Self { text, constraint })
    }

    /// The field as the user wrote it.
    pub fn text(&self) -> &'a str {
        self.text
    }

    /// The versions that satisfy the request.
    pub fn constraint(&self) -> &Constraint {
        &self.constraint
    }

    /// Whether it can match one version only: a complete semantic version without a leading `v`. Anything else may match
    /// a newer version later.
    pub fn is_exact(&self) -> bool {
        is_strict_version(self.text)
    }
}

/// A parsed version field that owns its text, so that it can be sent to another thread.
#[derive(Clone, Debug)]
pub struct OwnedVersionRequest {
    text: String,
    constraint: Constraint,
}

impl OwnedVersionRequest {
    /// The same request, borrowed.
    pub fn borrowed(&self) -> VersionRequest<'_> {
        VersionRequest {
            text: &self.text,
            constraint: self.constraint.clone(),
        }
    }
}

impl From<&VersionRequest<'_>> for OwnedVersionRequest {
    fn from(request: &VersionRequest<'_>) -> Self {
        Self {
            text: request.text.to_owned(),
            constraint: request.constraint.clone(),
        }
    }
}

/// Whether a text is a version as the specification writes it: three numbers without a leading `v`. As a version field it can
/// match one version only.
pub fn is_strict_version(text: &str) -> bool {
    Version::parse_strict(text).is_ok()
}

/// Whether a text is one version with all three numbers, with or without a leading `v`. It can be deployed. As a version field it
/// may match several versions: with a `v` it matches the same version of another spelling too.
pub fn is_complete_version(text: &str) -> bool {
    is_strict_version(text.strip_prefix('v').unwrap_or(text))
}

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
