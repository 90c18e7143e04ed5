//! Memory with a bound for all, and a share for each namespace.
//!
//! Indexes and lists of tags are charged to one while they are read: single documents have bounds of their own, this is the
//! bound of their sum. What has been read is handed to a cache, which is charged to another one.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use helmops_shared::{
    chart::meter::{Meter, OverBudget},
    runtime::lock,
};

/// A reader reserves memory in steps of this size, so that most of the time there is nothing to do. Half of the largest buffer
/// that a reader has anyway.
const STEP: usize = 64 << 10;

/// Memory. Clones share it.
#[derive(Clone, Debug)]
pub struct Budget {
    reserved: Arc<Mutex<Reserved>>,
    total: usize,
    share: usize,
}

#[derive(Debug, Default)]
struct Reserved {
    all: usize,
    /// Only of namespaces that have some.
    by_namespace: HashMap<Arc<str>, usize>,
}

impl Budget {
    /// So many bytes for all, of which one namespace has one in so many parts.
    pub fn new(total: usize, parts: usize) -> Self {
        Self {
            reserved: Arc::default(),
            total,
            share: total / parts,
        }
    }

    /// Reserves nothing yet for a namespace.
    pub fn start(&self, namespace: &str) -> Reservation {
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

    fn give_back(&self, namespace: &Arc<str>, bytes: usize) {
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

/// What is reserved for one purpose. It is given back when this is dropped.
#[derive(Debug)]
pub struct Reservation {
    budget: Budget,
    namespace: Arc<str>,
    bytes: usize,
}

impl Reservation {
    /// Whom it is charged to.
    pub const fn namespace(&self) -> &Arc<str> {
        &self.namespace
    }

    /// How much is reserved.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Reserves exactly so many bytes in place of what is reserved.
    ///
    /// # Errors
    /// Where there is no room for more. What was reserved stays reserved then.
    pub fn resize(&mut self, bytes: usize) -> Result<(), OverBudget> {
        match bytes.checked_sub(self.bytes) {
            Some(more) => self.budget.take(&self.namespace, more)?,
            None => self.budget.give_back(&self.namespace, self.bytes - bytes),
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
            self.budget.give_back(&self.namespace, self.bytes);
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
    fn a_namespace_gets_its_share_and_no_more() {
        let budget = Budget::new(64 * STEP, 4);
        let mut greedy: Vec<Reservation> = (0..3).map(|_| budget.start("greedy")).collect();
        assert_eq!(greedy[0].reserve(8 * STEP), Ok(()));
        assert_eq!(greedy[1].reserve(8 * STEP), Ok(()));
        assert_eq!(greedy[2].reserve(1), Err(OverBudget));
        let mut other = budget.start("other");
        assert_eq!(other.reserve(16 * STEP), Ok(()));
        greedy.truncate(1);
        assert_eq!(budget.start("greedy").reserve(8 * STEP), Ok(()));
    }

    #[test]
    fn the_sum_is_bounded() {
        let budget = Budget::new(64 * STEP, 4);
        let mut reads: Vec<Reservation> = (0..5).map(|n| budget.start(&n.to_string())).collect();
        let granted = reads.iter_mut().filter_map(|read| read.reserve(16 * STEP).ok());
        assert_eq!(granted.count(), 4);
        assert_eq!(reserved(&budget), (64 * STEP, 4));
    }

    #[test]
    fn what_is_reserved_can_change() {
        let budget = Budget::new(100, 2);
        let (mut one, mut other) = (budget.start("a"), budget.start("b"));
        assert_eq!((one.resize(30), one.resize(50)), (Ok(()), Ok(())));
        assert_eq!((one.resize(51), one.bytes()), (Err(OverBudget), 50));
        assert_eq!(other.resize(50), Ok(()));
        assert_eq!(budget.start("c").resize(1), Err(OverBudget));
        assert_eq!(one.resize(0), Ok(()));
        assert_eq!(reserved(&budget), (50, 1));
        drop((one, other));
        assert_eq!(reserved(&budget), (0, 0));
    }

    #[test]
    fn it_is_given_back() {
        let budget = Budget::new(64 * STEP, 4);
        let mut read = budget.start("a");
        for bytes in [1, 10, STEP, STEP + 1] {
            assert_eq!(read.reserve(bytes), Ok(()));
        }
        assert_eq!(reserved(&budget), (2 * STEP, 1));
        drop(read);
        assert_eq!(reserved(&budget), (0, 0));
    }
}
