//! When the next poll is due.

use std::time::Duration;

use helmops_api::{Condition, HelmOpStatus};
use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::Schedule;

/// Earlier polls for newer versions, as the status of a HelmOp records them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PollHistory {
    /// When the last poll started.
    pub last: Option<Timestamp>,
    /// The status of the condition `Polled`, if there is one, and when it was last updated.
    polled: Option<(ConditionStatus, Option<Timestamp>)>,
    /// Whether the HelmOp was accepted or rejected before; `false` if the status is empty or was lost.
    is_known: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConditionStatus {
    True,
    False,
    /// No poll is recorded yet, and one is scheduled.
    Unknown,
}

impl PollHistory {
    /// Reads a status.
    pub fn of(status: Option<&HelmOpStatus>) -> Self {
        let Some(status) = status else {
            return Self::default();
        };
        let condition = |name: &str| Condition::find(&status.base.conditions, name);
        let polled = |condition: &Condition| {
            let state = match &*condition.status {
                "True" => ConditionStatus::True,
                "False" => ConditionStatus::False,
                _ => ConditionStatus::Unknown,
            };
            (state, condition.last_update_time.parse().ok())
        };
        Self {
            last: status.last_polling_triggered.parse().ok(),
            polled: condition("Polled").map(polled),
            is_known: condition("Accepted").is_some(),
        }
    }

    /// For who knows no polls that the status may hide, and sees them from `since` on: there were some until then, if the `interval` is
    /// short enough for that.
    #[must_use]
    pub fn seen_since(self, since: Timestamp, interval: Option<Duration>) -> Self {
        let last = self.last.filter(|last| may_hide_polls(*last, since));
        let hides_polls = last.zip(interval).is_some_and(|(last, interval)| {
            let next = last.checked_add(interval);
            next.is_ok_and(|next| may_hide_polls(last, next))
        });
        self.with(hides_polls.then_some(since))
    }

    /// With the start of a poll that the status does not show, if there was one.
    #[must_use]
    pub fn with(self, unrecorded: Option<Timestamp>) -> Self {
        Self {
            last: self.last.max(unrecorded),
            ..self
        }
    }
}

/// How old the time of the last poll in a status may become while nothing else of the status changes. Writes of that time alone would
/// cost the API server more than the polls cost.
const MAX_UNRECORDED: SignedDuration = SignedDuration::from_mins(5);

/// Whether a status that shows a poll at `last` may not show those between then and `now`.
pub fn may_hide_polls(last: Timestamp, now: Timestamp) -> bool {
    (SignedDuration::ZERO..MAX_UNRECORDED).contains(&now.duration_since(last))
}

/// When to poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// Polling is off.
    Never,
    /// Now. A response of the repository from `since` or later is recent enough.
    Now {
        /// The scheduled time that the poll is for, or now.
        since: Timestamp,
    },
    /// Poll at this time.
    At(Timestamp),
    /// At this time, without a record of an earlier poll: the status was lost, which is no reason to poll earlier.
    First(Timestamp),
}

