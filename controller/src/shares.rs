//! A byte budget that is shared between namespaces.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use helmops_process::lock;

/// A namespace may use at most this multiple of the free bytes. Alone it gets three quarters of all bytes: most clusters have
/// all their HelmOps in one namespace.
const TIMES_FREE: usize = 3;

/// A byte budget for all namespaces. Clones share it.
///
/// The limit of a namespace depends on the free bytes (the dynamic threshold of shared buffers in network switches):
///
/// - The charged bytes never exceed the total.
/// - After any history, n namespaces leave at least 1/4ⁿ of the total free. One namespace leaves a quarter, of which the next
///   one can use three quarters.
/// - If n namespaces need the same number of bytes, each gets 3 / (3n + 1) of the total.
///
/// A charge that does not grow is never refused.
#[derive(Clone, Debug)]
pub struct Shares {
    total: usize,
    ledger: Arc<Mutex<Ledger>>,
}

#[derive(Debug, Default)]
struct Ledger {
    /// The used bytes of each namespace; only those that use any.
    namespaces: HashMap<String, usize>,
    used: usize,
}

/// The bytes that an object uses from the share of one namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charge<'n> {
    /// The namespace that is charged.
    pub namespace: &'n str,
    /// The number of bytes.
    pub bytes: usize,
}

impl Shares {
    /// A budget of `total` bytes, all of them free.
    pub fn new(total: usize) -> Self {
        Self {
            total,
            ledger: Arc::default(),
        }
    }

