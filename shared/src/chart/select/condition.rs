//! The conditions of a constraint, taken from its normal form.

use std::fmt;

use crate::chart::version::Version;

/// An operator and the version beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Condition<'a> {
    /// `>=` and the like; may be empty, which means `=`.
    pub(super) operator: &'a str,
    /// The numbers, with a leading `v` if there is one, without what follows them.
    numbers: &'a str,
    /// What follows the hyphen; empty for a release.
    prerelease: &'a str,
    /// The plus and what follows it, or nothing.
    build: &'a str,
}

/// The alternatives of a normal form, each a list of conditions.
pub(super) fn groups(normal: &str) -> impl Iterator<Item = Vec<Condition<'_>>> {
    normal
        .split(" || ")
        .map(|group| group.split(' ').map(Condition::read).collect())
}

impl<'a> Condition<'a> {
    fn read(text: &'a str) -> Self {
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

    /// The numbers that count: those before the first wildcard.
    fn given(&self) -> impl Iterator<Item = &'a str> {
        let numbers = self.numbers.strip_prefix('v').unwrap_or(self.numbers);
        numbers
            .split('.')
            .take_while(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
    }

    /// How many numbers count: all three, or the condition is about a line of versions.
    pub(super) fn precision(&self) -> usize {
        self.given().count()
    }

    /// The same condition about a pre-release, the lowest one.
    pub(super) fn with_prerelease(self) -> Self {
        Self {
            prerelease: "0",
            ..self
        }
    }

    /// The version at which the condition begins or ceases to hold; `None` if it holds for all.
    pub(super) fn edge(&self) -> Option<Version> {
        let mut numbers: Vec<u64> = self.given().filter_map(|number| number.parse().ok()).collect();
        // ">1.2" begins with 1.3.0.
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
