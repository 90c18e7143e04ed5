//! Resolves plain scalars to types.

use crate::number;

/// The type and value of a scalar.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Resolved {
    Null,
    Bool(bool),
    Int(i64),
    /// Too large for `Int`.
    Unsigned(u64),
    Float(f64),
    /// A timestamp. It is read as a string, but emitted with quotes.
    Timestamp,
    Text,
}

/// Resolves a scalar without quotes and tag.
pub fn resolve(text: &str) -> Resolved {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Resolved::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            return Resolved::Bool(true);
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            return Resolved::Bool(false);
        }
        ".nan" | ".NaN" | ".NAN" => return Resolved::Float(f64::NAN),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => return Resolved::Float(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => return Resolved::Float(f64::NEG_INFINITY),
        _ => {}
    }
    match text.as_bytes().first() {
        Some(b'.') => number::parse_float(text).map_or(Resolved::Text, Resolved::Float),
        Some(b'0'..=b'9' | b'+' | b'-') => numeric(text),
        _ => Resolved::Text,
    }
}

fn numeric(text: &str) -> Resolved {
    if is_timestamp(text) {
        return Resolved::Timestamp;
    }
    let plain = text.replace('_', "");
    if let Some(number) = number::parse_int(&plain) {
        return Resolved::Int(number);
    }
    if let Some(number) = number::parse_uint(&plain) {
        return Resolved::Unsigned(number);
    }
    if is_float(&plain)
        && let Some(number) = number::parse_float(&plain)
    {
        return Resolved::Float(number);
    }
    Resolved::Text
}

/// `[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`
fn is_float(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (
            mantissa,
            Some(exponent.strip_prefix(['+', '-']).unwrap_or(exponent)),
        ),
        None => (unsigned, None),
    };
    let (whole, decimals) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    digits(whole)
        && digits(decimals)
        && !(whole.is_empty() && decimals.is_empty())
        && exponent.is_none_or(|exponent| !exponent.is_empty() && digits(exponent))
}

/// A date, optionally with a time.
fn is_timestamp(text: &str) -> bool {
    let mut parts = text.splitn(3, '-');
    let (Some(year), Some(month), Some(rest)) = (parts.next(), parts.next(), parts.next()) else {
        return false;
    };
    let length = rest.bytes().take_while(u8::is_ascii_digit).count();
    let Some((day, time)) = rest.split_at_checked(length) else {
        return false;
    };
    year.len() == 4
        && [(year, 0, 9999), (month, 1, 12), (day, 1, days(year, month))]
            .iter()
            .all(|(text, min, max)| (*year == **text || text.len() <= 2) && is_between(text, *min, *max))
        && (time.is_empty() || is_time(time))
}

fn days(year: &str, month: &str) -> u32 {
    let (year, month): (u32, u32) = (year.parse().unwrap_or(1), month.parse().unwrap_or(1));
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) => 29,
        2 => 28,
        _ => 31,
    }
}

fn is_time(text: &str) -> bool {
    let (clock, zone) = if let Some(clock) = text.strip_prefix(' ') {
        (clock, None)
    } else if let Some(clock) = text.strip_prefix(['T', 't']) {
        match clock
            .find(['Z', '+', '-'])
            .and_then(|at| clock.split_at_checked(at))
        {
            Some((clock, zone)) => (clock, Some(zone)),
            None => return false,
        }
    } else {
        return false;
    };
    let (clock, fraction) = clock
        .split_once(['.', ','])
        .map_or((clock, None), |(c, f)| (c, Some(f)));
    let fields: Vec<_> = clock.split(':').collect();
    let is_clock = match fields.as_slice() {
        [hours, minutes, seconds] => [(hours, 23), (minutes, 59), (seconds, 59)]
            .iter()
            .all(|(text, max)| text.len() <= 2 && is_between(text, 0, *max)),
        _ => false,
    };
    let is_zone = zone.is_none_or(|zone| zone == "Z" || is_offset(zone));
    is_clock
        && is_zone
        && fraction.is_none_or(|f| !f.is_empty() && f.bytes().all(|byte| byte.is_ascii_digit()))
}

fn is_offset(zone: &str) -> bool {
    let fields = zone
        .strip_prefix(['+', '-'])
        .and_then(|zone| zone.split_once(':'));
    fields.is_some_and(|(hours, minutes)| {
        hours.len() == 2 && minutes.len() == 2 && is_between(hours, 0, 24) && is_between(minutes, 0, 60)
    })
}

fn is_between(text: &str, min: u32, max: u32) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
        && text
            .parse()
            .is_ok_and(|number: u32| (min..=max).contains(&number))
}
