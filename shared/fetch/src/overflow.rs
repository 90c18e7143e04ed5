//! Remembers reads that exceeded their limit, so that they are not retried for a while.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::Mutex,
    time::{Duration, Instant},
};

use helmops_process::lock;

/// A read is retried after this time, because the requested charts and the index may have changed.
const RETRY_AFTER: Duration = Duration::from_hours(1);

/// How many reads are remembered. Above this number all are forgotten, which costs one request each.
const MAX_ENTRIES: usize = 1024;

/// Keys of reads that were too large.
#[derive(Debug)]
pub struct Overflows<K> {
    until: Mutex<HashMap<K, Instant>>,
}

impl<K> Default for Overflows<K> {
    fn default() -> Self {
        Self {
            until: Mutex::default(),
        }
    }
}

impl<K: Eq + Hash> Overflows<K> {
    /// Whether this read was too large recently.
    pub fn contains(&self, key: &K, now: Instant) -> bool {
        lock(&self.until).get(key).is_some_and(|until| *until > now)
    }

    /// Records that this read was too large.
    pub fn record(&self, key: K, now: Instant) {
        let mut until = lock(&self.until);
        if until.len() >= MAX_ENTRIES {
            until.retain(|_, until| *until > now);
        }
        if until.len() >= MAX_ENTRIES {
            until.clear();
        }
        until.insert(key, now + RETRY_AFTER);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_expire_and_their_number_is_bounded() {
        let (overflows, now) = (Overflows::default(), Instant::now());
        overflows.record(0, now);
        assert!(overflows.contains(&0, now) && !overflows.contains(&1, now));
        assert!(!overflows.contains(&0, now + RETRY_AFTER));
        for key in 0..3 * MAX_ENTRIES {
            overflows.record(key, now);
        }
        assert!(lock(&overflows.until).len() <= MAX_ENTRIES);
    }
}
