use proptest::prelude::*;

use super::quote::quoted;
use super::*;

/// Input, class of Go's result, and the normal form or the quoted segment.
const CONSTRAINTS: &str = include_str!("../../tests/truth/constraint.tsv");
/// Versions on the first line, then each constraint and a bitmap of the versions that match it.
const CHECKS: &str = include_str!("../../tests/truth/check.tsv");

fn constraint(text: &str) -> Constraint {
    Constraint::parse(text).unwrap()
}

fn version(text: &str) -> Version {
    Version::parse(text).unwrap()
}

/// Class and detail of a result, as in the table.
fn class_and_detail(result: &Result<Constraint, ConstraintError>) -> (&'static str, String) {
    match result {
        Ok(constraint) => ("ok", constraint.to_string()),
        Err(ConstraintError::TooLong { .. }) => ("long", String::new()),
        Err(ConstraintError::TooManyGroups { .. }) => ("groups", String::new()),
        Err(ConstraintError::Improper { segment, .. }) => ("improper", quoted(segment)),
        Err(ConstraintError::Version { .. }) => ("parser", String::new()),
    }
}

/// Asserts that the position of the error is in the text, and that the message starts like Helm's if Helm has one.
fn assert_position_in_text(text: &str, error: &ConstraintError) {
    match error {
        ConstraintError::Improper {
            segment, at, token, ..
        } => {
            assert!(text[*at..].starts_with(token.as_str()), "{text:?}: {error}");
            let helm = format!(
                "improper constraint: {} (at byte {at}: expected ",
                quoted(segment)
            );
            assert!(error.to_string().starts_with(&helm), "{text:?}: {error}");
        }
        ConstraintError::Version { at, token, .. } => {
            assert!(text[*at..].starts_with(token.as_str()), "{text:?}: {error}");
        }
        ConstraintError::TooLong { .. } | ConstraintError::TooManyGroups { .. } => {}
    }
}

#[test]
fn parses_the_same_texts_as_masterminds() {
    let mut rows = 0;
    for line in CONSTRAINTS.lines() {
        let [input, class, detail] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        let input: String = serde_json::from_str(input).unwrap();
        let result = Constraint::parse(&input);
        assert_eq!(class_and_detail(&result), (class, detail.to_owned()), "{input:?}");
        if let Err(error) = result {
            assert_position_in_text(&input, &error);
        }
        rows += 1;
    }
    assert!(rows > 6000, "{rows} rows");
}

#[test]
fn matches_the_same_versions_as_masterminds() {
    let mut lines = CHECKS.lines();
    let versions: Vec<Version> = lines.next().unwrap().split(' ').map(version).collect();
    let mut rows = 0;
    for line in lines {
        let (text, bits) = line.split_once('\t').unwrap();
        let text: String = serde_json::from_str(text).unwrap();
        let bits = u64::from_str_radix(bits, 16).unwrap();
        let read = constraint(&text);
        for (i, version) in versions.iter().enumerate() {
            assert_eq!(read.matches(version), bits >> i & 1 == 1, "{text:?} {version}");
        }
        rows += 1;
    }
    assert!(rows > 600, "{rows} rows");
}

#[test]
fn any_equals_the_star() {
    assert_eq!(Constraint::any(), constraint("*"));
    assert!(Constraint::any().matches(&version("0.0.0")));
    assert!(!Constraint::any().matches(&version("9.9.9-rc.1")));
}

#[test]
fn each_group_allows_prereleases_on_its_own() {
    let both = constraint(">=2-0 || 1.x");
    assert!(both.matches(&version("2.0.0-rc.1")));
    assert!(!both.matches(&version("1.5.0-rc.1")));
}

/// Texts of the characters of constraints, constraints with errors, and any text.
fn near_constraint() -> impl Strategy<Value = String> {
    let member =
        "([!<>=~^ ]{0,2}v?[0-9xX*|]{1,3}(\\.[0-9x*]){0,3}(-[0-9a.-]{1,4})?|[12](\\.x)?[ -]{1,4}[34])";
    let members = format!("{member}(( |, ?|\\|\\|){member}){{0,3}}");
    prop_oneof![
        "[12vx*., |<>=!~^-]{0,16}",
        prop::string::string_regex(&members).unwrap(),
        ".*"
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn every_error_has_a_position_in_the_text(text in near_constraint()) {
        if let Err(error) = Constraint::parse(&text) {
            assert_position_in_text(&text, &error);
        }
    }

    #[test]
    fn the_normal_form_parses_to_an_equal_constraint(text in near_constraint()) {
        if let Ok(read) = Constraint::parse(&text) {
            prop_assert_eq!(Constraint::parse(&read.to_string()), Ok(read));
        }
    }
}
