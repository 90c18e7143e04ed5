//! The points in time at which a repository is looked at.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

/// Points in time, `interval` apart.
///
/// They are counted from the epoch and shifted by a phase that follows from the repository alone: HelmOps of one
/// repository and interval share their points, and with them one request; those of a multiple of the interval share some;
/// and other repositories are looked at at other times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// In nanoseconds, at least one.
    interval: i128,
    phase: i128,
}

impl Schedule {
    /// The points for a repository.
    pub fn new(interval: Duration, repo: &str) -> Self {
        let interval = nanos(interval).max(1);
        Self {
            interval,
            phase: i128::from(hash(repo)).rem_euclid(interval),
        }
    }

    /// The last point that is not after `time`.
    pub fn last(self, time: Timestamp) -> Timestamp {
        let time = time.as_nanosecond();
        timestamp(time - (time - self.phase).rem_euclid(self.interval))
    }

    /// The first point after `time`.
    pub fn next(self, time: Timestamp) -> Timestamp {
        timestamp(self.last(time).as_nanosecond().saturating_add(self.interval))
    }

    /// When to look again after a look that began at `start`: the first point that is not too soon after it.
    ///
    /// Too soon is half an interval: whoever came late looks again with the others. It is a second at least, since the
    /// status holds whole seconds.
    pub fn after(self, start: Timestamp) -> Timestamp {
        let soon = (self.interval / 2).max(nanos(Duration::from_secs(1)));
        self.next(timestamp(start.as_nanosecond().saturating_add(soon)))
    }
}

fn nanos(duration: Duration) -> i128 {
    i128::try_from(duration.as_nanos()).unwrap_or(i128::MAX)
}

/// What lies beyond what a timestamp can hold never comes.
fn timestamp(nanos: i128) -> Timestamp {
    Timestamp::from_nanosecond(nanos).unwrap_or(Timestamp::MAX)
}

/// FNV-1a: the same on every machine and in every release, which is all that is asked of it.
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
        fn points_are_an_interval_apart(
            interval in 1_u64..100_000_000,
            repo in "[a-z]{0,8}",
            time in 1_700_000_000_i64..1_900_000_000,
        ) {
            let interval = Duration::from_secs(interval);
            let schedule = Schedule::new(interval, &repo);
            let (last, next) = (schedule.last(at(time)), schedule.next(at(time)));
            prop_assert!(last <= at(time) && at(time) < next);
            prop_assert_eq!(next.duration_since(last), interval.try_into().unwrap());
            prop_assert_eq!(schedule.last(last), last, "a point is its own last one");
            let again = schedule.after(at(time));
            let wait = Duration::try_from(again.duration_since(at(time))).unwrap();
            prop_assert!(wait > interval / 2 && wait <= interval * 3 / 2 + Duration::from_secs(1), "{wait:?}");
        }

        #[test]
        fn a_multiple_of_an_interval_shares_points(factor in 1_u32..50, time in 1_700_000_000_i64..1_900_000_000) {
            let short = Schedule::new(Duration::from_secs(30), "https://charts.example.com");
            let long = Schedule::new(Duration::from_secs(30) * factor, "https://charts.example.com");
            let point = long.last(at(time));
            prop_assert_eq!(short.last(point), point);
        }
    }

    #[test]
    fn repositories_are_spread_and_never_move() {
        let phase = |repo| Schedule::new(Duration::from_hours(1), repo).phase / 1_000_000_000;
        assert_eq!(
            [phase("https://a"), phase("https://b"), phase("")],
            [3312, 14, 3439]
        );
    }

    #[test]
    fn the_longest_interval_does_no_harm() {
        let schedule = Schedule::new(Duration::MAX, "");
        assert_eq!(schedule.next(at(0)), Timestamp::MAX);
        assert_eq!(Schedule::new(Duration::ZERO, "").last(at(7)), at(7));
    }
}
