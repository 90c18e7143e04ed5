//! Which versions of a chart are requested.

use masterminds_semver::{Constraint, ConstraintError, Version};

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
        is_exact(self.text)
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

/// Whether a version field can match one version only; see [`VersionRequest::is_exact`].
pub fn is_exact(text: &str) -> bool {
    Version::parse_strict(text).is_ok()
}
