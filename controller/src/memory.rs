//! What is remembered of objects between two looks at them.

use std::{error::Error, hash::Hash};

use helmops_shared::{reason::Reason, runtime::exit::with_causes};

use crate::{
    backoff::{Backoff, Pace},
    queue::Next,
    rate::RateLimit,
    written::PendingWrites,
};

/// Why something was not brought about.
pub trait Failure: Error {
    /// In a word.
    fn reason(&self) -> Reason;
    /// When to try again; `None` for never, before something changes.
    fn pace(&self) -> Option<Pace>;
    /// Whether there is nothing to tell a user: somebody else was quicker, or leads, or the process stops.
    fn is_benign(&self) -> bool;
}

/// What is remembered of the objects of a kind. `W` is what an object asks for: once it asks for something else, failures
/// before that no longer count.
#[derive(Debug)]
pub struct RetryState<K, W> {
    /// Failures in a row.
    pub backoff: Backoff<K, W>,
    /// Statuses that were written and have not been seen yet.
    pub written: PendingWrites<K>,
    /// How often repositories are requested. It outlasts the object, or deleting it would be a way around.
    pub requests: RateLimit<K>,
}

impl<K, W> Default for RetryState<K, W> {
    fn default() -> Self {
        Self {
            backoff: Backoff::default(),
            written: PendingWrites::default(),
            requests: RateLimit::default(),
        }
    }
}

impl<K: Clone + Eq + Hash, W: PartialEq> RetryState<K, W> {
    /// Forgets an object that is gone.
    pub fn forget(&self, key: &K) {
        self.backoff.forget(key);
        self.written.forget(key);
    }

    /// When to come back to an object that was worked on, if not only when something changes.
    pub fn ended(&self, key: &K, asked: W, result: Result<(), impl Failure>) -> Next {
        match result {
            Ok(()) => {
                self.backoff.forget(key);
                None
            }
            Err(failure) => self.retry(key, asked, &failure),
        }
    }

    /// When to try again after a failure.
    pub fn retry(&self, key: &K, asked: W, failure: &impl Failure) -> Next {
        if failure.is_benign() {
            tracing::debug!(
                error = with_causes(failure),
                "reconciliation interrupted; requeued"
            );
        } else {
            tracing::warn!(
                reason = failure.reason().as_str(),
                error = with_causes(failure),
                "reconciliation failed; retrying"
            );
        }
        let Some(pace) = failure.pace() else {
            self.backoff.forget(key);
            return None;
        };
        Some(self.backoff.failed(key.clone(), asked, pace))
    }
}
