//! When to poll for newer versions of a HelmOp, and when to reconcile it again.

use std::time::Duration;

use helmops_api::{Bundle, helmop::SeenVersion, timestamp::until};
use helmops_core::{
    admit::ValidHelmOp,
    poll::{Due, PollHistory, PollRequest, Schedule, due},
    status::{Notices, PollAttempt, PollFailure, Polling, timestamp},
};
use helmops_model::reason::Reason;
use helmops_runtime::{
    backoff,
    error_class::ClassifiedError,
    retry_state::{Done, Failures},
};
use k8s_openapi::jiff::Timestamp;

use super::{error::ReconcileError, versions::PollOutcome};

/// Timers use another clock than the schedule, and may stop while the machine sleeps. A reconciliation once an hour corrects them.
const MAX_DELAY: Duration = Duration::from_hours(1);

/// Whether to poll for newer versions now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PollDecision {
    Off,
    /// A poll starts now. A response of the repository from `since` or later is recent enough.
    Now {
        /// The scheduled time that the poll is for, or now.
        since: Timestamp,
    },
    /// A poll is due, but delayed by the backoff after a failure, of which this time remains.
    BackingOff(Duration),
    /// The next poll is due at this time.
    At(Timestamp),
    /// The first poll is due at this time.
    First(Timestamp),
}

impl PollDecision {
    fn of(due: Due, backoff: Option<Duration>) -> Self {
        match (due, backoff) {
            (Due::Never, _) => Self::Off,
            (Due::Now { since }, None) => Self::Now { since },
            (Due::Now { .. }, Some(remaining)) => Self::BackingOff(remaining),
            (Due::At(time), _) => Self::At(time),
            (Due::First(time), _) => Self::First(time),
        }
    }

    /// If a poll starts now, the time since which a response must have been fetched.
    pub const fn since(self) -> Option<Timestamp> {
        match self {
            Self::Now { since } => Some(since),
            Self::Off | Self::BackingOff(_) | Self::At(_) | Self::First(_) => None,
        }
    }

    const fn remaining_backoff(self) -> Option<Duration> {
        match self {
            Self::BackingOff(remaining) => Some(remaining),
            Self::Off | Self::Now { .. } | Self::At(_) | Self::First(_) => None,
        }
    }
}

/// The polling of a HelmOp in one reconciliation: the decision at its start, and what follows from its outcome.
#[derive(Debug)]
pub struct PollPlan {
    /// Whether to poll.
    pub decision: PollDecision,
    /// The time of the decision.
    now: Timestamp,
    schedule: Option<Schedule>,
    /// A message for the condition if the interval was raised.
    note: String,
    request: PollRequest,
}

/// What a HelmOp requests and has recorded about polls.
#[derive(Debug)]
pub struct PollInput<'p> {
    pub valid: &'p ValidHelmOp<'p>,
    pub bundle: Option<&'p Bundle>,
    /// The repository whose schedule is used; `None` if nothing is resolved.
    pub repo: Option<&'p str>,
    /// The rest of the backoff after a failure.
    pub backoff: Option<Duration>,
    pub min_interval: Duration,
    /// The polls so far.
    pub history: PollHistory,
}

impl PollPlan {
    /// The plan for a reconciliation at the time `now`.
    pub fn new(input: &PollInput<'_>, now: Timestamp) -> Self {
        let PollInput {
            valid, min_interval, ..
        } = *input;
        let schedule = Schedule::of_helmop(valid.polling, min_interval, input.repo);
        let request = PollRequest::of(valid.helmop, input.bundle);
        let due = due(schedule, input.history, request.is_pending(), now);
        Self {
            decision: PollDecision::of(due, input.backoff),
            now,
            schedule,
            note: note(valid, min_interval),
            request,
        }
    }

    /// The poll request that the Bundle is to record as handled.
    pub fn handled_request(&self, outcome: &PollOutcome) -> Option<&str> {
        self.request.record(matches!(outcome, PollOutcome::Succeeded))
    }

