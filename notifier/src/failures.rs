//! The failures of deliveries: when the next attempt is due, and what is reported of them.

use std::{
    collections::{HashMap, HashSet},
    sync::Mutex,
    time::{Duration, Instant},
};

use helmops_fair::ExponentialBackoff;
use helmops_process::lock;
use helmops_runtime::error_class::Class;

use crate::work::{AlertKey, ProviderKey};

/// The delays after transient failures.
const BACKOFF: ExponentialBackoff = ExponentialBackoff {
    initial_delay: Duration::from_secs(5),
    max_delay: Duration::from_mins(15),
};

/// The delay after a failure that waits for a change.
pub const REJECTED: Duration = BACKOFF.max_delay;

/// Messages of an Alert that are rejected in a row before the Alert waits: the endpoint may reject all of them.
const MAX_IN_A_ROW: u32 = 8;

/// What a failure concerns.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Subject {
    /// The endpoint, for all messages.
    Provider(ProviderKey),
    /// One Alert: the endpoint rejects the content of its messages.
    Alert(AlertKey),
}

/// A failed delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What has failed.
    pub message: String,
    /// Whether the same request may be accepted later, and when.
    pub class: Class,
}

#[derive(Debug)]
struct Entry {
    count: u32,
    until: Instant,
    message: String,
}

/// The failures of all endpoints. An entry is removed when a message is delivered, or when something changes that may be the cause.
#[derive(Debug, Default)]
pub struct Failures(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    entries: HashMap<Subject, Entry>,
    /// Those of an attempt in progress that have not changed since it began.
    unchanged: HashSet<Subject>,
}

/// An attempt in progress: to deliver one message. It ends when dropped.
#[derive(Debug)]
pub struct Attempt<'f> {
    failures: &'f Failures,
    subjects: [Subject; 2],
}

impl Failures {
    /// An attempt begins, which reads what it needs after this. What changes from now on may be the cause of its failure, which is not
    /// recorded then: the next attempt would wait although nothing else changes.
    pub fn attempt(&self, subjects: [Subject; 2]) -> Attempt<'_> {
        lock(&self.0).unchanged.extend(subjects.iter().cloned());
        Attempt {
            failures: self,
            subjects,
        }
    }

    /// What has failed, and the time until the next attempt.
    pub fn of(&self, subject: &Subject) -> Option<(String, Duration)> {
        let state = lock(&self.0);
        let entry = state.entries.get(subject)?;
        Some((
            entry.message.clone(),
            entry.until.saturating_duration_since(Instant::now()),
        ))
    }

    /// The next attempt is due immediately, also after one in progress.
    pub fn forget(&self, subject: &Subject) {
        let mut state = lock(&self.0);
        state.entries.remove(subject);
        state.unchanged.remove(subject);
    }
}

impl Attempt<'_> {
    /// Records a failure, and returns the delay until the next attempt; `None` if what has failed was changed meanwhile. `random` is
    /// between 0 and 1.
    pub fn failed(&self, subject: Subject, failure: &Failure, random: f64) -> Option<Duration> {
        self.record(subject, failure, |last, _| {
            let count = last.map_or(0, |entry| entry.count);
            let backoff = BACKOFF.after_with_jitter(count, random);
            let delay = match failure.class {
                Class::RateLimited(least) => backoff.max(least.min(BACKOFF.max_delay)),
                class if class.is_transient() => backoff,
                _ => REJECTED,
            };
            (count.saturating_add(1), delay)
        })
    }

    /// Records that the content of a message was rejected, and returns when its Alert goes on with the next message: immediately, unless
    /// too many are rejected in a row; `None` if the Alert was changed meanwhile.
    pub fn rejected(&self, alert: AlertKey, failure: &Failure) -> Option<Duration> {
        self.record(Subject::Alert(alert), failure, |last, now| {
            // Those that are repeated after the delay are in no row with those of before.
            let recent = last.filter(|entry| now < entry.until + REJECTED / 2);
            let count = recent.map_or(0, |entry| entry.count).saturating_add(1);
            let delay = if count < MAX_IN_A_ROW {
                Duration::ZERO
            } else {
                REJECTED
            };
            (count, delay)
        })
    }

    /// Records a failure, unless its subject was changed. `next` is the number of failures and the delay, after those of the last one.
    fn record(
        &self,
        subject: Subject,
        failure: &Failure,
        next: impl FnOnce(Option<&Entry>, Instant) -> (u32, Duration),
    ) -> Option<Duration> {
        let (mut state, now) = (lock(&self.failures.0), Instant::now());
        if !state.unchanged.contains(&subject) {
            return None;
        }
        let (count, delay) = next(state.entries.get(&subject), now);
        let entry = Entry {
            count,
            until: now + delay,
            message: failure.message.clone(),
        };
        state.entries.insert(subject, entry);
        Some(delay)
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        let mut state = lock(&self.failures.0);
        for subject in &self.subjects {
            state.unchanged.remove(subject);
        }
    }
}

