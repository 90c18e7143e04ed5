//! The failures of deliveries: when the next attempt is due, and what is reported of them.

use std::{
    collections::HashMap,
    sync::Mutex,
    time::{Duration, Instant},
};

use helmops_process::{ExponentialBackoff, lock};
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
pub struct Failures(Mutex<HashMap<Subject, Entry>>);

impl Failures {
    /// Records a failure, and returns the delay until the next attempt. `random` is between 0 and 1.
    pub fn failed(&self, subject: Subject, failure: &Failure, random: f64) -> Duration {
        let mut entries = lock(&self.0);
        let count = entries.get(&subject).map_or(0, |entry| entry.count);
        let backoff = BACKOFF.after_with_jitter(count, random);
        let delay = match failure.class {
            Class::RateLimited(least) => backoff.max(least.min(BACKOFF.max_delay)),
            class if class.is_transient() => backoff,
            _ => REJECTED,
        };
        let entry = Entry {
            count: count.saturating_add(1),
            until: Instant::now() + delay,
            message: failure.message.clone(),
        };
        entries.insert(subject, entry);
        delay
    }

    /// Records that the content of a message was rejected. Its Alert goes on with the next message, unless too many are rejected in a row.
    pub fn rejected(&self, alert: AlertKey, failure: &Failure) {
        let (mut entries, now) = (lock(&self.0), Instant::now());
        let subject = Subject::Alert(alert);
        // Those that are repeated after the delay are in no row with those of before.
        let recent = entries
            .get(&subject)
            .filter(|entry| now < entry.until + REJECTED / 2);
        let count = recent.map_or(0, |entry| entry.count).saturating_add(1);
        let delay = if count < MAX_IN_A_ROW {
            Duration::ZERO
        } else {
            REJECTED
        };
        let entry = Entry {
            count,
            until: now + delay,
            message: failure.message.clone(),
        };
        entries.insert(subject, entry);
    }

    /// What has failed, and the time until the next attempt.
    pub fn of(&self, subject: &Subject) -> Option<(String, Duration)> {
        let entries = lock(&self.0);
        let entry = entries.get(subject)?;
        Some((
            entry.message.clone(),
            entry.until.saturating_duration_since(Instant::now()),
        ))
    }

    /// The next attempt is due immediately.
    pub fn forget(&self, subject: &Subject) {
        lock(&self.0).remove(subject);
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
        let delay = |failure| failures.failed(provider(), &failure, 0.0).as_secs();
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
            failures.failed(provider(), &transient(), 1.0),
            Duration::from_millis(3750)
        );
        failures.forget(&provider());
        assert_eq!(delay(failure(Class::Absent)), 900, "not even the first time");
    }

    #[test]
    fn an_alert_waits_when_an_endpoint_rejects_all_of_its_messages() {
        let (failures, alert) = (Failures::default(), Subject::Alert(key("a", "x")));
        let reject = || {
            failures.rejected(key("a", "x"), &failure(Class::Absent));
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
            let mut entries = lock(&failures.0);
            let entry = entries.get_mut(&alert).unwrap();
            entry.until = entry.until.checked_sub(REJECTED).unwrap();
            drop(entries);
            assert_eq!(reject(), Duration::ZERO);
        }
    }
}
