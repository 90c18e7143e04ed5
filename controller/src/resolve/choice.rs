//! Choosing a version from a list that may be long.

/// The longest list that is gone through beside everything else: a version takes well below a microsecond, and a list is
/// gone through five times at the most.
const MAX_INLINE: usize = 2000;

/// Does the work for a list of so many versions, on a thread of its own if it is a long one.
pub async fn among<T: Send + 'static>(len: usize, work: impl Fn() -> T + Clone + Send + 'static) -> T {
    if len <= MAX_INLINE {
        return work();
    }
    let chosen = tokio::task::spawn_blocking(work.clone()).await;
    // It is not done only where the process ends.
    chosen.unwrap_or_else(|_| work())
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[tokio::test]
    async fn long_lists_are_gone_through_elsewhere() {
        let place = || thread::current().id();
        assert_eq!(among(1, place).await, place());
        assert_ne!(among(MAX_INLINE + 1, place).await, place());
    }
}
