//! The state of objects that is kept between reconciliations: backoff, pending writes and rate limits.

use std::{
    hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash},
    time::Duration,
};

use helmops_fair::{AtLeast, KeyedBackoff, Rate, RateLimit};
use helmops_model::reason::Reason;
use helmops_process::exit::with_causes;
use kube::core::ObjectMeta;
use tokio::time::Instant;

use crate::{
    error_class::{Class, ClassifiedError},
    pending_writes::PendingWrites,
    queue::RequeueAfter,
};

/// Requests for one object before they are limited. Users who correct a Secret, a version and a URL one after the other see the
/// result of each immediately.
const BURST: u32 = 10;

/// How a reconciliation without an error ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// When to reconcile the object again; `None` if only a change requires it.
    pub requeue_after: RequeueAfter,
    /// What becomes of earlier failures.
    pub failures: Failures,
    /// What metrics count it as; `None` for a success.
    pub counts_as: Option<Reason>,
}

/// The failures of an object after a reconciliation without an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failures {
    /// The failures are forgotten.
    Reset,
    /// They stay as they are: nothing was attempted that could have ended them.
    Kept,
    /// A part of the reconciliation has failed, and the object is requeued after this backoff at the latest.
    Another(AtLeast),
}

impl Done {
    /// Only a change requires another reconciliation.
    pub const UNTIL_CHANGE: Self = Self {
        requeue_after: None,
        failures: Failures::Reset,
        counts_as: None,
    };

    /// A part of the reconciliation has failed, which is logged and retried as after that error. What is due at `next` does not wait for it.
    pub fn after(error: &impl ClassifiedError, next: RequeueAfter) -> Self {
        let class = error.class();
        let (reason, text) = (error.reason(), with_causes(error));
        if class.is_benign() || class == Class::Outage {
            tracing::debug!(error = text, "a part of the reconciliation was interrupted");
        } else {
            tracing::warn!(
                reason = reason.as_str(),
                error = text,
                "a part of the reconciliation failed"
            );
        }
        let (failures, wait) = match class {
            Class::Postponed(wait) => (Failures::Kept, Some(wait)),
            _ => (
                class.backoff_policy().map_or(Failures::Reset, Failures::Another),
                None,
            ),
        };
        Self {
            requeue_after: next.into_iter().chain(wait).min(),
            failures,
            counts_as: Some(reason),
        }
    }
}

/// Identifies what an object requests. When it changes, earlier failures do not count.
///
/// It is small, whatever users write into annotations, as one is stored with each failure.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RetryKey {
    generation: Option<i64>,
    /// A hash of the values of the annotations that request an attempt. A user who makes two of them equal only waits longer for an
    /// attempt of their own.
    requests: u64,
}

impl RetryKey {
    /// The key of an object with these metadata. A change of one of these annotations requests an attempt.
    pub fn of(metadata: &ObjectMeta, request_annotations: &[&str]) -> Self {
        let annotations = metadata.annotations.as_ref();
        let value = |name: &&str| annotations.and_then(|all| all.get(*name));
        let requests: Vec<_> = request_annotations.iter().map(value).collect();
        Self {
            generation: metadata.generation,
            requests: BuildHasherDefault::<DefaultHasher>::default().hash_one(requests),
        }
    }
}

/// The retry state of the objects of a kind.
#[derive(Debug)]
pub struct RetryState<K> {
    /// Consecutive failures, of what the object requested then. When that changes, the count starts again.
    ///
    /// Each failed object has a retry due, which ends in success or in the deletion of the object. Both remove its entry, so there
    /// are never more entries than objects.
    failures: KeyedBackoff<K, RetryKey>,
    /// Writes that the cache does not show yet.
    pub pending_writes: PendingWrites<K>,
    /// The rate limit of requests to repositories. It is kept when the object is deleted, or else deleting the object would evade
    /// it.
    requests: RateLimit<K>,
}

impl<K: Clone + Eq + Hash> Default for RetryState<K> {
    fn default() -> Self {
        Self {
            failures: KeyedBackoff::new(usize::MAX),
            pending_writes: PendingWrites::default(),
            requests: RateLimit::default(),
        }
    }
}

impl<K: Clone + Eq + Hash> RetryState<K> {
    /// Records a failure of an object, and returns the time until the retry.
    pub fn failed(&self, key: &K, retry_key: RetryKey, policy: impl Into<AtLeast>) -> Duration {
        let now = Instant::now().into_std();
        self.failures.retain(key, now, |known, _| *known == retry_key);
        let random = fastrand::f64();
        self.failures.failed(key.clone(), retry_key, policy, random, now)
    }

    /// The rest of the longest delay, if the object has failed with the same request and the delay is not over.
    pub fn remaining(&self, key: &K, retry_key: &RetryKey) -> Option<Duration> {
        let failed = self.failures.remaining(key, Instant::now().into_std());
        failed
            .filter(|(known, _)| known == retry_key)
            .map(|(_, rest)| rest)
    }

    /// Forgets the failures of an object.
    pub fn forget(&self, key: &K) {
        self.failures.forget(key);
    }

    /// Forgets all failures.
    pub fn forget_all(&self) {
        self.failures.forget_all();
    }

