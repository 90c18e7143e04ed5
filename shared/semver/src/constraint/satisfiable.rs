//! Whether any version at all can satisfy a constraint.
//!
//! The result of a comparator changes only at a few versions, which follow from its bound: the bound itself, and the first
//! versions of the next patch, minor and major line. Between them it is constant, so checking the first version of each
//! interval is enough. The tests compare this with random versions.

use super::{Comparator, Constraint, Group};
use crate::version::Version;

/// A group with more comparators counts as satisfiable: the check is quadratic, and users do not write such a range.
const MAX_COMPARATORS: usize = 16;

impl Constraint {
    /// Whether some version satisfies it. False is certain: `>2 <1` matches no version of any chart.
    pub fn is_satisfiable(&self) -> bool {
        self.groups.iter().any(Group::is_satisfiable)
    }
}

impl Group {
    fn is_satisfiable(&self) -> bool {
        self.comparators.len() > MAX_COMPARATORS
            || self
                .comparators
                .iter()
                .flat_map(Comparator::boundaries)
                .any(|version| self.unmet(&version).is_none())
    }
}

impl Comparator {
    /// The versions at which the result of the comparator can change, and the lowest version of all.
    fn boundaries(&self) -> impl Iterator<Item = Version> {
        let bound = self.bound();
        let (major, minor, patch) = (bound.major(), bound.minor(), bound.patch());
        let lines = [
            (0, 0, 0),
            (major, minor, patch),
            (major, minor, patch.saturating_add(1)),
            (major, minor.saturating_add(1), 0),
            (major.saturating_add(1), 0, 0),
        ];
        // `before`: the first pre-releases of the lines. `after`: the version that follows a pre-release bound.
        let after = format!("{major}.{minor}.{patch}-{}.0", bound.prerelease());
        let before = lines.map(|(major, minor, patch)| format!("{major}.{minor}.{patch}-0"));
        let releases = lines.map(|(major, minor, patch)| format!("{major}.{minor}.{patch}"));
        let texts = releases.into_iter().chain(before).chain([after]);
        let versions = texts.filter_map(|text| Version::parse(&text).ok());
        versions.chain([bound.clone()])
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn is_satisfiable(text: &str) -> bool {
        Constraint::parse(text).unwrap().is_satisfiable()
    }

    #[test]
    fn an_empty_range_is_not_satisfiable() {
        for text in [
            ">1.2.3 <1.0.0",
            "<0.0.0",
            ">=2, <=1.9",
            "^1 ^2",
            "~1.2 ~1.3",
            "=1.2.3 !=1.2.3",
            "1.2.3 1.2.4",
            ">1 <1.5",
            ">2 <1 || <0.0.0",
            ">1.0.0-b <1.0.0-a",
            "<0.0.0-0",
        ] {
            assert!(!is_satisfiable(text), "{text}");
        }
    }

    #[test]
    fn a_range_with_a_version_is_satisfiable() {
        for text in [
            "*",
            "!=0.0.0",
            ">1.0.0 !=1.0.1 !=1.0.2 <1.0.4",
            ">=1 !=1 <3",
            ">1.0.1-a <1.0.1-b",
            ">=1.2.0-0 <1.3.0-0 !=1.2",
            "<0.0.0-b",
            ">1.0.0-a !=1.0.0-a.0 <1.0.0-b",
            ">2 <1 || 3",
            "1 - 2",
            ">18446744073709551614",
        ] {
            assert!(is_satisfiable(text), "{text}");
        }
    }

    fn comparators() -> impl Strategy<Value = String> {
        let comparator = "(=|!=|>|<|>=|<=|~|\\^)[0-3](\\.[0-3x]){0,2}|(>|<|>=|<=|=|!=)[0-3]\\.[0-3]\\.[0-3]-[ab01](\\.[01])?";
        prop::collection::vec(comparator, 1..5).prop_map(|comparators| comparators.join(" "))
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_constraint_that_matches_a_version_is_satisfiable(
            text in comparators(), version in "[0-4]\\.[0-4]\\.[0-4](-[abc012](\\.[012a]){0,2})?"
        ) {
            let constraint = Constraint::parse(&text).unwrap();
            if constraint.matches(&Version::parse(&version).unwrap()) {
                prop_assert!(constraint.is_satisfiable(), "{text}: {version}");
            }
        }
    }
}
