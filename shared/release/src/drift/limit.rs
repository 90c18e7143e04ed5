//! How often the drift of an object is corrected. What another client changes back each time is a conflict, which a correction does not
//! solve.

use jiff::{SignedDuration, Timestamp};

/// How often an object is corrected within an hour.
pub const MAX_CORRECTIONS: u32 = 5;
/// The time in which corrections are counted, from the first one. It is longer than the intervals of controllers that change an object
/// back, and short enough for a user who edits an object now and then.
const WINDOW: SignedDuration = SignedDuration::from_hours(1);

/// The corrections of an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CorrectionLimit {
    number: u32,
    first: Option<Timestamp>,
}

impl CorrectionLimit {
    /// Until when no correction is to be made; `None` if one may be made now.
    pub fn blocked_until(&self, now: Timestamp) -> Option<Timestamp> {
        self.end()
            .filter(|end| *end > now && self.number >= MAX_CORRECTIONS)
    }

    /// Counts a correction.
    pub fn count(&mut self, now: Timestamp) {
        if self.end().is_none_or(|end| end <= now) {
            *self = Self {
                number: 0,
                first: Some(now),
            };
        }
        self.number = self.number.saturating_add(1);
    }

    fn end(&self) -> Option<Timestamp> {
        let first = self.first?;
        Some(first.saturating_add(WINDOW).unwrap_or(Timestamp::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(minutes: i64) -> Timestamp {
        Timestamp::from_second(1_000_000 + 60 * minutes).unwrap()
    }

    /// At which of these minutes an object is corrected that has drift at each of them.
    fn corrected(minutes: impl IntoIterator<Item = i64>) -> Vec<i64> {
        let mut limit = CorrectionLimit::default();
        let mut corrected = Vec::new();
        for minute in minutes {
            if limit.blocked_until(at(minute)).is_none() {
                limit.count(at(minute));
                corrected.push(minute);
            }
        }
        corrected
    }

    #[test]
    fn an_object_that_is_changed_back_each_time_is_corrected_five_times_an_hour() {
        let expected = [0, 1, 2, 3, 4, 60, 61, 62, 63, 64];
        assert_eq!(corrected(0..120), expected);
        let mut limit = CorrectionLimit::default();
        for minute in 0..5 {
            assert_eq!(limit.blocked_until(at(minute)), None);
            limit.count(at(minute));
        }
        assert_eq!(limit.blocked_until(at(5)), Some(at(60)));
        assert_eq!(limit.blocked_until(at(60)), None);
    }

    #[test]
    fn what_is_changed_now_and_then_is_always_corrected() {
        for minutes in [13, 60, 24 * 60] {
            let all: Vec<_> = (0..200).map(|number| number * minutes).collect();
            assert_eq!(corrected(all.clone()), all, "{minutes}");
        }
    }
}
