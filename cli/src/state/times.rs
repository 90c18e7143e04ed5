//! Times of the API in words.

use jiff::Timestamp;

use crate::terminal::age::{age, seconds};

/// The age of a time of the API; empty if it is none.
pub fn since(time: &str, now: Timestamp) -> String {
    time.parse().map_or_else(|_| String::new(), |time| age(time, now))
}

/// Such as `3m ago` or `in 4m`; empty if it is no time.
pub fn relative(time: &str, now: Timestamp) -> String {
    let Ok(time) = time.parse::<Timestamp>() else {
        return String::new();
    };
    if time > now {
        format!("in {}", seconds(time.as_second() - now.as_second()))
    } else {
        format!("{} ago", age(time, now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_before_or_after_now() {
        let now: Timestamp = "2026-01-01T12:00:00Z".parse().unwrap();
        for (time, expected) in [
            ("2026-01-01T11:57:00Z", "3m ago"),
            ("2026-01-01T12:04:10Z", "in 4m10s"),
            ("2026-01-01T12:00:00Z", "0s ago"),
            ("", ""),
            ("yesterday", ""),
        ] {
            assert_eq!(relative(time, now), expected, "{time}");
        }
        assert_eq!(since("2026-01-01T11:57:00Z", now), "3m");
    }
}
