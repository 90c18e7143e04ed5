//! Reads that turned out to be too large, so that they are not tried again for a while.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::Mutex,
    time::{Duration, Instant},
};

use helmops_shared::runtime::lock;

/// How long a read is not tried again. What is wanted, and what there is, changes with time.
const PAUSE: Duration = Duration::from_hours(1);

/// How many are remembered. Where there are more they are all forgotten, which costs a request each.
const MAX_KNOWN: usize = 1024;

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
    /// Whether this was too large not long ago.
    pub fn contains(&self, key: &K, now: Instant) -> bool {
        lock(&self.until).get(key).is_some_and(|until| *until > now)
    }

    /// This is too large.
    pub fn note(&self, key: K, now: Instant) {
        let mut until = lock(&self.until);
        if until.len() >= MAX_KNOWN {
            until.retain(|_, until| *until > now);
        }
        if until.len() >= MAX_KNOWN {
            until.clear();
        }
        until.insert(key, now + PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remembered_for_a_while_and_bounded() {
        let (known, now) = (Overflows::default(), Instant::now());
        known.note(0, now);
        assert!(known.contains(&0, now) && !known.contains(&1, now));
        assert!(!known.contains(&0, now + PAUSE));
        for key in 0..3 * MAX_KNOWN {
            known.note(key, now);
        }
        assert!(lock(&known.until).len() <= MAX_KNOWN);
    }
}
