//! The memory of records that are decoded as a whole: everyone who may write Secrets in a namespace can write one that takes much.

use std::ops::Deref;

use helmops_fair::{ByteBudget, OverBudget, Reservation, Share};

/// Bytes of all records and manifests that are decoded at a time. The largest ones of real charts need 40 MB.
const BUDGET: usize = 96 << 20;
/// What is reserved for a byte of the JSON of a record: for its text, its fields and the objects of its manifest.
const FACTOR: usize = 6;
/// No record is charged with more, so that each can be read while no other large one is.
const MAX_CHARGE: usize = BUDGET / 3 * 2;

/// The memory for records, shared between the namespaces of releases. Clones share it.
#[derive(Clone, Debug)]
pub struct RecordMemory(ByteBudget);

/// What was decoded of a record. Its memory is reserved until this is dropped.
#[derive(Debug)]
pub struct Reserved<T> {
    value: T,
    memory: Reservation,
}

impl RecordMemory {
    /// A budget of which nothing is used.
    pub fn new() -> Self {
        Self(ByteBudget::new(BUDGET, Share::ThreeQuarters))
    }

    /// Reserves what a record with this many bytes of JSON takes.
    ///
    /// # Errors
    /// If other records take too much now.
    pub fn reserve(&self, namespace: &str, bytes: usize) -> Result<Reserved<()>, OverBudget> {
        let mut memory = self.0.reservation(namespace);
        memory.resize(bytes.saturating_mul(FACTOR).min(MAX_CHARGE))?;
        Ok(Reserved { value: (), memory })
    }
}

impl<T> Reserved<T> {
    /// What follows from it, with the same memory.
    ///
    /// # Errors
    /// Those of `change`.
    pub fn try_map<U, E>(self, change: impl FnOnce(T) -> Result<U, E>) -> Result<Reserved<U>, E> {
        let Self { value, memory } = self;
        let value = change(value)?;
        Ok(Reserved { value, memory })
    }
}

impl<T> Deref for Reserved<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

#[cfg(test)]
mod tests {
    use helmops_release::record::MAX_UNPACKED;

    use super::*;

    #[test]
    fn one_large_record_is_decoded_at_a_time_and_small_ones_of_others_beside_it() {
        let memory = RecordMemory::new();
        let large = memory.reserve("a", MAX_UNPACKED).unwrap();
        assert!(memory.reserve("a", MAX_UNPACKED).is_err());
        assert!(memory.reserve("b", MAX_UNPACKED).is_err());
        let small: Vec<_> = (0..20).map(|_| memory.reserve("b", 200 << 10)).collect();
        assert!(small.iter().all(Result::is_ok));
        drop((large, small));
        let again = memory.reserve("b", MAX_UNPACKED);
        assert_eq!(
            again.unwrap().try_map(|()| Ok::<_, ()>(7)).map(|held| *held),
            Ok(7)
        );
        assert!(memory.reserve("a", MAX_UNPACKED).is_ok());
    }
}
