//! Durations.

use go_formats::duration;

use super::{
    super::value::Value,
    args::{Function, exactly},
};

/// In nanoseconds.
const SECOND: i64 = 1_000_000_000;
/// In seconds.
const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

pub fn find(name: &str) -> Option<Function> {
    Some(match name {
        "duration" => exactly(1, |c| {
            // Too many seconds wrap around, as in Go.
            Ok(format(seconds(&c.any(0)).wrapping_mul(SECOND)).into())
        }),
        "durationRound" => exactly(1, |c| Ok(format_rounded(nanoseconds(&c.any(0))).into())),
        _ => return None,
    })
}

/// Seconds as `sprig` accepts them: a number in a template is an `int`, which counts as 0.
fn seconds(value: &Value) -> i64 {
    match value {
        Value::Int64(number) => *number,
        Value::Str(text) => text.parse().unwrap_or_default(),
        _ => 0,
    }
}

/// A duration in nanoseconds as Go prints it.
fn format(nanoseconds: i64) -> String {
    let sign = if nanoseconds < 0 { "-" } else { "" };
    let nanoseconds = nanoseconds.unsigned_abs();
    let (size, rest) = (
        nanoseconds / SECOND.unsigned_abs(),
        nanoseconds % SECOND.unsigned_abs(),
    );
    let (hours, minutes, seconds) = (size / HOUR, size % HOUR / MINUTE, size % MINUTE);
    let fraction = format!(".{rest:09}");
    let fraction = fraction.trim_end_matches('0').trim_end_matches('.');
    match size {
        0 if rest > 0 => format!("{sign}{}", below_a_second(rest)),
        HOUR.. => format!("{sign}{hours}h{minutes}m{seconds}{fraction}s"),
        MINUTE.. => format!("{sign}{minutes}m{seconds}{fraction}s"),
        _ => format!("{sign}{seconds}{fraction}s"),
    }
}

/// Fewer nanoseconds than a second, in the largest unit.
fn below_a_second(nanoseconds: u64) -> String {
    let (unit, decimals, name) = match nanoseconds {
        0..1_000 => (1, 0, "ns"),
        1_000..1_000_000 => (1_000, 3, "µs"),
        _ => (1_000_000, 6, "ms"),
    };
    let (whole, rest) = (nanoseconds / unit, nanoseconds % unit);
    let fraction = format!(".{rest:0decimals$}");
    let fraction = fraction.trim_end_matches('0').trim_end_matches('.');
    format!("{whole}{fraction}{name}")
}

/// The absolute length of a duration.
fn nanoseconds(value: &Value) -> u128 {
    match value {
        Value::Int64(number) => number.unsigned_abs().into(),
        Value::Str(text) => {
            let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
            duration::magnitude(unsigned).unwrap_or_default().as_nanos()
        }
        _ => 0,
    }
}

/// The duration in the largest unit that is shorter than it.
fn format_rounded(nanoseconds: u128) -> String {
    let units = [
        (365 * DAY, "y"),
        (30 * DAY, "mo"),
        (DAY, "d"),
        (HOUR, "h"),
        (MINUTE, "m"),
        (1, "s"),
    ];
    let found = units.into_iter().find_map(|(unit, name)| {
        let unit = u128::from(unit) * 1_000_000_000;
        (nanoseconds > unit).then(|| format!("{}{name}", nanoseconds / unit))
    });
    found.unwrap_or_else(|| "0s".to_owned())
}
