//! Durations in flags.

use std::time::Duration;

/// A Go duration such as `1h30m`, as the flags of the processes have them.
pub fn duration(text: &str) -> Result<Duration, String> {
    go_duration::parse(text).map_err(|error| error.to_string())
}
