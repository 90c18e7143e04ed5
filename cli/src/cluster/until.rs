//! Waiting for the state of objects.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::failure::Failure;

/// Short enough for a person who waits, and few requests for a command that ends soon.
const INTERVAL: Duration = Duration::from_millis(400);

/// Reads again and again until there is a value; `None` if there is none in time. An error ends it.
pub async fn until<T>(
    timeout: Duration,
    mut read: impl AsyncFnMut() -> Result<Option<T>, Failure>,
) -> Result<Option<T>, Failure> {
    let deadline = Instant::now() + timeout;
    loop {
        if let Some(value) = read().await? {
            return Ok(Some(value));
        }
        if Instant::now() >= deadline {
            return Ok(None);
        }
        sleep(INTERVAL).await;
    }
}
