//! Ages, as kubectl shows them.

use jiff::Timestamp;

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
const YEAR: i64 = 365 * DAY;

/// The time between two points, in at most two units: `90s`, `5m30s`, `3d4h`. Nothing is negative: clocks differ.
pub fn age(since: Timestamp, now: Timestamp) -> String {
    seconds(now.as_second() - since.as_second())
}

/// A number of seconds, in at most two units.
pub fn seconds(seconds: i64) -> String {
    let seconds = seconds.max(0);
    match seconds {
        0..120 => format!("{seconds}s"),
        120..600 => two(seconds, MINUTE, "m", 1, "s"),
        600..10_800 => format!("{}m", seconds / MINUTE),
        10_800..28_800 => two(seconds, HOUR, "h", MINUTE, "m"),
        28_800..172_800 => format!("{}h", seconds / HOUR),
        172_800..691_200 => two(seconds, DAY, "d", HOUR, "h"),
        691_200..63_072_000 => format!("{}d", seconds / DAY),
        63_072_000..252_288_000 => two(seconds, YEAR, "y", DAY, "d"),
        _ => format!("{}y", seconds / YEAR),
    }
}

/// A number in a unit and in a smaller one, which is left out if it is zero.
fn two(seconds: i64, large: i64, large_unit: &str, small: i64, small_unit: &str) -> String {
    match seconds % large / small {
        0 => format!("{}{large_unit}", seconds / large),
        rest => format!("{}{large_unit}{rest}{small_unit}", seconds / large),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_those_of_kubectl() {
        for (given, expected) in [
            (-5, "0s"),
            (119, "119s"),
            (120, "2m"),
            (125, "2m5s"),
            (600, "10m"),
            (10_799, "179m"),
            (10_800, "3h"),
            (11_000, "3h3m"),
            (28_800, "8h"),
            (172_800, "2d"),
            (180_000, "2d2h"),
            (691_200, "8d"),
            (63_072_000, "2y"),
            (65_000_000, "2y22d"),
            (300_000_000, "9y"),
        ] {
            assert_eq!(seconds(given), expected, "{given}");
        }
    }
}
