//! Scans a version at the start of a text. Used for versions, whose numbers are digits, and for constraints, whose numbers
//! may be wildcards.

/// The parts of a version, without their separators (`.`, `-`, `+`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scanned<'a> {
    /// The whole version, including the `v`.
    pub(crate) whole: &'a str,
    pub(crate) major: &'a str,
    pub(crate) minor: Option<&'a str>,
    pub(crate) patch: Option<&'a str>,
    pub(crate) pre: Option<&'a str>,
    pub(crate) build: Option<&'a str>,
}

/// The longest version that `text` starts with, and the rest of the text. `numeral` defines the characters of a number.
pub(crate) fn version(text: &str, numeral: fn(char) -> bool) -> Option<(Scanned<'_>, &str)> {
    let (major, rest) = run(text.strip_prefix('v').unwrap_or(text), numeral)?;
    let (minor, rest) = optional(rest, '.', |rest| run(rest, numeral));
    let (patch, rest) = optional(rest, '.', |rest| run(rest, numeral));
    let (pre, rest) = optional(rest, '-', identifiers);
    let (build, rest) = optional(rest, '+', identifiers);
    let whole = before(text, rest);
    Some((
        Scanned {
            whole,
            major,
            minor,
            patch,
            pre,
            build,
        },
        rest,
    ))
}

/// The part after `mark`. Consumes nothing unless `mark` and a part are there.
fn optional<'a>(
    text: &'a str,
    mark: char,
    part: impl Fn(&'a str) -> Option<(&'a str, &'a str)>,
) -> (Option<&'a str>, &'a str) {
    match text.strip_prefix(mark).and_then(part) {
        Some((found, rest)) => (Some(found), rest),
        None => (None, text),
    }
}

/// Identifiers joined by dots. A dot without an identifier after it is not consumed.
fn identifiers(text: &str) -> Option<(&str, &str)> {
    let identifier = |text| run(text, |c| c.is_ascii_alphanumeric() || c == '-');
    let (_, mut rest) = identifier(text)?;
    while let Some((_, after)) = rest.strip_prefix('.').and_then(identifier) {
        rest = after;
    }
    Some((before(text, rest), rest))
}

/// One or more characters of a class.
fn run(text: &str, class: fn(char) -> bool) -> Option<(&str, &str)> {
    let rest = text.trim_start_matches(class);
    Some((before(text, rest), rest)).filter(|(found, _)| !found.is_empty())
}

/// `text` without its end `rest`.
fn before<'a>(text: &'a str, rest: &str) -> &'a str {
    text.strip_suffix(rest).unwrap_or(text)
}
