//! Whether the agent of a cluster still reports.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

/// The limit of [`Patience`] by default, as a flag has it: three intervals of agents.
pub const AGENT_TIMEOUT: &str = "45m";

/// How long to wait for the report of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// Time after the last report; zero: no agent counts as silent.
    pub limit: Duration,
    /// Since when reports could arrive: when this process started.
    pub since: Timestamp,
}

impl Patience {
    /// The limit is that many intervals of agents. After a start, each agent has one interval for its next report: if this API
    /// server was unavailable, no agent could report.
    const INTERVALS: u32 = 3;
    /// The interval of agents by default, as Fleet's.
    const DEFAULT_INTERVAL: Duration = Duration::from_mins(15);

    /// The interval in which agents report, also if none counts as silent.
    pub fn interval(&self) -> Duration {
        match self.limit {
            Duration::ZERO => Self::DEFAULT_INTERVAL,
            limit => limit / Self::INTERVALS,
        }
    }
}

/// When the agent of a cluster reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contact {
    /// It has never reported, or the time of its last report is invalid, or no limit is set.
    Unknown,
    /// It counts as silent after this time.
    Reporting(Duration),
    /// It has not reported within the limit.
    Silent(Timestamp),
}

impl Contact {
    /// Compares the last report of an agent (RFC 3339; empty if there was none) with the clock. `was_silent`: whether the status
    /// already reports it as silent.
    ///
    /// The time of the report is from the clock of the agent. A clock that is behind by more than the limit makes it silent.
    pub fn of(last_seen: &str, was_silent: bool, patience: Patience, now: Timestamp) -> Self {
        let Ok(last) = last_seen.parse::<Timestamp>() else {
            return Self::Unknown;
        };
        if patience.limit.is_zero() {
            return Self::Unknown;
        }
        let interval = patience.limit / Patience::INTERVALS;
        let chance = if was_silent {
            Duration::ZERO
        } else {
            remaining(patience.since, interval, now)
        };
        match remaining(last, patience.limit, now).max(chance) {
            Duration::ZERO => Self::Silent(last),
            remaining => Self::Reporting(remaining),
        }
    }
}

/// The time until `duration` after `start`; zero if it is over.
fn remaining(start: Timestamp, duration: Duration, now: Timestamp) -> Duration {
    // A start far in the future, of a wrong clock, must not delay the next check without bound.
    let elapsed = Duration::try_from(now.duration_since(start)).unwrap_or(Duration::ZERO);
    duration.saturating_sub(elapsed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(time: &str) -> Timestamp {
        format!("2026-01-01T{time}Z").parse().unwrap()
    }

    #[test]
    fn an_agent_is_silent_after_the_limit() {
        let minutes = Duration::from_mins;
        let started = at("00:00:00");
        let (reporting, silent) = (Contact::Reporting, |time| Contact::Silent(at(time)));
        for (last_seen, was_silent, now, expected) in [
            ("", false, "12:00:00", Contact::Unknown),
            ("yesterday", false, "12:00:00", Contact::Unknown),
            ("2026-01-01T11:50:00Z", false, "12:00:00", reporting(minutes(35))),
            (
                "2026-01-01T13:50:00+02:00",
                false,
                "12:00:00",
                reporting(minutes(35)),
            ),
            ("2026-01-01T11:16:00Z", false, "12:00:00", reporting(minutes(1))),
            ("2026-01-01T11:15:00Z", false, "12:00:00", silent("11:15:00")),
            ("2026-01-01T11:50:00Z", true, "12:00:00", reporting(minutes(35))),
            // The clock of the agent is ahead.
            ("2026-01-01T23:00:00Z", false, "12:00:00", reporting(minutes(45))),
            // Soon after a start, an agent may not have had a chance.
            ("2025-12-31T12:00:00Z", false, "00:05:00", reporting(minutes(10))),
            (
                "2025-12-31T12:00:00Z",
                false,
                "00:15:00",
                Contact::Silent("2025-12-31T12:00:00Z".parse().unwrap()),
            ),
            (
                "2025-12-31T12:00:00Z",
                true,
                "00:05:00",
                Contact::Silent("2025-12-31T12:00:00Z".parse().unwrap()),
            ),
        ] {
            let patience = Patience {
                limit: minutes(45),
                since: started,
            };
            let found = Contact::of(last_seen, was_silent, patience, at(now));
            assert_eq!(found, expected, "{last_seen} {was_silent} at {now}");
        }
    }

    #[test]
    fn without_a_limit_no_agent_is_silent() {
        let patience = Patience {
            limit: Duration::ZERO,
            since: at("00:00:00"),
        };
        let found = Contact::of("2025-01-01T00:00:00Z", false, patience, at("12:00:00"));
        assert_eq!(found, Contact::Unknown);
    }
}
