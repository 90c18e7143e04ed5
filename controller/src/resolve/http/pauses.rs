//! Who is spared after a failure, and for how long.

use std::{
    collections::{BTreeSet, HashMap},
    hash::{BuildHasher, Hash, RandomState},
    sync::Mutex,
    time::{Duration, Instant},
};

use helmops_shared::runtime::lock;

use super::fault::Fault;
use crate::backoff::Pace;

/// Pauses that are remembered. One that is forgotten costs a request that fails again.
const MAX_PAUSES: usize = 4096;
/// Pauses of our own making: what is back is noticed within the longest.
const TROUBLE: Pace = Pace {
    first: Duration::from_secs(1),
    longest: Duration::from_secs(30),
};
/// Longest pause that a server can ask for.
pub const LONGEST_ASKED: Duration = Duration::from_hours(1);
/// Pauses after a 429 that names no time.
const LIMITED: Pace = Pace {
    first: Duration::from_secs(10),
    longest: LONGEST_ASKED,
};

/// Pauses by what failed. The number of keys is bounded: when it is reached, the pause that ends first, or has ended for
/// the longest time, makes room.
#[derive(Debug, Default)]
pub struct Pauses {
    random: RandomState,
    known: Mutex<Known>,
}

/// What a pause is for: a keyed hash, which no sender of requests can aim at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(u64);

#[derive(Debug, Default)]
struct Known {
    pauses: HashMap<Key, Pause>,
    by_end: BTreeSet<(Instant, Key)>,
}

#[derive(Clone, Debug)]
struct Pause {
    failures: u32,
    until: Instant,
    fault: Fault,
}

impl Pauses {
    /// The key of something.
    pub fn key(&self, what: impl Hash) -> Key {
        Key(self.random.hash_one(what))
    }

    /// Whether a request may be sent.
    ///
    /// # Errors
    /// What the last one failed with, during the pause after it.
    pub fn check(&self, key: Key) -> Result<(), Fault> {
        match lock(&self.known).pauses.get(&key) {
            Some(pause) if pause.is_on(Instant::now()) => Err(pause.fault.clone()),
            _ => Ok(()),
        }
    }

    /// A request was answered. A pause that the server asked for holds, whatever comes of requests that were under way
    /// already.
    pub fn answered(&self, key: Key) {
        let mut known = lock(&self.known);
        let is_limited = known.pauses.get(&key).is_some_and(|pause| {
            matches!(pause.fault, Fault::RateLimited { .. }) && pause.is_on(Instant::now())
        });
        if !is_limited {
            known.remove(key);
        }
    }

    /// A request failed.
    pub fn failed(&self, key: Key, fault: &Fault) {
        let now = Instant::now();
        let mut known = lock(&self.known);
        let before = known.remove(key);
        let paused = before.clone().filter(|pause| pause.is_on(now));
        let failures = before.map_or(0, |pause| pause.failures);
        // What was under way together fails together, and counts once.
        let failures = failures.saturating_add(u32::from(paused.is_none()));
        let until = now + pause(fault, failures.saturating_sub(1));
        let pause = match paused {
            Some(longer) if longer.until >= until => longer,
            _ => Pause {
                failures,
                until,
                fault: fault.clone(),
            },
        };
        known.insert(key, pause);
    }
}

impl Pause {
    fn is_on(&self, now: Instant) -> bool {
        now < self.until
    }
}

impl Known {
    fn insert(&mut self, key: Key, pause: Pause) {
        while self.pauses.len() >= MAX_PAUSES {
            let Some((_, first)) = self.by_end.pop_first() else {
                break;
            };
            self.pauses.remove(&first);
        }
        self.by_end.insert((pause.until, key));
        self.pauses.insert(key, pause);
    }

    fn remove(&mut self, key: Key) -> Option<Pause> {
        let pause = self.pauses.remove(&key)?;
        self.by_end.remove(&(pause.until, key));
        Some(pause)
    }
}

