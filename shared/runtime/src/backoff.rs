//! The delays before a retry.

use std::time::Duration;

use helmops_fair::ExponentialBackoff;

/// After a conflict with another client: it is retried as soon as the caches have caught up.
pub const CONFLICT: ExponentialBackoff = ExponentialBackoff {
    initial_delay: Duration::from_millis(100),
    max_delay: Duration::from_secs(5),
};

/// While an API server is away: after its return nothing waits for long.
pub const OUTAGE: ExponentialBackoff = ExponentialBackoff {
    initial_delay: Duration::from_secs(1),
    max_delay: Duration::from_secs(5),
};

/// After errors that usually resolve themselves.
pub const TRANSIENT: ExponentialBackoff = ExponentialBackoff {
    initial_delay: Duration::from_secs(1),
    max_delay: Duration::from_mins(2),
};

/// After errors that last for a while.
pub const SLOW: ExponentialBackoff = ExponentialBackoff {
    initial_delay: Duration::from_secs(5),
    max_delay: Duration::from_mins(5),
};

/// After errors of attempts that take seconds of CPU time.
pub const EXPENSIVE: ExponentialBackoff = ExponentialBackoff {
    initial_delay: Duration::from_mins(1),
    max_delay: Duration::from_mins(5),
};
