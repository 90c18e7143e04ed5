//! Accounting for the memory that parsing a document from another server takes. The caller bounds the sum over all documents
//! that are parsed at the same time.

use thiserror::Error;

/// Grants memory while a document is parsed. The parser reserves more as it holds more.
pub trait Meter {
    /// Reserves memory until at least `bytes` are reserved in total.
    ///
    /// Called often, so it must be cheap when that much is already reserved.
    ///
    /// # Errors
    /// When that much memory is not granted. The parser then stops.
    fn reserve(&mut self, bytes: usize) -> Result<(), OverBudget>;
}

/// The memory for parsing is used up.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("the memory for reading indexes and lists of tags is in use by other documents")]
pub struct OverBudget;

/// Grants every reservation.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unmetered;

impl Meter for Unmetered {
    fn reserve(&mut self, _: usize) -> Result<(), OverBudget> {
        Ok(())
    }
}
