//! The conditions of a constraint, parsed from its normal form.

use std::fmt;

use masterminds_semver::Version;

/// An operator and the version after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Condition<'a> {
    /// An operator such as `>=`; empty means `=`.
    pub(super) operator: &'a str,
    /// The numbers, with a leading `v` if there is one, without pre-release and build metadata.
    numbers: &'a str,
    /// The text after the hyphen; empty for a release.
    prerelease: &'a str,
    /// The plus and the text after it, or empty.
    build: &'a str,
}

/// The alternatives of a normal form, each a list of conditions.
pub(super) fn groups(normal: &str) -> impl Iterator<Item = Vec<Condition<'_>>> {
    normal
        .split(" || ")
        .map(|group| group.split(' ').map(Condition::parse).collect())
}

impl<'a> Condition<'a> {
    fn parse(text: &'a str) -> Self {
        let is_operator = |c: char| matches!(c, '=' | '!' | '<' | '>' | '~' | '^');
        let (operator, version) = text.split_at(text.find(|c| !is_operator(c)).unwrap_or(text.len()));
        let (version, build) = version.split_at(version.find('+').unwrap_or(version.len()));
        let (numbers, prerelease) = version.split_once('-').unwrap_or((version, ""));
        Self {
            operator,
            numbers,
            prerelease,
            build,
        }
    }

    pub(super) fn names_prerelease(&self) -> bool {
        !self.prerelease.is_empty()
    }

    /// The numbers before the first wildcard; the others are ignored.
    fn significant_numbers(&self) -> impl Iterator<Item = &'a str> {
        let numbers = self.numbers.strip_prefix('v').unwrap_or(self.numbers);
        numbers
            .split('.')
            .take_while(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
    }

    /// The number of significant numbers. If it is less than three, the condition is about a line of versions.
    pub(super) fn precision(&self) -> usize {
        self.significant_numbers().count()
    }

    /// The same condition with the lowest pre-release of its version.
    pub(super) fn with_prerelease(self) -> Self {
        Self {
            prerelease: "0",
            ..self
        }
    }

    /// The version at which the result of the condition changes; `None` if it holds for all versions.
    pub(super) fn edge(&self) -> Option<Version> {
        let mut numbers: Vec<u64> = self
            .significant_numbers()
            .filter_map(|number| number.parse().ok())
            .collect();
        // ">1.2" starts at 1.3.0.
        if self.operator == ">" && numbers.len() < 3 {
            let last = numbers.last_mut()?;
            *last = last.saturating_add(1);
        }
        let numbers: Vec<String> = numbers.iter().map(u64::to_string).collect();
        let hyphen = if self.names_prerelease() { "-" } else { "" };
        Version::parse(&format!("{}{hyphen}{}", numbers.join("."), self.prerelease)).ok()
    }
}

impl fmt::Display for Condition<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hyphen = if self.names_prerelease() { "-" } else { "" };
        let Self {
            operator,
            numbers,
            prerelease,
            build,
        } = self;
        write!(f, "{operator}{numbers}{hyphen}{prerelease}{build}")
    }
}
