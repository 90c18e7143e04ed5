//! When to poll for newer versions of a HelmOp, and when to reconcile it again.

use std::time::Duration;

use helmops_shared::{
    admit::ValidHelmOp,
    api::Bundle,
    bundle::first_repo,
    poll::{Due, PollHistory, PollRequest, Schedule, due},
    reason::Reason,
    status::{PollAttempt, PollFailure, Polling},
};
use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::versions::Versions;
use crate::{error::ReconcileError, error_class::ClassifiedError, resolve::ResolveError};

/// Timers use another clock than the schedule, and may stop while the machine sleeps. A reconciliation once an hour corrects them.
const MAX_DELAY: Duration = Duration::from_hours(1);

/// Whether to poll for newer versions, at one point in time.
#[derive(Debug)]
pub struct PollDecision {
    now: Timestamp,
    schedule: Option<Schedule>,
    /// A message for the condition if the interval was raised.
    note: String,
    due: Due,
    /// The rest of the backoff after a failure.
    backoff: Option<Duration>,
    request: PollRequest,
}

impl PollDecision {
    /// The decision for the time `now`. `min_interval` is the minimum polling interval.
    pub fn of(
        valid: &ValidHelmOp<'_>,
        bundle: Option<&Bundle>,
        backoff: Option<Duration>,
        min_interval: Duration,
        now: Timestamp,
    ) -> Self {
        let schedule = valid.polling.map(|interval| {
            let repo = first_repo(valid).unwrap_or_default();
            Schedule::new(interval.max(min_interval), &repo)
        });
        let request = PollRequest::of(valid.helmop, bundle);
        let history = PollHistory::of(valid.helmop.status.as_ref());
        Self {
            now,
            schedule,
            note: note(valid, min_interval),
            due: due(schedule, history, request.is_pending(), now),
            backoff,
            request,
        }
    }

    /// If a poll is to start now, the time since which a response must have been fetched.
    pub fn since(&self) -> Option<Timestamp> {
        match self.due {
            Due::Now { since } if self.backoff.is_none() => Some(since),
            Due::Now { .. } | Due::Never | Due::At(_) | Due::First(_) => None,
        }
    }

    /// Whether a poll is due, but delayed by the backoff.
    pub fn is_backing_off(&self) -> bool {
        matches!(self.due, Due::Now { .. }) && self.backoff.is_some()
    }

    /// The poll request that the Bundle is to record as handled.
    pub fn record(&self, versions: &Versions) -> Option<&str> {
        self.request.record(versions.polled && versions.failure.is_none())
    }

    /// The condition of a HelmOp whose versions are known.
    pub fn condition(&self, versions: &Versions) -> Polling {
        if versions.polled {
            let failed = versions.failure.as_ref().map(failure);
            return self.attempt(failed.map_or_else(|| Ok(self.note.clone()), Err));
        }
        match self.due {
            Due::Never => Polling::Off,
            Due::Now { .. } | Due::At(_) => Polling::Unchanged,
            Due::First(next) => Polling::Scheduled { next: seconds(next) },
        }
    }

    /// The condition after an error.
    pub fn condition_after(&self, error: &ReconcileError) -> Polling {
        match error {
            ReconcileError::Resolve(error) if self.schedule.is_some() => self.attempt(Err(failure(error))),
            ReconcileError::Resolve(_) => Polling::Off,
            _ => Polling::Unchanged,
        }
    }

