//! When to look for newer versions of a HelmOp, and when to come back to it.

use std::time::Duration;

use helmops_shared::{
    admit::ValidHelmOp,
    api::Bundle,
    bundle::first_repo,
    poll::{Due, PollHistory, Request, Schedule, due},
    reason::Reason,
    status::{Failure, PollAttempt, Polling},
};
use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::versions::Versions;
use crate::{error::ReconcileError, resolve::ResolveError};

/// Timers run by another clock than the schedule, and may be put to sleep with the machine: looking at the time once an
/// hour sets them right.
const LONGEST_SLEEP: Duration = Duration::from_hours(1);

/// What is to be done about newer versions, at one moment.
#[derive(Debug)]
pub struct PollDecision {
    now: Timestamp,
    schedule: Option<Schedule>,
    /// What there is to say of the interval.
    note: String,
    due: Due,
    /// How long it is too early to try again what has failed.
    pause: Option<Duration>,
    request: Request,
}

impl PollDecision {
    /// What is to be done `now`. `shortest` is the shortest interval that is allowed.
    pub fn of(
        valid: &ValidHelmOp<'_>,
        bundle: Option<&Bundle>,
        pause: Option<Duration>,
        shortest: Duration,
        now: Timestamp,
    ) -> Self {
        let schedule = valid.polling.map(|interval| {
            let repo = first_repo(valid).unwrap_or_default();
            Schedule::new(interval.max(shortest), &repo)
        });
        let request = Request::of(valid.helmop, bundle);
        let past = PollHistory::of(valid.helmop.status.as_ref());
        Self {
            now,
            schedule,
            note: note(valid, shortest),
            due: due(schedule, past, request.is_open(), now),
            pause,
            request,
        }
    }

    /// From when on news is new enough, if it is time to look.
    pub fn since(&self) -> Option<Timestamp> {
        match self.due {
            Due::Now { since } if self.pause.is_none() => Some(since),
            Due::Now { .. } | Due::Never | Due::At(_) | Due::First(_) => None,
        }
    }

    /// Whether it is time to look, and too early to try again.
    pub fn is_paused(&self) -> bool {
        matches!(self.due, Due::Now { .. }) && self.pause.is_some()
    }

    /// The token that the Bundle is to record.
    pub fn record(&self, versions: &Versions) -> Option<&str> {
        self.request.record(versions.looked && versions.failure.is_none())
    }

    /// What to tell of a HelmOp whose versions are known.
    pub fn told(&self, versions: &Versions) -> Polling {
        if versions.looked {
            let failed = versions.failure.as_ref().map(failure);
            return self.look(failed.map_or_else(|| Ok(self.note.clone()), Err));
        }
        match self.due {
            Due::Never => Polling::Off,
            Due::Now { .. } | Due::At(_) => Polling::Unchanged,
            Due::First(next) => Polling::Awaited { next: seconds(next) },
        }
    }

    /// What to tell of a HelmOp that has come to nothing.
    pub fn told_of(&self, error: &ReconcileError) -> Polling {
        match error {
            ReconcileError::Resolve(error) if self.schedule.is_some() => self.look(Err(failure(error))),
            ReconcileError::Resolve(_) => Polling::Off,
            _ => Polling::Unchanged,
        }
    }

    /// What to count of a look, if it was one: what it failed with, and how late it began.
    pub fn count(&self, looked: &Result<Versions, ReconcileError>) -> Option<(Option<Reason>, Duration)> {
        let since = self.since();
        let failure = match looked {
            Ok(versions) if !versions.looked => return None,
            Ok(versions) => versions.failure.as_ref().map(ResolveError::reason),
            Err(ReconcileError::Resolve(error)) if since.is_some() || self.schedule.is_some() => {
                Some(error.reason())
            }
            Err(_) => return None,
        };
        Some((
            failure,
            since.map_or(Duration::ZERO, |since| until(since, self.now)),
        ))
    }

    /// When to come back; `None` for when something changes. `retry` is how long to wait before what has failed just now
    /// is tried again.
    pub fn next(&self, versions: &Versions, retry: Option<Duration>) -> Option<Duration> {
        let regular = self.schedule.map(|schedule| match (versions.looked, self.due) {
            (true, _) => schedule.after(self.now),
            (false, Due::At(time) | Due::First(time)) => time,
            (false, Due::Now { .. } | Due::Never) => schedule.next(self.now),
        });
        let regular = regular.map(|time| until(self.now, time));
        let soon = retry.or(self.pause.filter(|_| self.is_paused()));
        [regular, soon]
            .into_iter()
            .flatten()
            .min()
            .map(|wait| wait.min(LONGEST_SLEEP))
    }

    fn look(&self, result: Result<String, Failure>) -> Polling {
        Polling::Looked(PollAttempt {
            start: seconds(self.now),
            is_repeated: self.schedule.is_some(),
            result,
        })
    }
}