#[cfg(test)]
mod tests {
    use helmops_kube::key;
    use helmops_runtime::error_class::Scope;

    use super::*;

    fn failure(class: Class) -> Failure {
        Failure {
            message: "m".to_owned(),
            class,
        }
    }

    fn rate_limited(seconds: u64) -> Failure {
        failure(Class::RateLimited(Duration::from_secs(seconds)))
    }

    #[test]
    fn transient_failures_are_retried_more_and_more_slowly() {
        let failures = Failures::default();
        let provider = || Subject::Provider(key("a", "p"));
        let attempt = || failures.attempt([provider(), Subject::Alert(key("a", "x"))]);
        let delay = |failure| attempt().failed(provider(), &failure, 0.0).unwrap().as_secs();
        let transient = || failure(Class::Transient(Scope::Host));
        assert_eq!(
            [delay(transient()), delay(transient()), delay(transient())],
            [5, 10, 20]
        );
        assert_eq!(delay(rate_limited(100)), 100, "Retry-After");
        assert_eq!(delay(rate_limited(100_000)), 900);
        assert_eq!(delay(failure(Class::Absent)), 900);
        assert_eq!(delay(failure(Class::Permanent)), 900);
        let alert = Subject::Alert(key("a", "x"));
        let (message, left) = failures.of(&provider()).unwrap();
        assert!(message == "m" && left > Duration::from_mins(14));
        assert_eq!(failures.of(&alert), None);
        failures.forget(&provider());
        assert_eq!(failures.of(&provider()), None);
        assert_eq!(
            attempt().failed(provider(), &transient(), 1.0),
            Some(Duration::from_millis(3750))
        );
        failures.forget(&provider());
        assert_eq!(delay(failure(Class::Absent)), 900, "not even the first time");
    }

    /// The attempt has used the token of before.
    #[test]
    fn what_changes_during_an_attempt_is_tried_immediately() {
        let failures = Failures::default();
        let subjects = [Subject::Provider(key("a", "p")), Subject::Alert(key("a", "x"))];
        let rejected = failure(Class::Absent);
        let attempt = failures.attempt(subjects.clone());
        for subject in &subjects {
            failures.forget(subject);
        }
        let [provider, alert] = &subjects;
        assert_eq!(attempt.failed(provider.clone(), &rejected, 0.0), None);
        assert_eq!(attempt.rejected(key("a", "x"), &rejected), None);
        assert_eq!((failures.of(provider), failures.of(alert)), (None, None));
        drop(attempt);
        let next = failures.attempt(subjects.clone());
        assert_eq!(next.failed(provider.clone(), &rejected, 0.0), Some(REJECTED));
        drop(next);
        assert!(lock(&failures.0).unchanged.is_empty());
    }

    #[test]
    fn an_alert_waits_when_an_endpoint_rejects_all_of_its_messages() {
        let (failures, alert) = (Failures::default(), Subject::Alert(key("a", "x")));
        let reject = || {
            let attempt = failures.attempt([Subject::Provider(key("a", "p")), alert.clone()]);
            attempt.rejected(key("a", "x"), &failure(Class::Absent)).unwrap();
            failures.of(&alert).unwrap().1
        };
        for _ in 1..MAX_IN_A_ROW {
            assert_eq!(reject(), Duration::ZERO);
        }
        assert!(reject() > Duration::from_mins(14));
        // Something was accepted.
        failures.forget(&alert);
        assert_eq!(reject(), Duration::ZERO);
        // Some that are rejected again, after the delay, are not all.
        for _ in 0..2 * MAX_IN_A_ROW {
            let mut state = lock(&failures.0);
            let entry = state.entries.get_mut(&alert).unwrap();
            entry.until = entry.until.checked_sub(REJECTED).unwrap();
            drop(state);
            assert_eq!(reject(), Duration::ZERO);
        }
    }
}
