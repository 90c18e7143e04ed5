//! Permits for tests that start their own control planes. A [`crate::test_bed::TestBed`] acquires one itself.

use anyhow::Result;
use tokio::sync::{Semaphore, SemaphorePermit};

/// A control plane is busy for three seconds while it starts; then it and its test mostly wait. With more of them at the same time,
/// deadlines of seconds would be missed on two processors.
const CONTROL_PLANES: usize = 13;

/// A test with this may run a control plane.
pub type Permit = SemaphorePermit<'static>;

/// Waits for a permit. A test that has one must not acquire another: two such tests could wait for each other.
pub async fn acquire_permit() -> Result<Permit> {
    static PERMITS: Semaphore = Semaphore::const_new(CONTROL_PLANES);
    Ok(PERMITS.acquire().await?)
}
