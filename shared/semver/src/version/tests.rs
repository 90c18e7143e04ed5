use std::cmp::Ordering;
use std::collections::HashSet;

use proptest::prelude::*;

use super::*;

/// Input, Go's result, and whether it is a strict version in Go.
const PARSE: &str = include_str!("../../tests/truth/parse.tsv");
/// Two versions and the result of comparing them in Go.
const COMPARE: &str = include_str!("../../tests/truth/compare.tsv");

fn version(text: &str) -> Version {
    Version::parse(text).unwrap()
}

/// The result in the form of the table: the normal form, or an exclamation mark and the class of the error.
fn result_of(text: &str) -> String {
    match Version::parse(text) {
        Ok(version) => version.to_string(),
        Err(VersionError::Empty | VersionError::Malformed { .. }) => "!invalid".into(),
        Err(VersionError::TooLong { .. }) => "!long".into(),
        Err(VersionError::NumberTooLarge { .. }) => "!range".into(),
        Err(VersionError::PrereleaseLeadingZero { .. }) => "!zero".into(),
        Err(VersionError::NotStrict { .. }) => "unexpected error of the strict parser".into(),
    }
}

#[test]
fn parses_the_same_texts_as_masterminds() {
    let mut rows = 0;
    for line in PARSE.lines() {
        let [input, loose, strict] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        let input: String = serde_json::from_str(input).unwrap();
        assert_eq!(result_of(&input), loose, "{input:?}");
        assert_eq!(
            Version::parse_strict(&input).is_ok(),
            strict == "ok",
            "{input:?}, strictly"
        );
        rows += 1;
    }
    assert!(rows > 2000, "{rows} rows");
}

#[test]
fn precedence_is_that_of_masterminds() {
    let mut rows = 0;
    for line in COMPARE.lines() {
        let [a, b, order] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        let expected = order.parse::<i8>().unwrap().cmp(&0);
        assert_eq!(version(a).precedence(&version(b)), expected, "{a} {b}");
        assert_eq!(version(b).precedence(&version(a)), expected.reverse(), "{b} {a}");
        rows += 1;
    }
    assert!(rows > 4000, "{rows} rows");
}

#[test]
fn a_version_keeps_its_text_and_has_its_parts() {
    let read = version("v1.02-rc.1+b");
    assert_eq!(read.original(), "v1.02-rc.1+b");
    assert_eq!((read.major(), read.minor(), read.patch()), (1, 2, 0));
    assert_eq!(read.prerelease(), "rc.1");
    assert!(read.is_prerelease());
    assert_eq!(read.to_string(), "1.2.0-rc.1+b");
    assert!(!version("1.2+b").is_prerelease());
    assert_eq!(Version::parse_strict("1.2.3+b").unwrap().original(), "1.2.3+b");
}

#[test]
fn equality_ignores_the_notation_and_includes_build_metadata() {
    assert_eq!(version("v1.2"), version("1.2.0"));
    assert_eq!(HashSet::from([version("v1.2"), version("1.2.0")]).len(), 1);
    assert_ne!(version("1.2.0+a"), version("1.2.0+b"));
    assert_eq!(
        version("1.2.0+a").precedence(&version("1.2.0+b")),
        Ordering::Equal
    );
}

#[test]
fn zero_equals_the_parsed_version_0_0_0() {
    assert_eq!(Version::zero(), version("0.0.0"));
    assert_eq!(Version::zero().original(), "0.0.0");
}

#[test]
fn messages_name_the_text_and_the_fix() {
    let message = |text: &str| Version::parse(text).unwrap_err().to_string();
    assert_eq!(message(""), "version is empty; write one such as 1.2.3");
    assert_eq!(
        message("latest"),
        r#""latest" is not a version; write one such as 1.2.3, 1.2 or v1.2.3-rc.1"#
    );
    assert_eq!(
        message(&"1".repeat(257)),
        "version is 257 bytes long; at most 256 are allowed"
    );
    assert_eq!(
        message("1.18446744073709551616"),
        r#"number 18446744073709551616 in version "1.18446744073709551616" is too large; the largest is 18446744073709551615"#
    );
    assert_eq!(
        message("1.2.3-rc.01"),
        r#"pre-release part "01" in version "1.2.3-rc.01" starts with a zero; write it without leading zeros"#
    );
    assert_eq!(
        Version::parse_strict("v1.2.3").unwrap_err().to_string(),
        concat!(
            r#""v1.2.3" is not a strict semantic version (unexpected character 'v' while parsing major version number); "#,
            "write all three numbers, without a v, such as 1.2.3"
        )
    );
}

/// Texts of the characters of versions, and any other text.
fn near_version() -> impl Strategy<Value = String> {
    prop_oneof![
        "[0-9v.+a-]{0,24}",
        "v?[0-9]{1,21}(\\.[0-9]{1,3}){0,3}(-[0-9a.-]{1,9})?(\\+[0-9a.-]{1,9})?",
        ".*"
    ]
}

proptest! {
    #[test]
    fn every_strict_version_is_the_same_loose_version(text in near_version()) {
        let strict = Version::parse_strict(&text);
        let loose = Version::parse(&text);
        if let Ok(strict) = strict {
            prop_assert_eq!(Ok(strict), loose);
        }
    }

    #[test]
    fn the_normal_form_parses_to_an_equal_version(text in near_version()) {
        if let Ok(read) = Version::parse(&text) {
            prop_assert_eq!(Version::parse_strict(&read.to_string()), Ok(read));
        }
    }

    #[test]
    fn precedence_is_a_total_order(
        a in "1\\.0\\.0(-[a19-]{1,2}(\\.(18446744073709551616|[a2]))?)?",
        b in "1\\.0\\.0(-[a19-]{1,2}(\\.(18446744073709551615|[a2]))?)?",
        c in "1\\.0\\.0(-[a19-]{1,2}(\\.(18446744073709551616|[a2]))?)?",
    ) {
        let mut sorted = [version(&a), version(&b), version(&c)];
        sorted.sort_by(Version::precedence);
        let [low, middle, high] = &sorted;
        prop_assert_ne!(low.precedence(middle), Ordering::Greater);
        prop_assert_ne!(middle.precedence(high), Ordering::Greater);
        prop_assert_ne!(low.precedence(high), Ordering::Greater);
        prop_assert_eq!(low.precedence(high).reverse(), high.precedence(low));
    }
}