/// Decides when to poll. `schedule` is `None` if polling is off; `is_requested` is set if a poll was requested explicitly.
///
/// Any number of missed polls is made up for by one. After a failure a poll is always due; the caller, which counts
/// failures, applies the backoff.
pub fn due(schedule: Option<Schedule>, history: PollHistory, is_requested: bool, now: Timestamp) -> Due {
    if is_requested {
        return Due::Now { since: now };
    }
    let Some(schedule) = schedule else {
        return Due::Never;
    };
    let start = match history.polled {
        None if history.is_known => return Due::Now { since: now },
        None => return Due::First(schedule.next(now)),
        Some((ConditionStatus::False, _)) => return Due::Now { since: now },
        Some((ConditionStatus::True, updated)) => history.last.or(updated),
        // When the lost status was written again.
        Some((ConditionStatus::Unknown, updated)) => updated,
    };
    // A start in the future comes from a wrong clock, and must not postpone polls forever.
    let start = start.map_or(Timestamp::MIN, |start| start.min(now));
    let next = schedule.next_after_poll(start);
    if next <= now {
        Due::Now {
            since: schedule.last(now),
        }
    } else {
        Due::At(next)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::{Value, json};

    use super::*;

    const REPO: &str = "https://charts.example.com";

    fn schedule() -> Schedule {
        Schedule::new(Duration::from_mins(1), REPO)
    }

    /// A scheduled time plus this many seconds.
    fn point(seconds: i64) -> Timestamp {
        let point = schedule().last(Timestamp::from_second(1_800_000_000).unwrap());
        Timestamp::from_nanosecond(point.as_nanosecond() + i128::from(seconds) * 1_000_000_000).unwrap()
    }

    fn history(last: Option<Timestamp>, conditions: &Value) -> PollHistory {
        let last = last.map(|last| last.to_string()).unwrap_or_default();
        let status = json!({ "lastPollingTriggered": last, "conditions": conditions }).to_string();
        PollHistory::of(Some(&serde_json::from_str(&status).unwrap()))
    }

    fn polled(status: &str, updated: Timestamp) -> Value {
        json!([
            { "type": "Accepted", "status": "True" },
            { "type": "Polled", "status": status, "lastUpdateTime": updated.to_string() }
        ])
    }

    fn next(history: PollHistory, now: Timestamp) -> Due {
        due(Some(schedule()), history, false, now)
    }

    #[test]
    fn polls_are_due_at_scheduled_times() {
        let history = history(Some(point(1)), &polled("True", point(-6000)));
        assert_eq!(next(history, point(2)), Due::At(point(60)));
        assert_eq!(next(history, point(59)), Due::At(point(60)));
        assert_eq!(next(history, point(60)), Due::Now { since: point(60) });
        assert_eq!(next(history, point(61)), Due::Now { since: point(60) });
    }

    /// Its time alone is not written each time.
    #[test]
    fn polls_that_the_status_does_not_show_count() {
        let history = |last| history(Some(point(last)), &polled("True", point(-6000)));
        let start = |seconds| Some(point(seconds));
        assert_eq!(next(history(1).with(start(121)), point(150)), Due::At(point(180)));
        assert_eq!(next(history(121).with(start(1)), point(150)), Due::At(point(180)));
        assert_eq!(next(history(1), point(150)), Due::Now { since: point(120) });
        let short = Some(Duration::from_mins(1));
        // Another process may have polled until this one began.
        assert_eq!(
            next(history(1).seen_since(point(130), short), point(150)),
            Due::At(point(180))
        );
        let due = Due::Now { since: point(180) };
        assert_eq!(next(history(1).seen_since(point(130), short), point(180)), due);
        // Without a poll for longer than a status may hide.
        let due = Due::Now { since: point(360) };
        assert_eq!(next(history(1).seen_since(point(370), short), point(380)), due);
        // A longer interval hides none.
        let long = Some(Duration::from_mins(10));
        let due = Due::Now { since: point(120) };
        assert_eq!(next(history(1).seen_since(point(130), long), point(150)), due);
        // A poll by another process since then.
        assert_eq!(
            next(history(200).seen_since(point(130), short), point(210)),
            Due::At(point(240))
        );
    }

    #[test]
    fn a_poll_shortly_before_a_scheduled_time_replaces_it() {
        let history = |last| history(Some(point(last)), &polled("True", point(-6000)));
        assert_eq!(next(history(29), point(31)), Due::At(point(60)));
        assert_eq!(next(history(31), point(32)), Due::At(point(120)));
    }

    #[test]
    fn missed_polls_are_made_up_for_by_one() {
        let history = history(Some(point(-6000)), &polled("True", point(-6000)));
        assert_eq!(next(history, point(7)), Due::Now { since: point(0) });
    }

    #[test]
    fn a_poll_is_due_when_polling_is_turned_on() {
        let accepted = json!([{ "type": "Accepted", "status": "True" }]);
        assert_eq!(
            next(history(None, &accepted), point(7)),
            Due::Now { since: point(7) }
        );
        let long_ago = history(Some(point(-6000)), &accepted);
        assert_eq!(next(long_ago, point(7)), Due::Now { since: point(7) });
    }

    #[test]
    fn a_lost_status_triggers_no_poll() {
        assert_eq!(next(PollHistory::default(), point(7)), Due::First(point(60)));
        assert_eq!(next(history(None, &json!([])), point(7)), Due::First(point(60)));
        let lost = history(None, &polled("Unknown", point(7)));
        assert_eq!(next(lost, point(8)), Due::At(point(60)));
        assert_eq!(next(lost, point(61)), Due::Now { since: point(60) });
    }

    #[test]
    fn a_poll_is_due_after_a_failure() {
        let history = history(Some(point(1)), &polled("False", point(1)));
        assert_eq!(next(history, point(2)), Due::Now { since: point(2) });
    }

    #[test]
    fn a_status_written_by_fleet_is_understood() {
        // Fleet does not record the time of a poll that finds no newer version.
        let updated = history(None, &polled("True", point(1)));
        assert_eq!(next(updated, point(2)), Due::At(point(60)));
        let nothing = history(None, &json!([{ "type": "Polled", "status": "True" }]));
        assert_eq!(next(nothing, point(2)), Due::Now { since: point(0) });
    }

    #[test]
    fn a_start_in_the_future_postpones_no_poll() {
        let history = history(Some(point(1_000_000)), &polled("True", point(1)));
        assert_eq!(next(history, point(2)), Due::At(point(60)));
    }

    #[test]
    fn without_a_schedule_only_requested_polls_are_due() {
        let history = history(Some(point(-6000)), &polled("False", point(-6000)));
        assert_eq!(due(None, history, false, point(2)), Due::Never);
        assert_eq!(due(None, history, true, point(2)), Due::Now { since: point(2) });
    }
}
