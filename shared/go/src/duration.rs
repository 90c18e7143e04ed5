//! Durations as Go's `time.ParseDuration` reads them.

use std::time::Duration;

use thiserror::Error;

/// The longest duration: what fits into Go's 64-bit nanoseconds, in whole hours.
pub const MAX: Duration = Duration::from_hours(2_562_047);

/// Why a text is not a valid duration.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum DurationError {
    /// A number is missing.
    #[error("not a Go duration: numbers with a unit are expected, such as 15m or 1h30m")]
    NoNumber,
    /// A number without a unit.
    #[error("a number lacks its unit: one of ns, us, µs, ms, s, m, h")]
    NoUnit,
    /// A unit that Go does not know.
    #[error("unknown unit: use ns, us, µs, ms, s, m or h (24h for a day; d and w are not supported)")]
    UnknownUnit,
    /// Less than zero.
    #[error("must not be negative")]
    Negative,
    /// More than [`MAX`].
    #[error("too long; at most 2562047h")]
    TooLong,
}

/// Parses a Go duration, such as `300ms`, `1.5h` or `1h30m`, that is not negative and at most [`MAX`].
///
/// # Errors
/// If the text is not such a duration; `-0s` is zero, as in Go. Never panics, for texts of any length.
pub fn parse(text: &str) -> Result<Duration, DurationError> {
    let unsigned = match text.strip_prefix('-') {
        Some(rest) => match magnitude(rest)? {
            // Go parses -0s as 0.
            Duration::ZERO => return Ok(Duration::ZERO),
            _ => return Err(DurationError::Negative),
        },
        None => text.strip_prefix('+').unwrap_or(text),
    };
    magnitude(unsigned)
}

/// Parses a Go duration without a sign, like [`parse`]: for a program that treats the sign itself.
///
/// # Errors
/// Those of [`parse`] without [`DurationError::Negative`]; a sign is [`DurationError::NoNumber`].
pub fn magnitude(text: &str) -> Result<Duration, DurationError> {
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    if text.is_empty() {
        return Err(DurationError::NoNumber);
    }
    let mut rest = text;
    let mut nanos: u128 = 0;
    while !rest.is_empty() {
        let (whole, after) = digits(rest);
        let (fraction, after) = after.strip_prefix('.').map_or(("", after), digits);
        if whole.is_empty() && fraction.is_empty() {
            return Err(DurationError::NoNumber);
        }
        let (unit, after) = unit(after)?;
        nanos = nanos.saturating_add(scaled(whole, fraction, unit)?);
        rest = after;
    }
    let seconds = u64::try_from(nanos / 1_000_000_000).map_err(|_| DurationError::TooLong)?;
    let subsecond = u32::try_from(nanos % 1_000_000_000).unwrap_or_default();
    let duration = Duration::new(seconds, subsecond);
    if duration > MAX {
        Err(DurationError::TooLong)
    } else {
        Ok(duration)
    }
}

/// Splits off the decimal digits in front.
fn digits(text: &str) -> (&str, &str) {
    let end = text.bytes().take_while(u8::is_ascii_digit).count();
    text.split_at(end)
}

/// Splits off the unit in front and returns its nanoseconds.
fn unit(text: &str) -> Result<(u64, &str), DurationError> {
    let end = text
        .find(|c: char| c == '.' || c.is_ascii_digit())
        .unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    let nanos = match name {
        "" => return Err(DurationError::NoUnit),
        "ns" => 1,
        // Both the micro sign and the Greek letter.
        "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60 * 1_000_000_000,
        "h" => 3_600 * 1_000_000_000,
        _ => return Err(DurationError::UnknownUnit),
    };
    Ok((nanos, rest))
}

/// `whole.fraction` units in nanoseconds, rounded down as Go does.
fn scaled(whole: &str, fraction: &str, unit: u64) -> Result<u128, DurationError> {
    let too_long = |_| DurationError::TooLong;
    let whole: u64 = if whole.is_empty() {
        0
    } else {
        whole.parse().map_err(too_long)?
    };
    // Digits beyond these are below a nanosecond even for hours.
    let fraction = fraction.get(..15).unwrap_or(fraction);
    let parts: u64 = if fraction.is_empty() {
        0
    } else {
        fraction.parse().map_err(too_long)?
    };
    let scale = 10u128.pow(u32::try_from(fraction.len()).unwrap_or_default());
    Ok(u128::from(whole) * u128::from(unit) + u128::from(parts) * u128::from(unit) / scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_parsed_as_in_go() {
        for (text, nanos) in [
            ("0", 0),
            ("0s", 0),
            ("-0s", 0),
            ("15s", 15_000_000_000),
            ("+5m", 300_000_000_000),
            ("2h", 7_200_000_000_000),
            ("1h30m", 5_400_000_000_000),
            ("300ms", 300_000_000),
            ("1.5h", 5_400_000_000_000),
            (".5s", 500_000_000),
            ("1.s", 1_000_000_000),
            ("100\u{b5}s", 100_000),
            ("100\u{3bc}s", 100_000),
            ("1h15m30.918273645s", 4_530_918_273_645),
            ("0.9999999999999999999999h", 3_599_999_999_999),
            ("2562047h", 2_562_047 * 3_600_000_000_000),
        ] {
            assert_eq!(parse(text).map(|d| d.as_nanos()), Ok(nanos), "{text}");
        }
    }

    #[test]
    fn invalid_durations_are_rejected() {
        use DurationError::{Negative, NoNumber, NoUnit, TooLong, UnknownUnit};
        for (text, error) in [
            ("", NoNumber),
            ("abc", NoNumber),
            ("s", NoNumber),
            (".s", NoNumber),
            ("-", NoNumber),
            ("--1s", NoNumber),
            (" 1s", NoNumber),
            ("5", NoUnit),
            ("1h5", NoUnit),
            ("1d", UnknownUnit),
            ("1w", UnknownUnit),
            ("1y", UnknownUnit),
            ("7d12h", UnknownUnit),
            ("5x", UnknownUnit),
            ("1s ", UnknownUnit),
            ("-1h", Negative),
            ("2562048h", TooLong),
            ("5000000h", TooLong),
            ("99999999999999999999h", TooLong),
        ] {
            assert_eq!(parse(text), Err(error), "{text}");
        }
    }
}
