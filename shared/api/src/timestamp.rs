//! Times in statuses.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

/// A time in the format of the API: RFC 3339, in whole seconds.
pub fn timestamp(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// The time from `now` until `then`; zero if it is over.
pub fn until(now: Timestamp, then: Timestamp) -> Duration {
    Duration::try_from(then.duration_since(now)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_until_a_past_one_is_zero() {
        let at = |second| Timestamp::from_second(second).unwrap();
        assert_eq!(until(at(10), at(12)), Duration::from_secs(2));
        assert_eq!(until(at(10), at(10)), Duration::ZERO);
        assert_eq!(until(at(10), at(9)), Duration::ZERO);
    }
}
