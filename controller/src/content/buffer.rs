//! The memory of an archive.

use std::io::{self, Write};

use helmops_fair::{OverBudget, Reservation};

/// An archive grows in steps of so many bytes.
const STEP: usize = 1 << 20;

/// An archive in memory, for which its namespace is charged.
#[derive(Debug)]
pub struct ArchiveBuffer {
    bytes: Vec<u8>,
    reservation: Reservation,
}

impl ArchiveBuffer {
    pub const fn new(reservation: Reservation) -> Self {
        Self {
            bytes: Vec::new(),
            reservation,
        }
    }

    pub fn as_slice(&self) -> &[u8] {
        &self.bytes
    }

    /// Charges the namespace for at least so many bytes, until the buffer is dropped.
    ///
    /// # Errors
    /// If its share is used up.
    pub fn charge(&mut self, bytes: usize) -> Result<(), OverBudget> {
        self.reservation.grow_to(bytes)
    }
}

impl Write for ArchiveBuffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let needed = self.bytes.len() + bytes.len();
        if needed > self.bytes.capacity() {
            // The capacity is charged: it takes the memory.
            let capacity = needed.next_multiple_of(STEP);
            self.reservation.grow_to(capacity).map_err(io::Error::other)?;
            self.bytes.reserve_exact(capacity - self.bytes.len());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Whether an error is that of a share that is used up.
pub fn is_over_budget(error: &io::Error) -> bool {
    error
        .get_ref()
        .is_some_and(<dyn std::error::Error + Send + Sync>::is::<OverBudget>)
}
