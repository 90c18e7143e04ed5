//! A byte budget that is shared between keys, such as the namespaces of tenants.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use thiserror::Error;

use crate::lock;

/// Reservations grow in steps of this size, so that most growths do nothing.
const STEP: usize = 64 << 10;

/// A byte budget for all keys. Clones share it.
///
/// The limit of a key depends on the free bytes (the dynamic threshold of shared buffers in network switches): it may use at most a
/// multiple of them. For [`Share::Half`] and [`Share::ThreeQuarters`]:
///
/// - The charged bytes never exceed the total.
/// - A key alone gets 1/2 (3/4). After any history, n keys leave at least 1/2ⁿ (1/4ⁿ) of the total free, and the next one gets
///   1/2 (3/4) of that.
/// - If n keys need the same number of bytes, each gets 1 / (n + 1) (3 / (3n + 1)) of the total.
///
/// A charge that does not grow is never refused.
#[derive(Clone, Debug)]
pub struct ByteBudget {
    total: usize,
    share: Share,
    ledger: Arc<Mutex<Ledger>>,
}

/// What a key gets if no other one uses anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// Half of the bytes: where others may need some at any time.
    Half,
    /// Three quarters of the bytes: where most systems have only one key.
    ThreeQuarters,
}

/// A key has no memory left, because of what it uses itself and what others use.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("the share of the memory is used up")]
pub struct OverBudget;

/// Reserved bytes, released when dropped.
#[derive(Debug)]
pub struct Reservation {
    budget: ByteBudget,
    key: Arc<str>,
    bytes: usize,
}

#[derive(Debug, Default)]
struct Ledger {
    /// The used bytes of each key; only those that use any.
    keys: HashMap<Arc<str>, usize>,
    used: usize,
}

/// The bytes that something uses from the share of one key. Unlike a [`Reservation`], its owner has to release it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charge<'n> {
    /// The key that is charged.
    pub key: &'n str,
    /// The number of bytes.
    pub bytes: usize,
}

impl ByteBudget {
    /// A budget of `total` bytes, all of them free.
    pub fn new(total: usize, share: Share) -> Self {
        Self {
            total,
            share,
            ledger: Arc::default(),
        }
    }

    /// An empty reservation of a key.
    pub fn reservation(&self, key: impl Into<Arc<str>>) -> Reservation {
        Reservation {
            budget: self.clone(),
            key: key.into(),
            bytes: 0,
        }
    }

