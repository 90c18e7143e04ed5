//! The style in which a string is emitted.

use std::fmt::Write as _;

use bounded_text::is_control;

use super::resolve::{Resolved, resolve};

/// The style of a scalar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    Plain,
    Single,
    Double,
    /// `|`, and the text on separate lines.
    Literal,
}

/// Which readers have to read what is emitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readers {
    /// `go-yaml` 2: the style is the one that it chooses.
    Go,
    /// Those of other programs and languages too, such as `PyYAML` and yq.
    All,
}

/// The style of a text. `is_key` is set for keys on the same line as their value.
pub fn style(text: &str, is_key: bool, readers: Readers) -> Style {
    // `go-yaml` writes it without quotes and reads it as a merge key.
    if text == "<<" || (readers == Readers::All && is_read_differently(text)) {
        return Style::Double;
    }
    let shape = Shape::of(text);
    if text.contains('\n') || (is_key && shape.has_breaks) {
        return if is_key || shape.has_trailing_space || shape.has_space_before_break || shape.has_special {
            Style::Double
        } else {
            Style::Literal
        };
    }
    if resolve(text) != Resolved::Text || is_base_60(text) {
        return Style::Double;
    }
    let allows_single = !shape.has_special;
    if allows_single
        && !shape.has_breaks
        && !shape.has_leading_space
        && !shape.has_trailing_space
        && !shape.has_indicators
    {
        Style::Plain
    } else if allows_single {
        Style::Single
    } else {
        Style::Double
    }
}

/// The properties of a text that its style depends on.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "independent properties of one text")]
struct Shape {
    has_indicators: bool,
    has_breaks: bool,
    has_special: bool,
    has_leading_space: bool,
    has_trailing_space: bool,
    has_space_before_break: bool,
}

impl Shape {
    fn of(text: &str) -> Self {
        let mut shape = Self {
            has_indicators: text.starts_with("---") || text.starts_with("..."),
            has_leading_space: text.starts_with(' ') || text.starts_with(is_break),
            has_trailing_space: text.ends_with(' '),
            ..Self::default()
        };
        // The start of the text counts as white space.
        let mut before = ' ';
        let mut chars = text.chars().peekable();
        let mut is_first = true;
        while let Some(c) = chars.next() {
            let is_followed_by_space = chars.peek().is_none_or(|next| matches!(next, ' ' | '\t'));
            shape.has_indicators |= match c {
                '#' | ',' | '[' | ']' | '{' | '}' | '&' | '*' | '!' | '|' | '>' | '\'' | '"' | '%' | '@'
                | '`'
                    if is_first =>
                {
                    true
                }
                '?' | '-' if is_first => is_followed_by_space,
                ':' => is_followed_by_space,
                '#' => matches!(before, ' ' | '\t') || is_break(before),
                _ => false,
            };
            shape.has_special |= !is_printable(c);
            shape.has_breaks |= is_break(c);
            shape.has_space_before_break |= is_break(c) && before == ' ' && !is_first;
            before = c;
            is_first = false;
        }
        shape
    }
}

/// Whether a character is a line break. Only `\n` leads to the literal style.
pub fn is_break(c: char) -> bool {
    matches!(c, '\r' | '\n' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// Whether `go-yaml` 2 emits a character without an escape: none beyond the first 65,536 code points.
pub fn is_printable(c: char) -> bool {
    matches!(c, '\n' | ' '..='~' | '\u{a0}'..='\u{fffd}') && c != '\u{feff}'
}

/// Other readers parse `1:30` as 90. `[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?`
fn is_base_60(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let Some((first, rest)) = unsigned.split_once(':') else {
        return false;
    };
    let (rest, fraction) = rest.split_once('.').unwrap_or((rest, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_');
    let part = |text: &str| matches!(text.as_bytes(), [b'0'..=b'9'] | [b'0'..=b'5', b'0'..=b'9']);
    first.starts_with(|c: char| c.is_ascii_digit())
        && digits(first)
        && digits(fraction)
        && rest.split(':').all(part)
}

/// Whether readers, and people at a terminal, take a text without quotes, or some of its characters, for different things.
fn is_read_differently(text: &str) -> bool {
    text == "="
        || is_number_elsewhere(text)
        || is_date_elsewhere(text)
        || text.chars().any(|c| c != '\n' && (is_break(c) || is_control(c)))
}

/// A number, or something that is one for YAML 1.1 but for its digits, such as `0b_`: readers for Python fail.
/// `[-+]?(0[xob][0-9a-f_]*|[0-9_]*\.?[0-9_]*(e[-+]?[0-9_]*)?)`, with a digit
fn is_number_elsewhere(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    if !unsigned
        .trim_start_matches('.')
        .starts_with(|c: char| c.is_ascii_digit())
    {
        return false;
    }
    let of = |text: &str, is_digit: fn(&u8) -> bool| text.bytes().all(|byte| byte == b'_' || is_digit(&byte));
    let prefixed = ["0x", "0X", "0o", "0O", "0b", "0B"].map(|prefix| unsigned.strip_prefix(prefix));
    if let Some(digits) = prefixed.into_iter().flatten().next() {
        return of(digits, u8::is_ascii_hexdigit);
    }
    let (mantissa, exponent) = unsigned.split_once(['e', 'E']).unwrap_or((unsigned, ""));
    let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
    let (whole, decimals) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    [whole, decimals, exponent]
        .iter()
        .all(|text| of(text, u8::is_ascii_digit))
}

/// What looks like a date, whether it is one or not: readers for Python fail for `2026-13-01`.
/// `[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([Tt \t].*)?`
fn is_date_elsewhere(text: &str) -> bool {
    let mut parts = text.splitn(3, '-');
    let (Some(year), Some(month), Some(rest)) = (parts.next(), parts.next(), parts.next()) else {
        return false;
    };
    let day = rest.split(['T', 't', ' ', '\t']).next().unwrap_or_default();
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    year.len() == 4
        && digits(year)
        && [month, day]
            .iter()
            .all(|text| matches!(text.len(), 1 | 2) && digits(text))
}

/// Escapes a character for a double-quoted string.
pub fn escape(c: char) -> String {
    let mut escape = String::from("\\");
    match c {
        '\0' => escape.push('0'),
        '\u{7}' => escape.push('a'),
        '\u{8}' => escape.push('b'),
        '\t' => escape.push('t'),
        '\n' => escape.push('n'),
        '\u{b}' => escape.push('v'),
        '\u{c}' => escape.push('f'),
        '\r' => escape.push('r'),
        '\u{1b}' => escape.push('e'),
        '"' | '\\' => escape.push(c),
        '\u{85}' => escape.push('N'),
        '\u{a0}' => escape.push('_'),
        '\u{2028}' => escape.push('L'),
        '\u{2029}' => escape.push('P'),
        c => {
            // Writing into a string cannot fail.
            _ = match u32::from(c) {
                code @ ..=0xff => write!(escape, "x{code:02X}"),
                code @ ..=0xffff => write!(escape, "u{code:04X}"),
                code => write!(escape, "U{code:08X}"),
            };
        }
    }
    escape
}
