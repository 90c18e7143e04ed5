//! Timeouts of Helm.

use std::time::Duration;

/// That of Helm.
pub const DEFAULT: Duration = Duration::from_mins(5);

/// The seconds of `helm.timeoutSeconds`, which is about hooks if there is a `lifecycle.wait`; 0 for its default.
pub fn of_hooks(timeout: Duration) -> i64 {
    if timeout == DEFAULT {
        return 0;
    }
    i64::try_from(whole_seconds(timeout)).unwrap_or(i64::MAX)
}

/// Seconds, rounded up.
pub fn whole_seconds(duration: Duration) -> u64 {
    let started = u64::from(duration.subsec_nanos() > 0);
    duration.as_secs().saturating_add(started)
}
