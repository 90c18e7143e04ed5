//! Bytes that namespaces share.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use helmops_shared::runtime::lock;

/// A namespace may use so many times what is left free for others. Alone it has three quarters of all bytes: most clusters
/// have all their HelmOps in one namespace.
const TIMES_FREE: usize = 3;

/// A number of bytes for all namespaces. Clones share it.
///
/// The limit of a namespace depends on what is free (the dynamic threshold of shared buffers in network switches):
///
/// - What is charged never exceeds the total.
/// - After any history, n namespaces leave at least a 4ⁿth of the total free. One namespace leaves a quarter, of which the
///   next one has three quarters.
/// - Where n namespaces need the same, each has 3 / (3n + 1) of the total.
///
/// What does not grow is never refused.
#[derive(Clone, Debug)]
pub struct Shares {
    total: usize,
    ledger: Arc<Mutex<Ledger>>,
}

#[derive(Debug, Default)]
struct Ledger {
    /// Only namespaces that use something.
    namespaces: HashMap<String, usize>,
    used: usize,
}

/// What an object takes of one namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charge<'n> {
    /// The namespace.
    pub namespace: &'n str,
    /// In bytes.
    pub bytes: usize,
}

impl Shares {
    /// None of `total` bytes is used yet.
    pub fn new(total: usize) -> Self {
        Self {
            total,
            ledger: Arc::default(),
        }
    }

    /// Puts charges in place of the ones before. Each of both has distinct namespaces.
    ///
    /// # Errors
    /// The charge that there is no room for. The charges before stay then.
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

    /// Takes charges back.
    pub fn release(&self, charges: &[Charge<'_>]) {
        let mut ledger = lock(&self.ledger);
        for charge in charges {
            ledger.subtract(charge);
        }
    }

    /// Whether there is room for charges.
    pub fn has_room(&self, charges: &[Charge<'_>]) -> bool {
        lock(&self.ledger).refused(self.total, &[], charges).is_none()
    }
}

impl Ledger {
    fn refused<'n>(&self, total: usize, before: &[Charge<'_>], after: &[Charge<'n>]) -> Option<Charge<'n>> {
        let free = (total + sum(before)).saturating_sub(self.used + sum(after));
        let refused = after.iter().filter(|charge| {
            let known = before.iter().find(|known| known.namespace == charge.namespace);
            let known = known.map_or(0, |known| known.bytes);
            let used = self.namespaces.get(charge.namespace).copied().unwrap_or_default();
            charge.bytes > known && used - known + charge.bytes > free.saturating_mul(TIMES_FREE)
        });
        // The largest one is the reason.
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

    /// Charges of `step` bytes until there is no room.
    fn fill(shares: &Shares, namespace: &str, step: usize) -> usize {
        let mut used = 0;
        while fits(shares, namespace, step) {
            used += step;
        }
        used
    }

    #[test]
    fn one_namespace_has_three_quarters_and_leaves_the_rest_to_others() {
        let shares = Shares::new(TOTAL);
        assert_eq!(fill(&shares, "a", 1 << 10), TOTAL / 4 * 3);
        assert_eq!(fill(&shares, "b", 1 << 10), TOTAL / 16 * 3);
        assert!(fits(&shares, "c", TOTAL / 64));
    }

    #[test]
    fn namespaces_that_come_late_never_add_up_to_more_than_there_is() {
        let shares = Shares::new(TOTAL);
        let used: usize = (0..1_000).map(|at| fill(&shares, &at.to_string(), 1 << 8)).sum();
        assert!(used <= TOTAL, "{used}");
    }

    #[test]
    fn what_does_not_grow_is_never_refused() {
        let shares = Shares::new(TOTAL);
        assert!(fits(&shares, "a", TOTAL / 4 * 3) && fits(&shares, "b", TOTAL / 16 * 3));
        let before = [charge("a", TOTAL / 4 * 3)];
        assert_eq!(shares.replace(&before, &before), Ok(()));
        let grown = [charge("a", TOTAL / 4 * 3 + 1)];
        assert_eq!(shares.replace(&before, &grown), Err(grown[0]));
        assert_eq!(shares.replace(&before, &[charge("a", TOTAL / 2)]), Ok(()));
    }

    #[test]
    fn nothing_is_left_of_what_is_released() {
        let shares = Shares::new(TOTAL);
        let both = [charge("a", 10), charge("b", 20)];
        shares.replace(&[], &both).unwrap();
        assert!(!shares.has_room(&[charge("c", TOTAL)]));
        shares.release(&both);
        let ledger = lock(&shares.ledger);
        assert!(ledger.namespaces.is_empty() && ledger.used == 0);
    }

    /// What happens: an object of a namespace gets another size, and the object may be charged to a second namespace.
    fn history() -> impl Strategy<Value = Vec<(usize, usize, usize, usize)>> {
        let size = prop_oneof![Just(0), 0..TOTAL / 64, 0..TOTAL];
        prop::collection::vec((0..6_usize, 0..4_usize, size.clone(), size), 1..200)
    }

    proptest! {
        #[test]
        fn the_sum_stays_below_the_total_and_newcomers_have_room(history in history()) {
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
                prop_assert!(shares.has_room(&newcomer));
            }
        }
    }
}
