//! Durations.

use super::{
    super::value::Value,
    args::{Function, exactly},
};

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

pub fn find(name: &str) -> Option<Function> {
    Some(match name {
        "duration" => exactly(1, |c| Ok(format_seconds(seconds(&c.any(0))).into())),
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

/// A duration of whole seconds as Go prints it.
fn format_seconds(seconds: i64) -> String {
    let sign = if seconds < 0 { "-" } else { "" };
    let size = seconds.unsigned_abs();
    let (hours, minutes, seconds) = (size / HOUR, size % HOUR / MINUTE, size % MINUTE);
    match size {
        HOUR.. => format!("{sign}{hours}h{minutes}m{seconds}s"),
        MINUTE.. => format!("{sign}{minutes}m{seconds}s"),
        _ => format!("{sign}{seconds}s"),
    }
}

/// The absolute length of a duration.
fn nanoseconds(value: &Value) -> u128 {
    match value {
        Value::Int64(number) => number.unsigned_abs().into(),
        Value::Str(text) => {
            let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
            go_duration::magnitude(unsigned).unwrap_or_default().as_nanos()
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
