//! When to look for newer versions of a HelmOp, and when to come back to it.

use std::time::Duration;

use helmops_shared::{
    admit::ValidHelmOp,
    api::Bundle,
    bundle::lookups,
    poll::{Due, Past, Request, Schedule, due},
    reason::Reason,
    status::{Failure, Look, Polling},
};
use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::versions::Versions;
use crate::{error::ReconcileError, resolve::ResolveError};

/// Timers run by another clock than the schedule, and may be put to sleep with the machine: looking at the time once an
/// hour sets them right.
const LONGEST_SLEEP: Duration = Duration::from_hours(1);

/// What is to be done about newer versions, at one moment.
#[derive(Debug)]
pub struct Agenda {
    now: Timestamp,
    schedule: Option<Schedule>,
    /// What there is to say of the interval.
    note: String,
    due: Due,
    /// How long it is too early to try again what has failed.
    pause: Option<Duration>,
    request: Request,
}

impl Agenda {
    /// What is to be done `now`. `shortest` is the shortest interval that is allowed.
    pub fn of(
        valid: &ValidHelmOp<'_>,
        bundle: Option<&Bundle>,
        pause: Option<Duration>,
        shortest: Duration,
        now: Timestamp,
    ) -> Self {
        let schedule = valid.polling.map(|interval| {
            let repo = lookups(valid).into_iter().next().map(|(lookup, _)| lookup.repo);
            Schedule::new(interval.max(shortest), &repo.unwrap_or_default())
        });
        let request = Request::of(valid.helmop, bundle);
        let past = Past::of(valid.helmop.status.as_ref());
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
        Polling::Looked(Look {
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
        may_pass: error.may_pass(),
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
