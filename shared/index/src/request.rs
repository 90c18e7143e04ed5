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

/// Whether a text is one version with all three numbers, with or without a leading `v`. As a version field it may match several
/// versions: with a `v` it matches the same version without it too.
pub fn is_complete_version(text: &str) -> bool {
    is_strict_version(text.strip_prefix('v').unwrap_or(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strict_versions_have_no_v_and_complete_ones_may() {
        for (text, is_strict, is_complete) in [
            ("1.2.3", true, true),
            ("1.2.3-rc.1+b", true, true),
            ("v1.2.3", false, true),
            ("vv1.2.3", false, false),
            ("V1.2.3", false, false),
            ("1.2", false, false),
            ("01.2.3", false, false),
            ("1.x", false, false),
            ("", false, false),
        ] {
            assert_eq!(is_strict_version(text), is_strict, "{text}");
            assert_eq!(is_complete_version(text), is_complete, "{text}");
        }
    }
}
