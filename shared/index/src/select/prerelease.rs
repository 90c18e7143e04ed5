//! The constraint to suggest to a user whose range matches no release but could match pre-releases.

use masterminds_semver::{Condition, Constraint, Operator, Precision};

/// Allows every pre-release; allows releases only as far as the other conditions do.
const ANY: &str = ">=0.0.0-0";

/// The same range with pre-releases, as text and as constraint: `>=1.2.0-0, <2.0.0-0` for `>=1.2.0 <2.0.0`. It allows the
/// same releases. Its pre-releases start with those of the lowest release of the range and end before those of the first
/// release above it.
///
/// `None` if the result would be too long.
pub(super) fn widened(constraint: &Constraint) -> Option<(String, Constraint)> {
    let groups: Vec<String> = constraint
        .conditions()
        .map(|group| widened_group(&group.collect::<Vec<_>>()))
        .collect();
    let text = groups.join(" || ");
    let constraint = Constraint::parse(&text).ok()?;
    Some((text, constraint))
}

fn widened_group(conditions: &[Condition<'_>]) -> String {
    let join = |conditions: Vec<String>| conditions.join(", ");
    let written = conditions.iter().map(ToString::to_string);
    if conditions.iter().any(Condition::names_prerelease) {
        return join(written.collect());
    }
    let can_name_prerelease = conditions.iter().any(allows_same_releases_with_prerelease);
    if can_name_prerelease {
        return join(conditions.iter().map(widened_condition).collect());
    }
    // One condition with a pre-release is enough for its group.
    join(written.chain([ANY.to_owned()]).collect())
}

fn widened_condition(condition: &Condition<'_>) -> String {
    match (condition.operator, condition.precision) {
        (Operator::Equal, Precision::None) => ANY.to_owned(),
        _ if allows_same_releases_with_prerelease(condition) => {
            let lowest = Condition {
                prerelease: "0",
                ..*condition
            };
            lowest.to_string()
        }
        _ => condition.to_string(),
    }
}

/// Whether `-0` after the version leaves the allowed releases the same.
fn allows_same_releases_with_prerelease(condition: &Condition<'_>) -> bool {
    let Condition {
        operator, precision, ..
    } = *condition;
    match operator {
        Operator::Tilde | Operator::Caret | Operator::GreaterEqual | Operator::Less => true,
        Operator::Equal => precision != Precision::All,
        // ">1.2.3-0" allows 1.2.3, and "<=1.2.3-0" does not.
        Operator::Greater | Operator::LessEqual => {
            matches!(precision, Precision::Major | Precision::MajorMinor)
        }
        Operator::NotEqual => false,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use masterminds_semver::Version;

    fn text(constraint: &str) -> String {
        widened(&Constraint::parse(constraint).unwrap()).unwrap().0
    }

    #[test]
    fn each_bound_gets_its_lowest_prerelease() {
        for (constraint, expected) in [
            ("*", ">=0.0.0-0"),
            ("x.1", ">=0.0.0-0"),
            ("1.x", "1.x-0"),
            ("^1.2", "^1.2-0"),
            ("~v1.2.3+b", "~v1.2.3-0+b"),
            (">=1.2 <2", ">=1.2-0, <2-0"),
            ("1.2 - 1.4", ">=1.2-0, <=1.4-0"),
            ("1.2 - 1.4.5", ">=1.2-0, <=1.4.5"),
            (">1.2.3", ">1.2.3, >=0.0.0-0"),
            (">1.2", ">1.2-0"),
            ("1.2.3 || ^2", "1.2.3, >=0.0.0-0 || ^2-0"),
            ("!=1.2.3, ^1", "!=1.2.3, ^1-0"),
            (">1.2.3-rc.1 <2 || 1.x", ">1.2.3-rc.1, <2 || 1.x-0"),
        ] {
            assert_eq!(text(constraint), expected, "{constraint}");
        }
    }

    #[test]
    fn a_range_of_maximum_length_has_no_suggestion() {
        let longest = format!("1.2.x+{}", "b".repeat(506));
        assert_eq!(widened(&Constraint::parse(&longest).unwrap()), None);
    }

    /// Constraints over small numbers, with every operator.
    fn constraints() -> impl Strategy<Value = String> {
        let condition = "(|=|!=|>|<|>=|=>|<=|=<|~|~>|\\^)v?[0-2x](\\.[0-2x]){0,2}(-(0|a))?(\\+b)?";
        prop::string::string_regex(&format!("{condition}(( |, | \\|\\| ){condition}){{0,2}}")).unwrap()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1000))]

        #[test]
        fn the_suggestion_allows_the_same_releases(constraint in constraints(), version in "[0-3]\\.[0-3]\\.[0-3]") {
            let (constraint, version) = (Constraint::parse(&constraint).unwrap(), Version::parse(&version).unwrap());
            let (text, widened) = widened(&constraint).unwrap();
            prop_assert_eq!(constraint.matches(&version), widened.matches(&version), "{}", text);
        }

        #[test]
        fn the_suggestion_allows_all_versions_of_the_range(constraint in constraints(), version in "[0-3]\\.[0-3]\\.[0-3]-(0|1|a|b)") {
            let (constraint, version) = (Constraint::parse(&constraint).unwrap(), Version::parse(&version).unwrap());
            let (text, widened) = widened(&constraint).unwrap();
            prop_assert!(!constraint.matches(&version) || widened.matches(&version), "{}", text);
        }
    }
}
