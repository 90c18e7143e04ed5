//! The parts of a condition, for messages and suggestions.

use std::fmt;

use super::grammar::Operator;
use crate::version::Version;

/// One condition of a constraint: an operator and the version after it. `Display` is the condition as written, without blanks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Condition<'a> {
    /// The operator.
    pub operator: Operator,
    /// The operator as written; empty if there is none.
    pub operator_text: &'a str,
    /// The numbers and wildcards as written, with the `v` before them if there is one.
    pub numbers: &'a str,
    /// How many of the numbers count.
    pub precision: Precision,
    /// The pre-release, without its hyphen; empty for a release.
    pub prerelease: &'a str,
    /// The build metadata, with its plus; empty if there is none.
    pub build: &'a str,
    /// The version, with 0 for each number that does not count.
    pub bound: &'a Version,
}

/// How many of the three numbers are specified, that is neither omitted nor a wildcard. Numbers after the first wildcard are
/// ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// None: any version.
    None,
    /// The major number: `1` or `1.x`.
    Major,
    /// The major and the minor number: `1.2` or `1.2.x`.
    MajorMinor,
    /// All three: a complete version.
    All,
}

impl Condition<'_> {
    /// Whether the version is a pre-release.
    pub const fn names_prerelease(&self) -> bool {
        !self.prerelease.is_empty()
    }
}

impl fmt::Display for Condition<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            operator_text,
            numbers,
            prerelease,
            build,
            ..
        } = self;
        let hyphen = if self.names_prerelease() { "-" } else { "" };
        write!(f, "{operator_text}{numbers}{hyphen}{prerelease}{build}")
    }
}