fn failure(error: &ResolveError) -> Failure {
    Failure {
        reason: error.reason(),
        message: format!("could not look for a newer version: {error}"),
        is_transient: error.is_transient(),
    }
}

fn note(valid: &ValidHelmOp<'_>, shortest: Duration) -> String {
    match valid.polling {
        Some(interval) if interval < shortest => format!(
            "polled every {shortest:?} instead of {}: the controller allows no shorter interval \
             (--min-polling-interval)",
            valid.helmop.spec.polling_interval.as_deref().unwrap_or_default()
        ),
        _ => String::new(),
    }
}

fn until(now: Timestamp, then: Timestamp) -> Duration {
    let wait: SignedDuration = then.duration_since(now);
    Duration::try_from(wait).unwrap_or_default()
}

/// As the API has times.
pub fn seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[cfg(test)]
mod tests {
    use helmops_shared::api::HelmOp;
    use serde_json::{Value, json};

    use super::*;
    use crate::resolve::ResolveError;

    const SHORTEST: Duration = Duration::from_secs(5);

    fn helmop(interval: &str, status: &Value) -> HelmOp {
        let object = json!({
            "metadata": { "name": "web" },
            "spec": {
                "helm": { "repo": "https://charts.example.com", "chart": "web", "version": "1.x" },
                "pollingInterval": interval,
            },
            "status": status,
        });
        serde_json::from_str(&object.to_string()).unwrap()
    }

    fn now() -> Timestamp {
        Timestamp::from_second(1_800_000_000).unwrap()
    }

    fn agenda(helmop: &HelmOp, pause: Option<Duration>) -> PollDecision {
        PollDecision::of(
            &ValidHelmOp::try_from(helmop).unwrap(),
            None,
            pause,
            SHORTEST,
            now(),
        )
    }

    /// Looked a moment ago, which failed or not.
    fn polled(status: &str) -> Value {
        json!({
            "lastPollingTriggered": seconds(now()),
            "conditions": [{ "type": "Accepted", "status": "True" }, { "type": "Polled", "status": status }],
        })
    }

    fn versions(looked: bool, failure: Option<ResolveError>) -> Versions {
        Versions {
            resolved: Vec::new(),
            looked,
            waited: true,
            failure,
        }
    }

    #[test]
    fn it_comes_back_when_the_next_look_is_due() {
        let agenda = agenda(&helmop("1m", &polled("True")), None);
        assert_eq!(agenda.since(), None);
        let nothing = versions(false, None);
        assert_eq!(agenda.told(&nothing), Polling::Unchanged);
        let next = agenda.next(&nothing, None).unwrap();
        assert!(
            next > Duration::from_secs(30) && next <= Duration::from_secs(90),
            "{next:?}"
        );
    }

    #[test]
    fn nothing_is_due_where_polling_is_off() {
        let agenda = agenda(&helmop("0s", &polled("True")), None);
        let nothing = versions(false, None);
        assert_eq!((agenda.since(), agenda.next(&nothing, None)), (None, None));
        assert_eq!(agenda.told(&nothing), Polling::Off);
    }

    #[test]
    fn what_has_failed_waits_for_its_time() {
        let failed = helmop("12h", &polled("False"));
        assert_eq!(agenda(&failed, None).since(), Some(now()));
        let pause = Duration::from_secs(7);
        let paused = agenda(&failed, Some(pause));
        assert!(paused.is_paused());
        assert_eq!(paused.since(), None);
        assert_eq!(paused.next(&versions(false, None), None), Some(pause));
        assert!(
            !agenda(&helmop("12h", &polled("True")), Some(pause)).is_paused(),
            "it is not due anyhow"
        );
    }

    #[test]
    fn a_look_is_tried_again_soon_and_at_the_latest_when_it_is_due() {
        let agenda = agenda(&helmop("1m", &polled("False")), None);
        let looked = versions(true, None);
        let soon = Duration::from_secs(2);
        assert_eq!(agenda.next(&looked, Some(soon)), Some(soon));
        let late = agenda.next(&looked, Some(Duration::from_hours(1))).unwrap();
        assert!(late <= Duration::from_secs(90), "{late:?}");
    }

    #[test]
    fn a_long_sleep_is_broken_once_an_hour() {
        let agenda = agenda(&helmop("48h", &polled("True")), None);
        assert_eq!(agenda.next(&versions(true, None), None), Some(LONGEST_SLEEP));
    }

    #[test]
    fn a_short_interval_is_raised_and_told() {
        let told = |interval| {
            let agenda = agenda(&helmop(interval, &json!({})), None);
            match agenda.told(&versions(true, None)) {
                Polling::Looked(look) => look.result.unwrap(),
                other => panic!("{other:?}"),
            }
        };
        assert!(
            told("2s").contains("polled every 5s instead of 2s"),
            "{}",
            told("2s")
        );
        assert_eq!(told("5s"), "");
    }
}