/// How long the pause is after a failure, `failures` others before it.
fn pause(fault: &Fault, failures: u32) -> Duration {
    match fault {
        Fault::RateLimited {
            after: Some(after), ..
        } => (*after).clamp(TROUBLE.first, LONGEST_ASKED),
        Fault::RateLimited { after: None, .. } => LIMITED.after(failures),
        _ => TROUBLE.after(failures),
    }
}

#[cfg(test)]
mod tests {
    use reqwest::StatusCode;

    use super::*;

    fn limited(after: Option<Duration>) -> Fault {
        Fault::RateLimited {
            status: StatusCode::TOO_MANY_REQUESTS,
            after,
        }
    }

    #[test]
    fn pauses_double_and_end() {
        let secs = |failures| pause(&Fault::Refused, failures).as_secs();
        assert_eq!([secs(0), secs(1), secs(4), secs(5), secs(99)], [1, 2, 16, 30, 30]);
        let limited = |after: Option<u64>, failures| {
            pause(&limited(after.map(Duration::from_secs)), failures).as_secs()
        };
        assert_eq!(limited(Some(7), 5), 7, "the server's word counts");
        assert_eq!(limited(Some(0), 0), 1);
        assert_eq!(limited(Some(u64::MAX), 0), 3600);
        assert_eq!([limited(None, 0), limited(None, 1)], [10, 20]);
    }

    #[test]
    fn what_failed_is_spared_and_others_are_not() {
        let pauses = Pauses::default();
        let (a, b) = (pauses.key("a"), pauses.key("b"));
        pauses.failed(a, &Fault::Refused);
        assert!(matches!(pauses.check(a), Err(Fault::Refused)));
        assert!(pauses.check(b).is_ok());
        pauses.answered(a);
        assert!(pauses.check(a).is_ok());
    }

    /// How long the pause is after these.
    fn spared(faults: &[&Fault]) -> Duration {
        let pauses = Pauses::default();
        let key = pauses.key("a");
        for fault in faults {
            pauses.failed(key, fault);
        }
        let until = lock(&pauses.known).pauses[&key].until;
        until - Instant::now()
    }

    #[test]
    fn what_was_under_way_together_fails_together_and_counts_once() {
        let six = spared(&[&Fault::Refused; 6]);
        assert!(six <= TROUBLE.first, "{six:?}");
    }

    #[test]
    fn what_the_server_asks_for_is_not_cut_short() {
        let limited = limited(Some(LONGEST_ASKED));
        for faults in [[&limited, &Fault::Refused], [&Fault::Refused, &limited]] {
            let pause = spared(&faults);
            assert!(pause > TROUBLE.longest, "{pause:?}");
        }
        let pauses = Pauses::default();
        let key = pauses.key("a");
        pauses.failed(key, &limited);
        pauses.answered(key);
        assert!(pauses.check(key).is_err());
    }

    #[test]
    fn after_a_success_the_first_pause_is_short_again() {
        let pauses = Pauses::default();
        let key = pauses.key("a");
        for _ in 0..2 {
            let long = Pause {
                failures: 5,
                until: Instant::now(),
                fault: Fault::Refused,
            };
            lock(&pauses.known).insert(key, long);
            pauses.answered(key);
            pauses.failed(key, &Fault::Refused);
            let until = lock(&pauses.known).pauses[&key].until;
            assert!(until <= Instant::now() + TROUBLE.first);
            pauses.answered(key);
        }
    }

    #[test]
    fn their_number_is_bounded_and_the_longest_stay() {
        let pauses = Pauses::default();
        let long = pauses.key("long");
        pauses.failed(long, &limited(Some(LONGEST_ASKED)));
        for number in 0..20_000 {
            pauses.failed(pauses.key(number), &Fault::Refused);
            assert!(lock(&pauses.known).pauses.len() <= MAX_PAUSES);
        }
        let known = lock(&pauses.known);
        assert_eq!(known.pauses.len(), known.by_end.len());
        drop(known);
        assert!(pauses.check(long).is_err());
        assert!(pauses.check(pauses.key(19_999)).is_err(), "the newest is kept");
    }
}