    /// Replaces charges. The namespaces within `before` and within `after` must be distinct.
    ///
    /// # Errors
    /// If a charge exceeds the limit of its namespace; the error is that charge. The previous charges stay then.
    pub fn replace<'n>(&self, before: &[Charge<'_>], after: &[Charge<'n>]) -> Result<(), Charge<'n>> {
        let mut ledger = lock(&self.ledger);
        if let Some(refused) = ledger.refused(self.total, before, after) {
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
        lock(&self.ledger).refused(self.total, &[], charges).is_none()
    }
}

impl Ledger {
    /// The charge that exceeds the limit of its namespace, if any.
    fn refused<'n>(&self, total: usize, before: &[Charge<'_>], after: &[Charge<'n>]) -> Option<Charge<'n>> {
        let free = (total + sum(before)).saturating_sub(self.used + sum(after));
        let refused = after.iter().filter(|charge| {
            let known = before.iter().find(|known| known.namespace == charge.namespace);
            let known = known.map_or(0, |known| known.bytes);
            let used = self.namespaces.get(charge.namespace).copied().unwrap_or_default();
            charge.bytes > known && used - known + charge.bytes > free.saturating_mul(TIMES_FREE)
        });
        // The largest one is reported.
        refused.max_by_key(|charge| charge.bytes).copied()
    }

    fn add(&mut self, charge: &Charge<'_>) {
        if charge.bytes == 0 {
            return;
        }
        self.used += charge.bytes;
        match self.namespaces.get_mut(charge.namespace) {
            Some(used) => *used += charge.bytes,
            None => _ = self.namespaces.insert(charge.namespace.to_owned(), charge.bytes),
        }
    }

    fn subtract(&mut self, charge: &Charge<'_>) {
        let Some(used) = self.namespaces.get_mut(charge.namespace) else {
            return;
        };
        *used -= charge.bytes;
        self.used -= charge.bytes;
        if *used == 0 {
            self.namespaces.remove(charge.namespace);
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

    fn charge(namespace: &str, bytes: usize) -> Charge<'_> {
        Charge { namespace, bytes }
    }

    fn fits(shares: &Shares, namespace: &str, bytes: usize) -> bool {
        shares.replace(&[], &[charge(namespace, bytes)]).is_ok()
    }

    fn free(shares: &Shares) -> usize {
        TOTAL - lock(&shares.ledger).used
    }

    /// Charges `step` bytes repeatedly until the limit is reached, and returns the sum.
    fn fill(shares: &Shares, namespace: &str, step: usize) -> usize {
        let mut used = 0;
        while fits(shares, namespace, step) {
            used += step;
        }
        used
    }

    #[test]
    fn one_namespace_gets_three_quarters_and_leaves_the_rest_to_others() {
        let shares = Shares::new(TOTAL);
        assert_eq!(fill(&shares, "a", 1 << 10), TOTAL / 4 * 3);
        assert_eq!(fill(&shares, "b", 1 << 10), TOTAL / 16 * 3);
        assert!(fits(&shares, "c", TOTAL / 64));
    }

    #[test]
    fn the_sum_of_many_namespaces_never_exceeds_the_total() {
        let shares = Shares::new(TOTAL);
        let used: usize = (0..1_000).map(|at| fill(&shares, &at.to_string(), 1 << 8)).sum();
        assert!(used <= TOTAL, "{used}");
    }

    #[test]
    fn a_charge_that_does_not_grow_is_never_refused() {
        let shares = Shares::new(TOTAL);
        assert!(fits(&shares, "a", TOTAL / 4 * 3) && fits(&shares, "b", TOTAL / 16 * 3));
        let before = [charge("a", TOTAL / 4 * 3)];
        assert_eq!(shares.replace(&before, &before), Ok(()));
        let grown = [charge("a", TOTAL / 4 * 3 + 1)];
        assert_eq!(shares.replace(&before, &grown), Err(grown[0]));
        assert_eq!(shares.replace(&before, &[charge("a", TOTAL / 2)]), Ok(()));
    }

    #[test]
    fn released_charges_leave_no_entries() {
        let shares = Shares::new(TOTAL);
        let both = [charge("a", 10), charge("b", 20)];
        shares.replace(&[], &both).unwrap();
        assert!(!shares.has_capacity(&[charge("c", TOTAL)]));
        shares.release(&both);
        let ledger = lock(&shares.ledger);
        assert!(ledger.namespaces.is_empty() && ledger.used == 0);
    }

    /// A sequence of events: an object in a namespace changes its size, and may be charged to a second namespace too.
    fn history() -> impl Strategy<Value = Vec<(usize, usize, usize, usize)>> {
        let size = prop_oneof![Just(0), 0..TOTAL / 64, 0..TOTAL];
        prop::collection::vec((0..6_usize, 0..4_usize, size.clone(), size), 1..200)
    }

    proptest! {
        #[test]
        fn the_sum_never_exceeds_the_total_and_a_new_namespace_gets_a_share(history in history()) {
            let names = ["a", "b", "c", "d", "e", "f"];
            let shares = Shares::new(TOTAL);
            let mut objects: HashMap<(usize, usize), Vec<Charge<'_>>> = HashMap::new();
            for (namespace, object, bytes, other) in history {
                let other = charge(names[(namespace + 1) % names.len()], other);
                let after = vec![charge(names[namespace], bytes), other];
                let before = objects.entry((namespace, object)).or_default();
                let has_grown = after.iter().any(|charge| {
                    let known = before.iter().find(|known| known.namespace == charge.namespace);
                    charge.bytes > known.map_or(0, |known| known.bytes)
                });
                let replaced = shares.replace(before, &after);
                prop_assert!(has_grown || replaced.is_ok());
                if replaced.is_ok() {
                    *before = after;
                }
                let charged: usize = objects.values().map(|charges| sum(charges)).sum();
                prop_assert_eq!(charged, TOTAL - free(&shares));
                let in_use = u32::try_from(lock(&shares.ledger).namespaces.len()).unwrap();
                prop_assert!(free(&shares) >= TOTAL / 4_usize.pow(in_use));
                let newcomer = [charge("new", free(&shares) / 4 * 3)];
                prop_assert!(shares.has_capacity(&newcomer));
            }
        }
    }
}
