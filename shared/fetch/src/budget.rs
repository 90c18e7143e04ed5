//! A memory budget with a share for each namespace.
//!
//! Indexes and tag lists are charged to one budget while they are read: each document has its own limit, this is the limit
//! of their total. Afterwards a document is passed to a cache, which is charged to another budget.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use helm_index::{Meter, OverBudget};
use helmops_process::lock;

/// A reader reserves memory in steps of this size, so that most calls do nothing. It is half of the largest buffer that a
/// reader allocates in any case.
const STEP: usize = 64 << 10;

/// A memory budget. Clones share it.
#[derive(Clone, Debug)]
pub struct Budget {
    reserved: Arc<Mutex<Reserved>>,
    total: usize,
    share: usize,
}

#[derive(Debug, Default)]
struct Reserved {
    all: usize,
    /// Only namespaces with a reservation.
    by_namespace: HashMap<Arc<str>, usize>,
}

impl Budget {
    /// Creates a budget of `total` bytes, of which one namespace may use one in `parts`.
    pub fn new(total: usize, parts: usize) -> Self {
        Self {
            reserved: Arc::default(),
            total,
            share: total / parts,
        }
    }

    /// Creates an empty reservation for a namespace.
    pub fn reservation(&self, namespace: &str) -> Reservation {
        Reservation {
            budget: self.clone(),
            namespace: namespace.into(),
            bytes: 0,
        }
    }

    fn take(&self, namespace: &Arc<str>, bytes: usize) -> Result<(), OverBudget> {
        let mut reserved = lock(&self.reserved);
        let all = reserved.all.saturating_add(bytes);
        let own = reserved.by_namespace.get(namespace).copied().unwrap_or_default();
        let own = own.saturating_add(bytes);
        if all > self.total || own > self.share {
            return Err(OverBudget);
        }
        if bytes == 0 {
            return Ok(());
        }
        reserved.all = all;
        reserved.by_namespace.insert(Arc::clone(namespace), own);
        drop(reserved);
        Ok(())
    }

    fn release(&self, namespace: &Arc<str>, bytes: usize) {
        let mut reserved = lock(&self.reserved);
        reserved.all = reserved.all.saturating_sub(bytes);
        if let Some(own) = reserved.by_namespace.get_mut(namespace) {
            *own = own.saturating_sub(bytes);
            if *own == 0 {
                reserved.by_namespace.remove(namespace);
            }
        }
    }
}

/// Reserved memory, released when dropped.
#[derive(Debug)]
pub struct Reservation {
    budget: Budget,
    namespace: Arc<str>,
    bytes: usize,
}

impl Reservation {
    /// The namespace that it is charged to.
    pub const fn namespace(&self) -> &Arc<str> {
        &self.namespace
    }

    /// The reserved bytes.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Changes the reservation to exactly this size.
    ///
    /// # Errors
    /// If the budget or the share of the namespace is exceeded. The reservation then stays as it was.
    pub fn resize(&mut self, bytes: usize) -> Result<(), OverBudget> {
        match bytes.checked_sub(self.bytes) {
            Some(more) => self.budget.take(&self.namespace, more)?,
            None => self.budget.release(&self.namespace, self.bytes - bytes),
        }
        self.bytes = bytes;
        Ok(())
    }
}

impl Meter for Reservation {
    fn reserve(&mut self, bytes: usize) -> Result<(), OverBudget> {
        if bytes <= self.bytes {
            return Ok(());
        }
        let more = (bytes - self.bytes).next_multiple_of(STEP);
        self.budget.take(&self.namespace, more)?;
        self.bytes += more;
        Ok(())
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.budget.release(&self.namespace, self.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reserved(budget: &Budget) -> (usize, usize) {
        let reserved = lock(&budget.reserved);
        (reserved.all, reserved.by_namespace.len())
    }

    #[test]
    fn a_namespace_cannot_exceed_its_share() {
        let budget = Budget::new(64 * STEP, 4);
        let mut greedy: Vec<Reservation> = (0..3).map(|_| budget.reservation("greedy")).collect();
        assert_eq!(greedy[0].reserve(8 * STEP), Ok(()));
        assert_eq!(greedy[1].reserve(8 * STEP), Ok(()));
        assert_eq!(greedy[2].reserve(1), Err(OverBudget));
        let mut other = budget.reservation("other");
        assert_eq!(other.reserve(16 * STEP), Ok(()));
        greedy.truncate(1);
        assert_eq!(budget.reservation("greedy").reserve(8 * STEP), Ok(()));
    }

    #[test]
    fn the_total_is_bounded() {
        let budget = Budget::new(64 * STEP, 4);
        let mut reads: Vec<Reservation> = (0..5).map(|n| budget.reservation(&n.to_string())).collect();
        let granted = reads.iter_mut().filter_map(|read| read.reserve(16 * STEP).ok());
        assert_eq!(granted.count(), 4);
        assert_eq!(reserved(&budget), (64 * STEP, 4));
    }

    #[test]
    fn a_reservation_can_be_resized() {
        let budget = Budget::new(100, 2);
        let (mut one, mut other) = (budget.reservation("a"), budget.reservation("b"));
        assert_eq!((one.resize(30), one.resize(50)), (Ok(()), Ok(())));
        assert_eq!((one.resize(51), one.bytes()), (Err(OverBudget), 50));
        assert_eq!(other.resize(50), Ok(()));
        assert_eq!(budget.reservation("c").resize(1), Err(OverBudget));
        assert_eq!(one.resize(0), Ok(()));
        assert_eq!(reserved(&budget), (50, 1));
        drop((one, other));
        assert_eq!(reserved(&budget), (0, 0));
    }

    #[test]
    fn memory_is_released_when_a_reservation_is_dropped() {
        let budget = Budget::new(64 * STEP, 4);
        let mut read = budget.reservation("a");
        for bytes in [1, 10, STEP, STEP + 1] {
            assert_eq!(read.reserve(bytes), Ok(()));
        }
        assert_eq!(reserved(&budget), (2 * STEP, 1));
        drop(read);
        assert_eq!(reserved(&budget), (0, 0));
    }
}
