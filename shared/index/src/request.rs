//! Which versions of a chart are requested.

use std::sync::Arc;

use masterminds_semver::{Constraint, ConstraintError, Version};
use regex::Regex;

/// A parsed version field.
#[derive(Clone, Debug)]
pub struct VersionRequest<'a> {
    text: &'a str,
    constraint: Constraint,
    is_exact: bool,
    filter: Option<VersionFilter>,
}

/// Which of the listed versions count for a range: those in which an expression matches somewhere, as `semverFilter` of Flux.
#[derive(Clone, Debug)]
pub struct VersionFilter {
    /// The expression as the user wrote it.
    pub text: Arc<str>,
    /// What it means.
    pub expression: Regex,
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
        Ok(Self {
            text,
            constraint,
            is_exact: is_strict_version(text),
            filter: None,
        })
    }

    /// The same request, of the versions that pass the filter. A version whose text is that of the request needs not.
    #[must_use]
    pub fn filtered(mut self, filter: Option<VersionFilter>) -> Self {
        self.filter = filter;
        self
    }

    /// The expression that filters versions; empty for none.
    pub fn filter(&self) -> &str {
        self.filter.as_ref().map_or("", |filter| &filter.text)
    }

    /// Whether a listed version passes the filter.
    pub fn passes(&self, version: &str) -> bool {
        let filter = self.filter.as_ref();
        filter.is_none_or(|filter| filter.expression.is_match(version))
    }

    /// A version that a repository lists, and that was selected before. It may have fewer than three numbers, which would be a range
    /// in a version field. Only the version of this text matches, or if there is none, the same version in another form.
    pub fn resolved(text: &'a str) -> Self {
        // With all three numbers it is a condition that only this version meets.
        let complete = Version::parse(text).map(|version| version.to_string());
        let constraint = complete.ok().and_then(|text| Constraint::parse(&text).ok());
        Self {
            text,
            constraint: constraint.unwrap_or_else(Constraint::none),
            is_exact: true,
            filter: None,
        }
    }

    /// The field as the user wrote it.
    pub fn text(&self) -> &'a str {
        self.text
    }

    /// The versions that satisfy the request.
    pub fn constraint(&self) -> &Constraint {
        &self.constraint
    }

    /// Whether it can match one version only: a complete semantic version without a leading `v`, or a version that was resolved.
    /// Anything else may match a newer version later.
    pub const fn is_exact(&self) -> bool {
        self.is_exact
    }
}

/// A parsed version field that owns its text, so that it can be sent to another thread.
#[derive(Clone, Debug)]
pub struct OwnedVersionRequest {
    text: String,
    constraint: Constraint,
    is_exact: bool,
    filter: Option<VersionFilter>,
}

impl OwnedVersionRequest {
    /// The same request, borrowed.
    pub fn borrowed(&self) -> VersionRequest<'_> {
        VersionRequest {
            text: &self.text,
            constraint: self.constraint.clone(),
            is_exact: self.is_exact,
            filter: self.filter.clone(),
        }
    }
}

impl From<&VersionRequest<'_>> for OwnedVersionRequest {
    fn from(request: &VersionRequest<'_>) -> Self {
        Self {
            text: request.text.to_owned(),
            constraint: request.constraint.clone(),
            is_exact: request.is_exact,
            filter: request.filter.clone(),
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
    fn a_resolved_version_is_no_range() {
        for (text, matching, others) in [
            (
                "1.2",
                &["1.2.0", "v1.2.0", "1.2"][..],
                &["1.2.1", "1.2.0-rc.1", "1.3.0"][..],
            ),
            ("1.2.3", &["1.2.3", "1.2.3+b"], &["1.2.4"]),
            ("v1-rc.1", &["1.0.0-rc.1"], &["1.0.0", "1.1.0"]),
            // An index may list this, and Helm selects it by its text.
            ("1.x", &[], &["1.0.0", "1.2.3"]),
        ] {
            let request = VersionRequest::resolved(text);
            assert!(request.is_exact() && request.text() == text, "{text}");
            let matches = |version: &&str| request.constraint().matches(&Version::parse(version).unwrap());
            assert!(
                matching.iter().all(matches) && !others.iter().any(matches),
                "{text}"
            );
        }
        assert!(!VersionRequest::parse("1.2").unwrap().is_exact());
    }

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