    /// For the metrics, if there was a poll: its error, and how long after its due time it started.
    pub fn poll_metric(
        &self,
        result: &Result<Versions, ReconcileError>,
    ) -> Option<(Option<Reason>, Duration)> {
        let since = self.since();
        let failure = match result {
            Ok(versions) if !versions.polled => return None,
            Ok(versions) => versions.failure.as_ref().map(ClassifiedError::reason),
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

    /// When to reconcile again; `None` if only a change requires it. `retry_after` is the backoff if the poll has just failed.
    pub fn next(&self, versions: &Versions, retry_after: Option<Duration>) -> Option<Duration> {
        let next_poll = self.schedule.map(|schedule| match (versions.polled, self.due) {
            (true, _) => schedule.next_after_poll(self.now),
            (false, Due::At(time) | Due::First(time)) => time,
            (false, Due::Now { .. } | Due::Never) => schedule.next(self.now),
        });
        let next_poll = next_poll.map(|time| until(self.now, time));
        let retry_after = retry_after.or(self.backoff.filter(|_| self.is_backing_off()));
        [next_poll, retry_after]
            .into_iter()
            .flatten()
            .min()
            .map(|delay| delay.min(MAX_DELAY))
    }

    fn attempt(&self, result: Result<String, PollFailure>) -> Polling {
        Polling::Attempted(PollAttempt {
            start: seconds(self.now),
            is_scheduled: self.schedule.is_some(),
            result,
        })
    }
}

fn failure(error: &ResolveError) -> PollFailure {
    PollFailure {
        reason: error.reason(),
        message: format!("could not poll for a newer version: {error}"),
        is_transient: error.class().is_transient(),
    }
}

fn note(valid: &ValidHelmOp<'_>, min_interval: Duration) -> String {
    match valid.polling {
        Some(interval) if interval < min_interval => format!(
            "polled every {min_interval:?} instead of {}: the controller allows no shorter interval \
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

/// A time in the format of the API: RFC 3339, in whole seconds.
pub fn seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[cfg(test)]
mod tests {
    use helmops_shared::api::HelmOp;
    use serde_json::{Value, json};

    use super::*;
    use crate::resolve::ResolveError;

    const MIN_INTERVAL: Duration = Duration::from_secs(5);

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

    fn decision(helmop: &HelmOp, backoff: Option<Duration>) -> PollDecision {
        PollDecision::of(
            &ValidHelmOp::try_from(helmop).unwrap(),
            None,
            backoff,
            MIN_INTERVAL,
            now(),
        )
    }

    /// A status with a poll that has just ended, with this status of the condition.
    fn polled(status: &str) -> Value {
        json!({
            "lastPollingTriggered": seconds(now()),
            "conditions": [{ "type": "Accepted", "status": "True" }, { "type": "Polled", "status": status }],
        })
    }

    fn versions(polled: bool, failure: Option<ResolveError>) -> Versions {
        Versions {
            resolved: Vec::new(),
            polled,
            waited: true,
            failure,
        }
    }

    #[test]
    fn the_next_reconciliation_is_when_the_next_poll_is_due() {
        let decision = decision(&helmop("1m", &polled("True")), None);
        assert_eq!(decision.since(), None);
        let unpolled = versions(false, None);
        assert_eq!(decision.condition(&unpolled), Polling::Unchanged);
        let next = decision.next(&unpolled, None).unwrap();
        assert!(
            next > Duration::from_secs(30) && next <= Duration::from_secs(90),
            "{next:?}"
        );
    }

    #[test]
    fn no_poll_is_due_if_polling_is_disabled() {
        let decision = decision(&helmop("0s", &polled("True")), None);
        let unpolled = versions(false, None);
        assert_eq!((decision.since(), decision.next(&unpolled, None)), (None, None));
        assert_eq!(decision.condition(&unpolled), Polling::Off);
    }

    #[test]
    fn a_failed_poll_waits_for_its_backoff() {
        let failed = helmop("12h", &polled("False"));
        assert_eq!(decision(&failed, None).since(), Some(now()));
        let backoff = Duration::from_secs(7);
        let delayed = decision(&failed, Some(backoff));
        assert!(delayed.is_backing_off());
        assert_eq!(delayed.since(), None);
        assert_eq!(delayed.next(&versions(false, None), None), Some(backoff));
        assert!(
            !decision(&helmop("12h", &polled("True")), Some(backoff)).is_backing_off(),
            "no poll is due"
        );
    }

    #[test]
    fn a_failed_poll_is_retried_after_its_backoff_or_at_its_next_due_time() {
        let decision = decision(&helmop("1m", &polled("False")), None);
        let polled = versions(true, None);
        let backoff = Duration::from_secs(2);
        assert_eq!(decision.next(&polled, Some(backoff)), Some(backoff));
        let next = decision.next(&polled, Some(Duration::from_hours(1))).unwrap();
        assert!(next <= Duration::from_secs(90), "{next:?}");
    }

    #[test]
    fn the_delay_is_at_most_an_hour() {
        let decision = decision(&helmop("48h", &polled("True")), None);
        assert_eq!(decision.next(&versions(true, None), None), Some(MAX_DELAY));
    }

    #[test]
    fn a_raised_interval_is_reported() {
        let message = |interval| {
            let decision = decision(&helmop(interval, &json!({})), None);
            match decision.condition(&versions(true, None)) {
                Polling::Attempted(attempt) => attempt.result.unwrap(),
                other => panic!("{other:?}"),
            }
        };
        assert!(
            message("2s").contains("polled every 5s instead of 2s"),
            "{}",
            message("2s")
        );
        assert_eq!(message("5s"), "");
    }
}
