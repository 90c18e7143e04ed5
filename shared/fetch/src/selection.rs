//! Selects a version from a list that may be long: one response can complete thousands of resolutions of a tenant at the same
//! time, and each of them iterates over the list.

use std::sync::Arc;

use helmops_runtime::compute::Compute;

/// The longest list that is processed without a permit, on the thread of the task. A version takes up to 5 µs: a list is
/// iterated at most five times, and each time each version is parsed. So this takes a third of a millisecond.
const MAX_INLINE: usize = 64;

/// Runs `work` for a list of `len` versions: a long one as a computation of the namespace, on a separate thread.
pub async fn select_from<T: Send + 'static>(
    compute: &Compute,
    namespace: &Arc<str>,
    len: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    if len <= MAX_INLINE {
        return work();
    }
    compute.on_thread(namespace, work).await
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[tokio::test]
    async fn long_lists_are_processed_on_another_thread() {
        let (compute, tenant) = (Compute::default(), "a".into());
        let thread_id = || thread::current().id();
        assert_eq!(select_from(&compute, &tenant, 1, thread_id).await, thread_id());
        let long = select_from(&compute, &tenant, MAX_INLINE + 1, thread_id);
        assert_ne!(long.await, thread_id());
    }
}
