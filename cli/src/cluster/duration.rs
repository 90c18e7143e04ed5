//! Durations in flags.

use std::time::Duration;

/// A Go duration such as `1h30m`, as the flags of the processes have them.
///
/// # Errors
/// If the text is no duration.
pub fn duration(text: &str) -> Result<Duration, String> {
    go_formats::duration::parse(text).map_err(|error| error.to_string())
}

/// How long to wait: a duration that is not zero.
///
/// # Errors
/// If the text is no duration, or is zero.
pub fn timeout(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err("must be positive, such as 5m".to_owned()),
        duration => Ok(duration),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_is_a_duration_that_is_not_zero() {
        assert_eq!(duration("0s"), Ok(Duration::ZERO));
        assert_eq!(timeout("1m30s"), Ok(Duration::from_secs(90)));
        assert_eq!(timeout("0s"), Err("must be positive, such as 5m".to_owned()));
        assert_eq!(timeout("5"), duration("5"));
        assert!(duration("5").is_err());
    }
}
