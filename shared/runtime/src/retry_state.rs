//! The state of objects that is kept between reconciliations: backoff, pending writes and rate limits.

use std::hash::Hash;

use helmops_process::{ExponentialBackoff, exit::with_causes};
use kube::core::ObjectMeta;

use crate::{
    backoff::Backoff,
    error_class::{Class, ClassifiedError},
    pending_writes::PendingWrites,
    queue::RequeueAfter,
    rate::RateLimit,
};

/// How a reconciliation without an error ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// When to reconcile the object again; `None` if only a change requires it.
    pub requeue_after: RequeueAfter,
    /// What becomes of earlier failures.
    pub failures: Failures,
}

/// The failures of an object after a reconciliation without an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failures {
    /// They are forgotten.
    Reset,
    /// They stay as they are: nothing was attempted that could have ended them.
    Kept,
    /// A part of the reconciliation has failed, and the object is requeued after this backoff at the latest.
    Another(ExponentialBackoff),
}

impl Done {
    /// Only a change requires another reconciliation.
    pub const UNTIL_CHANGE: Self = Self {
        requeue_after: None,
        failures: Failures::Reset,
    };
}

/// Identifies what an object requests. When it changes, earlier failures do not count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RetryKey {
    generation: Option<i64>,
    /// The values of the annotations that request an attempt.
    requests: Vec<String>,
}

impl RetryKey {
    /// The key of an object with these metadata. A change of one of these annotations requests an attempt.
    pub fn of(metadata: &ObjectMeta, request_annotations: &[&str]) -> Self {
        let annotations = metadata.annotations.as_ref();
        let value = |name: &&str| annotations.and_then(|all| all.get(*name)).cloned();
        let requests = request_annotations
            .iter()
            .map(|name| value(name).unwrap_or_default());
        Self {
            generation: metadata.generation,
            requests: requests.collect(),
        }
    }
}

/// The retry state of the objects of a kind.
#[derive(Debug)]
pub struct RetryState<K> {
    /// Consecutive failures.
    pub backoff: Backoff<K, RetryKey>,
    /// Writes that the cache does not show yet.
    pub pending_writes: PendingWrites<K>,
    /// The rate limit of requests to repositories. It is kept when the object is deleted, or else deleting the object would evade
    /// it.
    pub requests: RateLimit<K>,
}

impl<K> Default for RetryState<K> {
    fn default() -> Self {
        Self {
            backoff: Backoff::default(),
            pending_writes: PendingWrites::default(),
            requests: RateLimit::default(),
        }
    }
}

impl<K: Clone + Eq + Hash> RetryState<K> {
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
                self.backoff.forget(key);
                None
            }
            Failures::Kept => None,
            Failures::Another(policy) => Some(self.backoff.failed(key.clone(), retry_key, policy)),
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
            Some(self.backoff.failed(key.clone(), retry_key, policy))
        } else {
            self.backoff.forget(key);
            None
        };
        let retry_after = delay.map(|delay| tracing::field::display(format!("{:.1}s", delay.as_secs_f64())));
        if class.is_benign() {
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
