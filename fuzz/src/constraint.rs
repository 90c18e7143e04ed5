//! Versions and constraints: a parsed text can be printed and parsed again, with the same meaning.

use masterminds_semver::{Constraint, MAX_VERSION_LEN, Version};
use helm_index::VersionRequest;

/// The first line is the constraint, the others are versions.
pub fn check(input: &[u8]) {
    let input = String::from_utf8_lossy(input);
    let mut lines = input.split('\n');
    let text = lines.next().unwrap_or_default();
    let versions: Vec<Version> = lines.filter_map(version).collect();
    if let Ok(request) = VersionRequest::parse(text) {
        assert_eq!(request.text(), text);
        // An exact version matches itself.
        if request.is_exact() {
            let exact = Version::parse_strict(text).expect("an exact request is a strict version");
            assert!(request.constraint().matches(&exact), "{text:?}");
        }
    }
    if let Ok(constraint) = Constraint::parse(text) {
        let printed = constraint.to_string();
        let again = Constraint::parse(&printed).expect("a printed constraint can be parsed");
        assert_eq!(again.to_string(), printed, "{text:?}");
        for version in &versions {
            assert_eq!(
                constraint.matches(version),
                again.matches(version),
                "{text:?} {printed:?} {version:?}"
            );
        }
    }
    for a in &versions {
        for b in &versions {
            assert_eq!(a.precedence(b), b.precedence(a).reverse(), "{a:?} {b:?}");
        }
    }
}

/// Parses a version, strictly and loosely: every strict version is a loose one.
fn version(text: &str) -> Option<Version> {
    let loose = Version::parse(text);
    if let Ok(strict) = Version::parse_strict(text) {
        assert_eq!(loose.as_ref().ok(), Some(&strict), "{text:?}");
    }
    let version = loose.ok()?;
    assert_eq!(version.original(), text);
    let printed = version.to_string();
    // Written in full, a version can exceed the maximum length.
    if printed.len() <= MAX_VERSION_LEN {
        assert_eq!(Version::parse(&printed).as_ref().ok(), Some(&version), "{text:?}");
    }
    Some(version)
}
