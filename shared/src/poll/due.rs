//! When the next look is due.

use k8s_openapi::jiff::Timestamp;

use super::Schedule;
use crate::api::{Condition, HelmOpStatus};

/// What a status says of earlier looks for newer versions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PollHistory {
    /// When the last one began.
    pub last: Option<Timestamp>,
    /// Whether there is a condition `Polled`, and when it began to say what it says.
    polled: Option<(Polled, Option<Timestamp>)>,
    /// Whether the status says anything at all.
    is_known: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Polled {
    True,
    False,
    /// No look is on record, and one is awaited.
    Unknown,
}

impl PollHistory {
    /// Reads a status.
    pub fn of(status: Option<&HelmOpStatus>) -> Self {
        let Some(status) = status else {
            return Self::default();
        };
        let condition = |name: &str| {
            let mut conditions = status.base.conditions.iter();
            conditions.find(|condition| condition.r#type == name)
        };
        let polled = |condition: &Condition| {
            let state = match &*condition.status {
                "True" => Polled::True,
                "False" => Polled::False,
                _ => Polled::Unknown,
            };
            (state, condition.last_update_time.parse().ok())
        };
        Self {
            last: status.last_polling_triggered.parse().ok(),
            polled: condition("Polled").map(polled),
            is_known: condition("Accepted").is_some(),
        }
    }
}

/// When to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// Nothing newer is looked for.
    Never,
    /// Now. What a repository has said at `since` or later is news enough.
    Now {
        /// The point of the schedule that it is for, or now.
        since: Timestamp,
    },
    /// Then.
    At(Timestamp),
    /// Then, and nothing tells of an earlier look: the status was lost. It is no reason to look sooner.
    First(Timestamp),
}

/// Decides when to look: `schedule` is `None` where polling is off, and `is_asked` says whether somebody asks for a look.
///
/// Looks that were missed are made up for by one. After a failure it is always time; how soon to try again is for who
/// counts failures.
pub fn due(schedule: Option<Schedule>, past: PollHistory, is_asked: bool, now: Timestamp) -> Due {
    if is_asked {
        return Due::Now { since: now };
    }
    let Some(schedule) = schedule else {
        return Due::Never;
    };
    let begun = match past.polled {
        None if past.is_known => return Due::Now { since: now },
        None => return Due::First(schedule.next(now)),
        Some((Polled::False, _)) => return Due::Now { since: now },
        Some((Polled::True, told)) => past.last.or(told),
        // Since the status was lost, whenever that was.
        Some((Polled::Unknown, told)) => told,
    };
    // A time to come is a clock's mistake, and must not put looking off for ever.
    let begun = begun.map_or(Timestamp::MIN, |begun| begun.min(now));
    let next = schedule.after(begun);
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

    /// A point of the schedule, and seconds after it.
    fn point(seconds: i64) -> Timestamp {
        let point = schedule().last(Timestamp::from_second(1_800_000_000).unwrap());
        Timestamp::from_nanosecond(point.as_nanosecond() + i128::from(seconds) * 1_000_000_000).unwrap()
    }

    fn past(last: Option<Timestamp>, conditions: &Value) -> PollHistory {
        let last = last.map(|last| last.to_string()).unwrap_or_default();
        let status = json!({ "lastPollingTriggered": last, "conditions": conditions }).to_string();
        PollHistory::of(Some(&serde_json::from_str(&status).unwrap()))
    }

    fn polled(status: &str, told: Timestamp) -> Value {
        json!([
            { "type": "Accepted", "status": "True" },
            { "type": "Polled", "status": status, "lastUpdateTime": told.to_string() }
        ])
    }

    fn next(past: PollHistory, now: Timestamp) -> Due {
        due(Some(schedule()), past, false, now)
    }

    #[test]
    fn a_look_is_due_at_the_points_of_the_schedule() {
        let past = past(Some(point(1)), &polled("True", point(-6000)));
        assert_eq!(next(past, point(2)), Due::At(point(60)));
        assert_eq!(next(past, point(59)), Due::At(point(60)));
        assert_eq!(next(past, point(60)), Due::Now { since: point(60) });
        assert_eq!(next(past, point(61)), Due::Now { since: point(60) });
    }

    #[test]
    fn who_looked_shortly_before_a_point_passes_it_over() {
        let past = |last| past(Some(point(last)), &polled("True", point(-6000)));
        assert_eq!(next(past(29), point(31)), Due::At(point(60)));
        assert_eq!(next(past(31), point(32)), Due::At(point(120)));
    }

    #[test]
    fn what_was_missed_is_made_up_for_once() {
        let past = past(Some(point(-6000)), &polled("True", point(-6000)));
        assert_eq!(next(past, point(7)), Due::Now { since: point(0) });
    }

    #[test]
    fn turned_on_it_looks_at_once() {
        let accepted = json!([{ "type": "Accepted", "status": "True" }]);
        assert_eq!(
            next(past(None, &accepted), point(7)),
            Due::Now { since: point(7) }
        );
        let long_ago = past(Some(point(-6000)), &accepted);
        assert_eq!(next(long_ago, point(7)), Due::Now { since: point(7) });
    }

    #[test]
    fn a_lost_status_is_no_reason_to_look() {
        assert_eq!(next(PollHistory::default(), point(7)), Due::First(point(60)));
        assert_eq!(next(past(None, &json!([])), point(7)), Due::First(point(60)));
        let told = past(None, &polled("Unknown", point(7)));
        assert_eq!(next(told, point(8)), Due::At(point(60)));
        assert_eq!(next(told, point(61)), Due::Now { since: point(60) });
    }

    #[test]
    fn after_a_failure_it_is_time() {
        let past = past(Some(point(1)), &polled("False", point(1)));
        assert_eq!(next(past, point(2)), Due::Now { since: point(2) });
    }

    #[test]
    fn what_fleet_leaves_will_do() {
        // It does not note the time of a look that finds nothing.
        let told = past(None, &polled("True", point(1)));
        assert_eq!(next(told, point(2)), Due::At(point(60)));
        let nothing = past(None, &json!([{ "type": "Polled", "status": "True" }]));
        assert_eq!(next(nothing, point(2)), Due::Now { since: point(0) });
    }

    #[test]
    fn a_clock_that_was_wrong_does_not_put_it_off() {
        let past = past(Some(point(1_000_000)), &polled("True", point(1)));
        assert_eq!(next(past, point(2)), Due::At(point(60)));
    }

    #[test]
    fn off_is_never_unless_asked_for() {
        let past = past(Some(point(-6000)), &polled("False", point(-6000)));
        assert_eq!(due(None, past, false, point(2)), Due::Never);
        assert_eq!(due(None, past, true, point(2)), Due::Now { since: point(2) });
    }
}
