//! Hints for common mistakes in constraints.

use super::grammar::Expected;

const RANGE: &str = "a range needs a blank on both sides of the hyphen, as in 1.2 - 1.4";
const DASH: &str = "write a range with a plain hyphen, as in 1.2 - 1.4";
const ALTERNATIVES: &str = "write || between alternatives";
const BOTH: &str = "write a blank or a comma between conditions that must both hold";
const OPERATOR: &str = "write one operator before a version, without a blank inside it";
const NUMBERS: &str = "a version has one to three numbers with single dots between them";
const QUOTES: &str = "leave quotes and brackets out";
const NEWEST: &str = "write * for the newest release";

/// Words that users write in place of a version, in any case.
const WORDS: [(&str, &str); 7] = [
    ("latest", NEWEST),
    ("stable", NEWEST),
    ("newest", NEWEST),
    ("any", "write * for any release"),
    ("and", BOTH),
    ("or", ALTERNATIVES),
    ("to", RANGE),
];

/// First characters of a token in place of a version.
const BEFORE_VERSION: [(&[char], &str); 7] = [
    (&['V'], "write the v before a version as a small letter"),
    (&['=', '>', '<', '!', '~', '^'], OPERATOR),
    (&['&'], BOTH),
    (
        &[','],
        "leave the comma out where no condition is on both sides of it",
    ),
    (&['"', '\'', '(', '[', '{'], QUOTES),
    (&['-'], RANGE),
    (&['–', '—'], DASH),
];

/// First characters of a token directly after a version.
const AFTER_VERSION: [(&[char], &str); 7] = [
    (&['.'], NUMBERS),
    (&['&'], BOTH),
    (&['|'], ALTERNATIVES),
    (
        &['_'],
        "a version has no underscore; where a registry tag has one, the version has +",
    ),
    (&['"', '\'', ')', ']', '}'], QUOTES),
    (&['-'], RANGE),
    (&['–', '—'], DASH),
];

/// How to fix the probable mistake at `token`, if it is a known one. `in_range`: a hyphen range starts there.
pub(super) fn hint(expected: Expected, token: &str, in_range: bool) -> Option<&'static str> {
    if in_range {
        return Some(match expected {
            Expected::Version => "a range takes no operator",
            Expected::Separator => "write a comma before a range, as in 3, 1 - 2",
        });
    }
    if token.contains(|c: char| !c.is_ascii() && c.is_whitespace()) {
        return Some("only plain blanks may separate conditions; this one is of another kind");
    }
    let starts: &[(&[char], &'static str)] = match expected {
        Expected::Version => &BEFORE_VERSION,
        Expected::Separator => &AFTER_VERSION,
    };
    let word = WORDS
        .iter()
        .find(|(word, _)| token.eq_ignore_ascii_case(word))
        .map(|&(_, advice)| advice);
    word.or_else(|| {
        starts
            .iter()
            .find(|(characters, _)| token.starts_with(*characters))
            .map(|&(_, advice)| advice)
    })
}