    /// The condition of a HelmOp whose versions are known.
    ///
    /// `notices` are what the poll has found about the charts besides their versions.
    /// `waiting` says what waits until it is old enough.
    pub fn condition(
        &self,
        outcome: &PollOutcome,
        notices: Option<Notices>,
        waiting: &str,
        seen: &[SeenVersion],
    ) -> Polling {
        let seen = Some(seen.to_vec());
        match (outcome, self.decision) {
            (PollOutcome::Succeeded, _) => {
                let notes = [&*self.note, waiting].into_iter().filter(|note| !note.is_empty());
                let note = notes.collect::<Vec<_>>().join("; ");
                self.attempt(Ok(note), notices, seen)
            }
            (PollOutcome::Failed(error), _) => self.attempt(Err(failure(error)), notices, seen),
            (PollOutcome::NotPolled, PollDecision::Off) => Polling::Off,
            (PollOutcome::NotPolled, PollDecision::First(next)) => Polling::Scheduled {
                next: timestamp(next),
            },
            (
                PollOutcome::NotPolled,
                PollDecision::Now { .. } | PollDecision::BackingOff(_) | PollDecision::At(_),
            ) => Polling::Unchanged,
        }
    }

    pub fn condition_after(&self, error: &ReconcileError) -> Polling {
        match error {
            ReconcileError::Resolve(_) if self.schedule.is_some() => {
                self.attempt(Err(failure(error)), None, None)
            }
            ReconcileError::Resolve(_) => Polling::Off,
            _ => Polling::Unchanged,
        }
    }

    /// For the metrics, if there was a poll: its error, and how long after its due time it started.
    pub fn metric(
        &self,
        result: Result<&PollOutcome, &ReconcileError>,
    ) -> Option<(Option<Reason>, Duration)> {
        let since = self.decision.since();
        let failure = match result {
            Ok(PollOutcome::Succeeded) => None,
            Ok(PollOutcome::Failed(error)) => Some(error.reason()),
            Err(ReconcileError::Resolve(error)) if since.is_some() || self.schedule.is_some() => {
                Some(error.reason())
            }
            Ok(PollOutcome::NotPolled) | Err(_) => return None,
        };
        let lag = since.map_or(Duration::ZERO, |since| until(since, self.now));
        Some((failure, lag))
    }

    /// When to reconcile the HelmOp again, and what becomes of its earlier failures.
    pub fn done(&self, outcome: &PollOutcome) -> Done {
        let remaining = self.decision.remaining_backoff();
        let (remaining, failures) = match (outcome, remaining) {
            (PollOutcome::Failed(error), _) => {
                let policy = error.class().backoff_policy();
                let policy = policy.unwrap_or_else(|| backoff::SLOW.into());
                (None, Failures::Another(policy))
            }
            // The failure of a poll that is still backing off still counts.
            (PollOutcome::Succeeded | PollOutcome::NotPolled, Some(_)) => (remaining, Failures::Kept),
            (PollOutcome::Succeeded | PollOutcome::NotPolled, None) => (None, Failures::Reset),
        };
        let next_poll = self.next_poll(outcome).map(|time| until(self.now, time));
        Done {
            requeue_after: next_poll
                .into_iter()
                .chain(remaining)
                .min()
                .map(|delay| delay.min(MAX_DELAY)),
            failures,
            ..Done::UNTIL_CHANGE
        }
    }

    fn next_poll(&self, outcome: &PollOutcome) -> Option<Timestamp> {
        let schedule = self.schedule?;
        Some(match (outcome, self.decision) {
            (PollOutcome::Succeeded | PollOutcome::Failed(_), _) => schedule.next_after_poll(self.now),
            (PollOutcome::NotPolled, PollDecision::At(time) | PollDecision::First(time)) => time,
            (
                PollOutcome::NotPolled,
                PollDecision::Off | PollDecision::Now { .. } | PollDecision::BackingOff(_),
            ) => schedule.next(self.now),
        })
    }

