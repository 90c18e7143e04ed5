//! Memory that reading a foreign document may take, granted by whoever bounds the sum of all that are read.

use thiserror::Error;

/// Grants memory while something is read. The reader says how much it holds as it grows.
pub trait Meter {
    /// Reserves memory, so that at least `bytes` are reserved in all.
    ///
    /// Called often: where so much is reserved already it must cost next to nothing.
    ///
    /// # Errors
    /// Where so much is not granted. The reader then gives up.
    fn reserve(&mut self, bytes: usize) -> Result<(), OverBudget>;
}

/// The memory for reading is used up.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("the memory for reading indexes and lists of tags is used up by other responses; retrying")]
pub struct OverBudget;

/// Grants everything.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unmetered;

impl Meter for Unmetered {
    fn reserve(&mut self, _: usize) -> Result<(), OverBudget> {
        Ok(())
    }
}
