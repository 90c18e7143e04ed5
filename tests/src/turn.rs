//! Turns, for tests that each start a control plane of their own. A [`crate::test_bed::TestBed`] waits for one itself.

use anyhow::Result;
use tokio::sync::{Semaphore, SemaphorePermit};

/// A control plane is busy while it starts; then it and its test mostly wait. More of them at a time would make deadlines of
/// seconds a matter of luck on two processors.
const AT_A_TIME: usize = 2;

/// As long as it lives, it is the test's turn.
pub type Turn = SemaphorePermit<'static>;

/// Waits for a turn. Who has one must not wait for another: two of them could wait for each other.
pub async fn turn() -> Result<Turn> {
    static TURNS: Semaphore = Semaphore::const_new(AT_A_TIME);
    Ok(TURNS.acquire().await?)
}
