//! Retries with pauses that become longer, as ones with an interval.

use std::time::Duration;

use helmops_api::lifecycle::ActionPolicy;

use super::timeout::whole_seconds;

/// As often as a HelmOp can have it.
pub const MAX_RETRIES: i64 = 1_000;
/// The longest interval that is written: with more retries, the first pauses are shorter.
const LONGEST_INTERVAL: Duration = Duration::from_mins(1);

/// The pauses between attempts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pauses {
    pub first: Duration,
    /// How many times as long as the one before it each is.
    pub factor: f64,
    pub longest: Duration,
}

impl Pauses {
    /// The mean of the pauses after so many failures, in whole seconds: then all retries take as long.
    pub fn interval(self, retries: i64) -> Option<String> {
        let count = u32::try_from(retries).ok().filter(|count| *count > 0)?;
        let longest = self.longest.as_secs_f64();
        let (mut pause, mut sum) = (self.first.as_secs_f64().min(longest), 0.0);
        for _ in 0..count.min(u32::try_from(MAX_RETRIES).unwrap_or(u32::MAX)) {
            sum += pause;
            pause = (pause * self.factor).min(longest);
        }
        let mean = Duration::try_from_secs_f64(sum / f64::from(count)).unwrap_or(LONGEST_INTERVAL);
        Some(format!("{}s", whole_seconds(mean.min(LONGEST_INTERVAL)).max(1)))
    }
}

/// Sets how often an action is tried again. A negative number is an endless one; returns whether it is.
pub fn retry(policy: &mut ActionPolicy, retries: i64, pauses: Pauses) -> bool {
    let is_endless = retries < 0;
    policy.retries = if is_endless { MAX_RETRIES } else { retries };
    policy.retry_interval = pauses.interval(policy.retries);
    is_endless
}

/// What a note says about endless retries.
pub fn endless(tool: &str) -> String {
    format!("{tool} retries without end: these are {MAX_RETRIES} retries, and then one attempt an hour")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_retries_take_as_long_as_before() {
        let flux = Pauses {
            first: Duration::from_millis(750),
            factor: 2.0,
            longest: Duration::from_mins(15),
        };
        let argo = Pauses {
            first: Duration::from_secs(5),
            factor: 2.0,
            longest: Duration::from_mins(3),
        };
        for (pauses, retries, expected) in [
            (flux, 0, None),
            (flux, 1, Some("1s")),
            (flux, 2, Some("2s")),
            (flux, 3, Some("2s")),
            (flux, 5, Some("5s")),
            (flux, 8, Some("24s")),
            (flux, 10, Some("60s")),
            (flux, MAX_RETRIES, Some("60s")),
            (argo, 1, Some("5s")),
            (argo, 5, Some("31s")),
            (Pauses { factor: 0.0, ..argo }, 5, Some("1s")),
            (
                Pauses {
                    factor: f64::MAX,
                    ..argo
                },
                2,
                Some("60s"),
            ),
        ] {
            assert_eq!(pauses.interval(retries).as_deref(), expected, "{retries}");
        }
    }
}
