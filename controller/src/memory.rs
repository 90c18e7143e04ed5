//! What is remembered of objects between two looks at them.

use std::{fmt, hash::Hash};

use crate::{backoff::Backoff, bundle::DeliveryError, queue::Next, written::Written};

/// What is remembered of the objects of a kind.
#[derive(Debug)]
pub struct Memory<K> {
    /// Failures in a row, by what was asked for: the generation.
    pub backoff: Backoff<K, Option<i64>>,
    /// Statuses that were written and have not been seen yet.
    pub written: Written<K>,
}

impl<K> Default for Memory<K> {
    fn default() -> Self {
        Self {
            backoff: Backoff::default(),
            written: Written::default(),
        }
    }
}

impl<K: Clone + Eq + Hash + fmt::Display> Memory<K> {
    /// Forgets an object that is gone.
    pub fn forget(&self, key: &K) {
        self.backoff.forget(key);
        self.written.forget(key);
    }

    /// When to try again after a failure.
    pub fn retry(&self, key: &K, generation: Option<i64>, error: &DeliveryError) -> Next {
        if error.is_passing() {
            tracing::debug!(%error, "not done; it is looked at again");
        } else {
            tracing::warn!(reason = error.reason().as_str(), %error, "not done; it is tried again");
        }
        let Some(pace) = error.pace() else {
            self.backoff.forget(key);
            return None;
        };
        Some(self.backoff.failed(key.clone(), generation, pace))
    }
}