    fn attempt(
        &self,
        result: Result<String, PollFailure>,
        notices: Option<Notices>,
        seen: Option<Vec<SeenVersion>>,
    ) -> Polling {
        Polling::Attempted(PollAttempt {
            start: self.now,
            is_scheduled: self.schedule.is_some(),
            is_requested: self.request.is_pending(),
            next: self.schedule.map(|schedule| schedule.next_after_poll(self.now)),
            result,
            notices,
            seen,
        })
    }
}

fn failure(error: &ReconcileError) -> PollFailure {
    let message = match error {
        ReconcileError::Resolve(error) => format!("could not poll for a newer version: {error}"),
        error => format!("there is a newer version, which is not deployed: {error}"),
    };
    PollFailure {
        reason: error.reason(),
        message,
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

#[cfg(test)]
mod tests {
    use helmops_api::HelmOp;
    use helmops_fetch::ResolveError;
    use serde_json::{Value, json};

    use super::*;
    use crate::content::{ContentError, OverQuota};

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

    fn plan(helmop: &HelmOp, backoff: Option<Duration>) -> PollPlan {
        let input = PollInput {
            valid: &ValidHelmOp::try_from(helmop).unwrap(),
            bundle: None,
            repo: Some("https://charts.example.com"),
            backoff,
            min_interval: MIN_INTERVAL,
            history: PollHistory::of(helmop.status.as_ref()),
        };
        PollPlan::new(&input, now())
    }

    fn timeout() -> ReconcileError {
        ReconcileError::Resolve(Box::new(ResolveError::Deadline {
            limit: Duration::from_mins(5),
        }))
    }

    /// What a poll has found is not delivered.
    fn full() -> ReconcileError {
        let over = OverQuota::default();
        ReconcileError::Content(Box::new(ContentError::full("team", over)))
    }

    /// A status with a poll that has just ended, with this status of the condition.
    fn polled(status: &str) -> Value {
        json!({
            "lastPollingTriggered": timestamp(now()),
            "conditions": [{ "type": "Accepted", "status": "True" }, { "type": "Polled", "status": status }],
        })
    }

    #[test]
    fn the_next_reconciliation_is_when_the_next_poll_is_due() {
        let plan = plan(&helmop("1m", &polled("True")), None);
        assert!(
            matches!(plan.decision, PollDecision::At(_)),
            "{:?}",
            plan.decision
        );
        assert_eq!(
            plan.condition(&PollOutcome::NotPolled, None, "", &[]),
            Polling::Unchanged
        );
        let done = plan.done(&PollOutcome::NotPolled);
        let next = done.requeue_after.unwrap();
        assert!(
            next > Duration::from_secs(30) && next <= Duration::from_secs(90),
            "{next:?}"
        );
        assert_eq!(done.failures, Failures::Reset);
    }

    #[test]
    fn no_poll_is_due_if_polling_is_disabled() {
        let plan = plan(&helmop("0s", &polled("True")), None);
        assert_eq!(plan.decision, PollDecision::Off);
        assert_eq!(plan.done(&PollOutcome::NotPolled), Done::UNTIL_CHANGE);
        assert_eq!(
            plan.condition(&PollOutcome::NotPolled, None, "", &[]),
            Polling::Off
        );
    }

    #[test]
    fn the_first_poll_after_a_lost_status_is_scheduled() {
        let plan = plan(&helmop("1m", &json!({})), None);
        let PollDecision::First(next) = plan.decision else {
            panic!("{:?}", plan.decision)
        };
        let condition = plan.condition(&PollOutcome::NotPolled, None, "", &[]);
        assert_eq!(
            condition,
            Polling::Scheduled {
                next: timestamp(next)
            }
        );
        assert_eq!(
            plan.done(&PollOutcome::NotPolled).requeue_after,
            Some(until(now(), next))
        );
    }

    #[test]
    fn a_failed_poll_waits_for_its_backoff() {
        let failed = helmop("12h", &polled("False"));
        assert_eq!(plan(&failed, None).decision, PollDecision::Now { since: now() });
        let backoff = Duration::from_secs(7);
        let delayed = plan(&failed, Some(backoff));
        assert_eq!(delayed.decision, PollDecision::BackingOff(backoff));
        assert_eq!(delayed.decision.since(), None);
        let kept = Done {
            requeue_after: Some(backoff),
            failures: Failures::Kept,
            ..Done::UNTIL_CHANGE
        };
        assert_eq!(delayed.done(&PollOutcome::NotPolled), kept);
        let not_due = plan(&helmop("12h", &polled("True")), Some(backoff));
        assert!(
            matches!(not_due.decision, PollDecision::At(_)),
            "{:?}",
            not_due.decision
        );
    }

    #[test]
    fn a_failed_poll_is_retried_after_its_backoff_or_at_its_next_due_time() {
        let plan = plan(&helmop("1m", &polled("False")), None);
        let done = plan.done(&PollOutcome::Failed(timeout()));
        assert_eq!(done.failures, Failures::Another(backoff::TRANSIENT.into()));
        let next = done.requeue_after.unwrap();
        assert!(next <= Duration::from_secs(90), "{next:?}");
        assert_eq!(plan.done(&PollOutcome::Succeeded).failures, Failures::Reset);
    }

    #[test]
    fn the_delay_is_at_most_an_hour() {
        let plan = plan(&helmop("48h", &polled("True")), None);
        assert_eq!(plan.done(&PollOutcome::Succeeded).requeue_after, Some(MAX_DELAY));
    }

    #[test]
    fn a_newer_version_that_is_not_delivered_is_a_failed_poll() {
        let plan = plan(&helmop("1m", &polled("True")), None);
        let failed = PollOutcome::Failed(full());
        let Polling::Attempted(attempt) = plan.condition(&failed, None, "", &[]) else {
            panic!("it is recorded")
        };
        let failure = attempt.result.unwrap_err();
        assert_eq!(
            (failure.reason, failure.is_transient),
            (Reason::ContentQuotaExceeded, false)
        );
        let start = "there is a newer version, which is not deployed: the chart is not stored";
        assert!(failure.message.starts_with(start), "{}", failure.message);
        assert_eq!(
            plan.done(&failed).failures,
            Failures::Another(backoff::SLOW.into())
        );
    }

    #[test]
    fn polls_are_counted_with_their_errors() {
        let due = plan(&helmop("1m", &polled("False")), None);
        let failed = PollOutcome::Failed(timeout());
        let undelivered = PollOutcome::Failed(full());
        let (resolve_error, first) = (timeout(), full());
        let other_error = ReconcileError::Superseded;
        for (result, expected) in [
            (Ok(&PollOutcome::NotPolled), None),
            (Ok(&PollOutcome::Succeeded), Some(None)),
            (Ok(&failed), Some(Some(Reason::Timeout))),
            (Ok(&undelivered), Some(Some(Reason::ContentQuotaExceeded))),
            (Err(&resolve_error), Some(Some(Reason::Timeout))),
            // There is no version yet.
            (Err(&first), None),
            (Err(&other_error), None),
        ] {
            let metric = due.metric(result).map(|(reason, _)| reason);
            assert_eq!(metric, expected, "{result:?}");
        }
        let off = plan(&helmop("0s", &polled("True")), None);
        assert_eq!(off.metric(Err(&resolve_error)), None);
    }

    #[test]
    fn a_raised_interval_is_reported() {
        let message = |interval| {
            let plan = plan(&helmop(interval, &json!({})), None);
            match plan.condition(&PollOutcome::Succeeded, None, "", &[]) {
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
