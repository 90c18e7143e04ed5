//! The times at which a repository is polled.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

/// Times, `interval` apart.
///
/// They are counted from the epoch and shifted by a phase that is a hash of the repository: HelmOps with the same repository
/// and interval share their times, and so one request; those with a multiple of the interval share some; other
/// repositories are polled at other times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// In nanoseconds, at least one.
    interval: i128,
    phase: i128,
}

impl Schedule {
    /// The times at which a HelmOp is polled; `None` if polling is off. A shorter interval is raised to the minimum. `repo` is the
    /// first repository that it needs, if it needs any.
    pub fn of_helmop(polling: Option<Duration>, min_interval: Duration, repo: Option<&str>) -> Option<Self> {
        polling.map(|interval| Self::new(interval.max(min_interval), repo.unwrap_or_default()))
    }

    /// The times for a repository.
    pub fn new(interval: Duration, repo: &str) -> Self {
        let interval = nanos(interval).max(1);
        Self {
            interval,
            phase: i128::from(hash(repo)).rem_euclid(interval),
        }
    }

    /// The last scheduled time that is not after `time`.
    pub fn last(self, time: Timestamp) -> Timestamp {
        let time = time.as_nanosecond();
        timestamp(time - (time - self.phase).rem_euclid(self.interval))
    }

    /// The first scheduled time after `time`.
    pub fn next(self, time: Timestamp) -> Timestamp {
        timestamp(self.last(time).as_nanosecond().saturating_add(self.interval))
    }

    /// When to poll again after a poll that started at `start`: the first scheduled time that is not too soon after it.
    ///
    /// Too soon is less than half an interval, so that a HelmOp that polled late polls again with the others. It is at least
    /// a second, because the status has whole seconds.
    pub fn next_after_poll(self, start: Timestamp) -> Timestamp {
        let soon = (self.interval / 2).max(nanos(Duration::from_secs(1)));
        self.next(timestamp(start.as_nanosecond().saturating_add(soon)))
    }
}

fn nanos(duration: Duration) -> i128 {
    i128::try_from(duration.as_nanos()).unwrap_or(i128::MAX)
}

/// A time that a timestamp cannot represent is the maximum: it is never reached.
fn timestamp(nanos: i128) -> Timestamp {
    Timestamp::from_nanosecond(nanos).unwrap_or(Timestamp::MAX)
}

/// FNV-1a: it only needs to be the same on every machine and in every release.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    proptest! {
        #[test]
        fn scheduled_times_are_an_interval_apart(
            interval in 1_u64..100_000_000,
            repo in "[a-z]{0,8}",
            time in 1_700_000_000_i64..1_900_000_000,
        ) {
            let interval = Duration::from_secs(interval);
            let schedule = Schedule::new(interval, &repo);
            let (last, next) = (schedule.last(at(time)), schedule.next(at(time)));
            prop_assert!(last <= at(time) && at(time) < next);
            prop_assert_eq!(next.duration_since(last), interval.try_into().unwrap());
            prop_assert_eq!(schedule.last(last), last, "a scheduled time is its own last one");
            let again = schedule.next_after_poll(at(time));
            let wait = Duration::try_from(again.duration_since(at(time))).unwrap();
            prop_assert!(wait > interval / 2 && wait <= interval * 3 / 2 + Duration::from_secs(1), "{wait:?}");
        }

        #[test]
        fn a_multiple_of_an_interval_shares_scheduled_times(factor in 1_u32..50, time in 1_700_000_000_i64..1_900_000_000) {
            let short = Schedule::new(Duration::from_secs(30), "https://charts.example.com");
            let long = Schedule::new(Duration::from_secs(30) * factor, "https://charts.example.com");
            let point = long.last(at(time));
            prop_assert_eq!(short.last(point), point);
        }
    }

    #[test]
    fn the_phases_of_repositories_differ_and_are_stable() {
        let phase = |repo| Schedule::new(Duration::from_hours(1), repo).phase / 1_000_000_000;
        assert_eq!(
            [phase("https://a"), phase("https://b"), phase("")],
            [3312, 14, 3439]
        );
    }

    #[test]
    fn the_longest_and_the_shortest_interval_do_not_overflow() {
        let schedule = Schedule::new(Duration::MAX, "");
        assert_eq!(schedule.next(at(0)), Timestamp::MAX);
        assert_eq!(Schedule::new(Duration::ZERO, "").last(at(7)), at(7));
    }
}