    /// Takes a permit for the requests of an object, which gets one back per interval.
    ///
    /// # Errors
    /// If there is none; the error is the time until the next one.
    pub fn request(&self, key: K, interval: Duration) -> Result<(), Duration> {
        let rate = Rate {
            burst: BURST,
            interval,
        };
        self.requests.take(key, rate, Instant::now().into_std())
    }

    /// When to requeue an object after a reconciliation; `None` if only a change requeues it.
    pub fn requeue_after(
        &self,
        key: &K,
        retry_key: RetryKey,
        result: Result<Done, impl ClassifiedError>,
    ) -> RequeueAfter {
        match result {
            Ok(done) => self.done(key, retry_key, done),
            Err(error) => self.retry_after(key, retry_key, &error),
        }
    }

    fn done(&self, key: &K, retry_key: RetryKey, done: Done) -> RequeueAfter {
        let retry_after = match done.failures {
            Failures::Reset => {
                self.forget(key);
                None
            }
            Failures::Kept => None,
            Failures::Another(policy) => Some(self.failed(key, retry_key, policy)),
        };
        done.requeue_after.into_iter().chain(retry_after).min()
    }

    /// When to retry after an error; `None` if it is not retried until something changes.
    fn retry_after(&self, key: &K, retry_key: RetryKey, error: &impl ClassifiedError) -> RequeueAfter {
        let class = error.class();
        if let Class::Postponed(wait) = class {
            // Not a failure: nothing was attempted.
            return Some(wait);
        }
        let delay = if let Some(policy) = class.backoff_policy() {
            Some(self.failed(key, retry_key, policy))
        } else {
            self.forget(key);
            None
        };
        let retry_after = delay.map(|delay| tracing::field::display(format!("{:.1}s", delay.as_secs_f64())));
        if class.is_benign() || class == Class::Outage {
            tracing::debug!(
                retry_after,
                error = with_causes(error),
                "reconciliation interrupted"
            );
        } else if delay.is_some() {
            tracing::warn!(
                reason = error.reason().as_str(),
                retry_after,
                error = with_causes(error),
                "reconciliation failed; retrying"
            );
        } else {
            tracing::warn!(
                reason = error.reason().as_str(),
                error = with_causes(error),
                "reconciliation failed; not retried until an object that it depends on changes"
            );
        }
        delay
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::{
        backoff::{SLOW, TRANSIENT},
        error_class::{Classified, classified},
    };

    fn requested(generation: i64) -> RetryKey {
        RetryKey {
            generation: Some(generation),
            requests: 0,
        }
    }

    #[test]
    fn another_request_starts_the_count_again() {
        let state = RetryState::default();
        for _ in 0..3 {
            state.failed(&"a", requested(1), SLOW);
        }
        let left = |generation| state.remaining(&"a", &requested(generation));
        assert!(left(1) > Some(Duration::from_secs(3)));
        assert_eq!((left(2), state.remaining(&"b", &requested(1))), (None, None));
        assert!(state.failed(&"a", requested(2), TRANSIENT) <= TRANSIENT.initial_delay);
        assert_eq!(left(1), None);
        state.forget_all();
        assert_eq!(left(2), None);
    }

    /// An error of a class.
    #[derive(Debug, thiserror::Error)]
    #[error("it failed")]
    struct Failed(Class);

    impl ClassifiedError for Failed {
        fn classify(&self) -> Classified {
            classified(Reason::Progressing, self.0)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_retry_of_a_part_does_not_delay_what_is_due_earlier() {
        let state = RetryState::default();
        let (soon, late) = (Duration::from_millis(1), Duration::from_hours(1));
        let after = |class: Class, next: RequeueAfter| {
            let done = Done::after(&Failed(class), next);
            state.requeue_after(&"a", requested(1), Ok::<_, Failed>(done))
        };
        for _ in 0..5 {
            assert_eq!(after(Class::TRANSIENT, Some(soon)), Some(soon));
            tokio::time::advance(TRANSIENT.max_delay).await;
        }
        assert!(after(Class::TRANSIENT, Some(late)) < Some(TRANSIENT.max_delay));
        assert!(
            after(Class::TRANSIENT, None) > Some(TRANSIENT.initial_delay),
            "the failures count"
        );
        assert_eq!(after(Class::Permanent, Some(late)), Some(late));
        assert_eq!(after(Class::Permanent, None), None);
        assert_eq!(after(Class::Postponed(soon), Some(late)), Some(soon));
    }

    #[test]
    fn the_size_of_annotations_does_not_matter_but_their_values_do() {
        let key = |value: &str| {
            let annotations = [("example.com/requested-at".to_owned(), value.to_owned())];
            let metadata = ObjectMeta {
                annotations: Some(annotations.into()),
                ..ObjectMeta::default()
            };
            RetryKey::of(&metadata, &["example.com/requested-at"])
        };
        let long = "x".repeat(256 * 1024);
        assert_eq!(key(&long), key(&long));
        assert_ne!(key(&long), key(&long[1..]));
        assert_ne!(
            key(""),
            RetryKey::of(&ObjectMeta::default(), &["example.com/requested-at"])
        );
        assert!(format!("{:?}", key(&long)).len() < 100);
    }

    #[test]
    fn the_jitter_of_an_object_is_different_after_each_failure() {
        let state = RetryState::default();
        let delays: HashSet<_> = (0..8)
            .map(|generation| state.failed(&"a", requested(generation), TRANSIENT))
            .collect();
        assert!(delays.len() > 1, "{delays:?}");
    }
}
