//! What is asked for: a chart, and a version or a range of versions.

use super::{
    constraint::{Constraint, ConstraintError},
    registry::reference::Reference,
    source::ChartSource,
    version::Version,
};

/// A version field that has been understood.
#[derive(Clone, Debug)]
pub struct VersionRequest<'a> {
    text: &'a str,
    constraint: Constraint,
}

impl<'a> VersionRequest<'a> {
    /// Reads a version field: an exact version, a range, or empty for the latest release.
    ///
    /// # Errors
    /// Says what is wrong with the text, and where.
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

    /// The versions that will do.
    pub fn constraint(&self) -> &Constraint {
        &self.constraint
    }

    /// Whether it can only ever mean one version: a complete semantic version without a leading `v`. Anything else may
    /// find a newer version later.
    pub fn is_exact(&self) -> bool {
        is_exact(self.text)
    }
}

/// A version field that has been understood, with a text of its own: for another thread.
#[derive(Clone, Debug)]
pub struct OwnedVersionRequest {
    text: String,
    constraint: Constraint,
}

impl OwnedVersionRequest {
    /// The same, borrowed.
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

/// Whether a version field can only ever mean one version; see [`VersionRequest::is_exact`].
pub fn is_exact(text: &str) -> bool {
    Version::parse_strict(text).is_ok()
}

/// What a target says itself of `repo`, `chart` or `version`, or what `spec.helm` says where it says nothing.
pub const fn or_inherited<'a>(own: &'a str, main: &'a str) -> &'a str {
    if own.is_empty() { main } else { own }
}

/// A chart and the versions of it that will do.
#[derive(Clone, Debug)]
pub struct ChartRequest<'a> {
    /// URL of the repository, or reference in a registry; empty for an archive.
    pub repo: &'a str,
    /// Name of the chart, or URL of an archive.
    pub chart: &'a str,
    /// Which versions will do.
    pub version: VersionRequest<'a>,
}

impl<'a> ChartRequest<'a> {
    /// Where the chart comes from.
    pub fn source(&self) -> ChartSource<'a> {
        ChartSource::of(self.repo, self.chart)
    }

    /// Whether a newer version can ever appear; see [`is_floating`].
    pub fn is_floating(&self) -> bool {
        is_floating(self.repo, self.chart, self.version.text())
    }
}

/// Whether a newer version can ever appear: not for an archive, which has none, nor for an exact version, nor where the
/// reference to a registry names a tag or a digest.
pub fn is_floating(repo: &str, chart: &str, version: &str) -> bool {
    let is_open = match ChartSource::of(repo, chart) {
        ChartSource::Archive { .. } => false,
        ChartSource::Repository { .. } => true,
        ChartSource::Oci { repo } => Reference::parse(repo)
            .is_ok_and(|reference| reference.tag.is_none() && reference.digest.is_none()),
    };
    is_open && !is_exact(version)
}