    /// Replaces charges. The keys within `before` and within `after` must be distinct.
    ///
    /// # Errors
    /// If a charge exceeds the limit of its key; the error is that charge. The previous charges stay then.
    pub fn replace<'n>(&self, before: &[Charge<'_>], after: &[Charge<'n>]) -> Result<(), Charge<'n>> {
        let mut ledger = lock(&self.ledger);
        if let Some(refused) = self.refused(&ledger, before, after) {
            return Err(refused);
        }
        for charge in before {
            ledger.subtract(charge);
        }
        for charge in after {
            ledger.add(charge);
        }
        Ok(())
    }

    /// Releases charges.
    pub fn release(&self, charges: &[Charge<'_>]) {
        let mut ledger = lock(&self.ledger);
        for charge in charges {
            ledger.subtract(charge);
        }
    }

    /// Whether additional charges are within the limits.
    pub fn has_capacity(&self, charges: &[Charge<'_>]) -> bool {
        self.refused(&lock(&self.ledger), &[], charges).is_none()
    }

    /// The charge that exceeds the limit of its key, if any.
    fn refused<'n>(
        &self,
        ledger: &Ledger,
        before: &[Charge<'_>],
        after: &[Charge<'n>],
    ) -> Option<Charge<'n>> {
        let free = self.total.saturating_add(sum(before));
        let free = free.saturating_sub(ledger.used.saturating_add(sum(after)));
        let limit = free.saturating_mul(self.share.times_free());
        let refused = after.iter().filter(|charge| {
            let known = before.iter().find(|known| known.key == charge.key);
            let known = known.map_or(0, |known| known.bytes);
            let used = ledger.keys.get(charge.key).copied().unwrap_or_default();
            charge.bytes > known && (used - known).saturating_add(charge.bytes) > limit
        });
        // The largest one is reported.
        refused.max_by_key(|charge| charge.bytes).copied()
    }
}

impl Share {
    /// The multiple of the free bytes that a key may use.
    const fn times_free(self) -> usize {
        match self {
            Self::Half => 1,
            Self::ThreeQuarters => 3,
        }
    }
}

impl Reservation {
    /// The key that is charged.
    pub const fn key(&self) -> &Arc<str> {
        &self.key
    }

    /// The reserved bytes.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Changes the reservation to exactly this size.
    ///
    /// # Errors
    /// If it grows and exceeds the limit of its key. It stays as it was then.
    pub fn resize(&mut self, bytes: usize) -> Result<(), OverBudget> {
        let charge = |bytes| {
            [Charge {
                key: &self.key,
                bytes,
            }]
        };
        let replaced = self.budget.replace(&charge(self.bytes), &charge(bytes));
        replaced.map_err(|_| OverBudget)?;
        self.bytes = bytes;
        Ok(())
    }

    /// Grows the reservation to at least this size, in steps, so that most calls do nothing.
    ///
    /// # Errors
    /// If it exceeds the limit of its key. It stays as it was then.
    pub fn grow_to(&mut self, bytes: usize) -> Result<(), OverBudget> {
        if bytes <= self.bytes {
            return Ok(());
        }
        self.resize(bytes.next_multiple_of(STEP))
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.release(&[Charge {
            key: &self.key,
            bytes: self.bytes,
        }]);
    }
}

impl Ledger {
    fn add(&mut self, charge: &Charge<'_>) {
        if charge.bytes == 0 {
            return;
        }
        self.used += charge.bytes;
        match self.keys.get_mut(charge.key) {
            Some(used) => *used += charge.bytes,
            None => _ = self.keys.insert(charge.key.into(), charge.bytes),
        }
    }

    fn subtract(&mut self, charge: &Charge<'_>) {
        let Some(used) = self.keys.get_mut(charge.key) else {
            return;
        };
        *used -= charge.bytes;
        self.used -= charge.bytes;
        if *used == 0 {
            self.keys.remove(charge.key);
        }
    }
}

fn sum(charges: &[Charge<'_>]) -> usize {
    charges.iter().map(|charge| charge.bytes).sum()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TOTAL: usize = 1 << 20;

    fn charge(key: &str, bytes: usize) -> Charge<'_> {
        Charge { key, bytes }
    }

    fn fits(shares: &ByteBudget, namespace: &str, bytes: usize) -> bool {
        shares.replace(&[], &[charge(namespace, bytes)]).is_ok()
    }

    fn free(shares: &ByteBudget) -> usize {
        TOTAL - lock(&shares.ledger).used
    }

    /// Charges `step` bytes repeatedly until the limit is reached, and returns the sum.
    fn fill(shares: &ByteBudget, namespace: &str, step: usize) -> usize {
        let mut used = 0;
        while fits(shares, namespace, step) {
            used += step;
        }
        used
    }

    #[test]
    fn one_namespace_gets_three_quarters_and_leaves_the_rest_to_others() {
        let shares = ByteBudget::new(TOTAL, Share::ThreeQuarters);
        assert_eq!(fill(&shares, "a", 1 << 10), TOTAL / 4 * 3);
        assert_eq!(fill(&shares, "b", 1 << 10), TOTAL / 16 * 3);
        assert!(fits(&shares, "c", TOTAL / 64));
    }

    #[test]
    fn the_sum_of_many_namespaces_never_exceeds_the_total() {
        let shares = ByteBudget::new(TOTAL, Share::ThreeQuarters);
        let used: usize = (0..1_000).map(|at| fill(&shares, &at.to_string(), 1 << 8)).sum();
        assert!(used <= TOTAL, "{used}");
    }

    #[test]
    fn a_charge_that_does_not_grow_is_never_refused() {
        let shares = ByteBudget::new(TOTAL, Share::ThreeQuarters);
        assert!(fits(&shares, "a", TOTAL / 4 * 3) && fits(&shares, "b", TOTAL / 16 * 3));
        let before = [charge("a", TOTAL / 4 * 3)];
        assert_eq!(shares.replace(&before, &before), Ok(()));
        let grown = [charge("a", TOTAL / 4 * 3 + 1)];
        assert_eq!(shares.replace(&before, &grown), Err(grown[0]));
        assert_eq!(shares.replace(&before, &[charge("a", TOTAL / 2)]), Ok(()));
    }

    #[test]
    fn released_charges_leave_no_entries() {
        let shares = ByteBudget::new(TOTAL, Share::ThreeQuarters);
        let both = [charge("a", 10), charge("b", 20)];
        shares.replace(&[], &both).unwrap();
        assert!(!shares.has_capacity(&[charge("c", TOTAL)]));
        shares.release(&both);
        let ledger = lock(&shares.ledger);
        assert!(ledger.keys.is_empty() && ledger.used == 0);
    }

    #[test]
    fn half_is_for_one_key_and_a_quarter_for_the_next() {
        let budget = ByteBudget::new(TOTAL, Share::Half);
        assert_eq!(fill(&budget, "a", 1 << 10), TOTAL / 2);
        assert_eq!(fill(&budget, "b", 1 << 10), TOTAL / 4);
        assert_eq!(fill(&budget, "c", 1 << 10), TOTAL / 8);
    }

    #[test]
    fn a_reservation_grows_in_steps_and_is_released_when_dropped() {
        let budget = ByteBudget::new(16 * STEP, Share::Half);
        let mut one = budget.reservation("a");
        for bytes in [1, 10, STEP, STEP + 1, 2] {
            assert_eq!(one.grow_to(bytes), Ok(()));
        }
        assert_eq!(one.bytes(), 2 * STEP);
        assert_eq!(one.resize(8 * STEP), Ok(()));
        let mut two = budget.reservation("a");
        assert_eq!((two.grow_to(1), two.bytes()), (Err(OverBudget), 0));
        assert_eq!((one.resize(9 * STEP), one.bytes()), (Err(OverBudget), 8 * STEP));
        assert_eq!(budget.reservation("b").resize(4 * STEP), Ok(()), "another key");
        assert_eq!((one.resize(10), two.resize(20)), (Ok(()), Ok(())));
        assert_eq!(lock(&budget.ledger).used, 30);
        drop((one, two));
        let ledger = lock(&budget.ledger);
        assert!(ledger.keys.is_empty() && ledger.used == 0);
    }

    /// A sequence of events: an object in a namespace changes its size, and may be charged to a second namespace too.
    fn history() -> impl Strategy<Value = Vec<(usize, usize, usize, usize)>> {
        let size = prop_oneof![Just(0), 0..TOTAL / 64, 0..TOTAL];
        prop::collection::vec((0..6_usize, 0..4_usize, size.clone(), size), 1..200)
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn the_sum_never_exceeds_the_total_and_a_new_namespace_gets_a_share(history in history()) {
            let names = ["a", "b", "c", "d", "e", "f"];
            let shares = ByteBudget::new(TOTAL, Share::ThreeQuarters);
            let mut objects: HashMap<(usize, usize), Vec<Charge<'_>>> = HashMap::new();
            for (namespace, object, bytes, other) in history {
                let other = charge(names[(namespace + 1) % names.len()], other);
                let after = vec![charge(names[namespace], bytes), other];
                let before = objects.entry((namespace, object)).or_default();
                let has_grown = after.iter().any(|charge| {
                    let known = before.iter().find(|known| known.key == charge.key);
                    charge.bytes > known.map_or(0, |known| known.bytes)
                });
                let replaced = shares.replace(before, &after);
                prop_assert!(has_grown || replaced.is_ok());
                if replaced.is_ok() {
                    *before = after;
                }
                let charged: usize = objects.values().map(|charges| sum(charges)).sum();
                prop_assert_eq!(charged, TOTAL - free(&shares));
                let in_use = u32::try_from(lock(&shares.ledger).keys.len()).unwrap();
                prop_assert!(free(&shares) >= TOTAL / 4_usize.pow(in_use));
                let newcomer = [charge("new", free(&shares) / 4 * 3)];
                prop_assert!(shares.has_capacity(&newcomer));
            }
        }
    }
}
