//! Work on all processors.

use std::{
    num::NonZero,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

/// Items that a thread takes at a time.
const CHUNK: usize = 16;
/// More threads than this wait for the disk and for memory.
const MAX_THREADS: usize = 32;

/// The result of `work` for each item, in their order. A panic in it continues here.
pub fn map<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let processors = thread::available_parallelism().map_or(1, NonZero::get);
    let threads = processors.min(MAX_THREADS).min(items.len().div_ceil(CHUNK));
    if threads <= 1 {
        return items.iter().map(work).collect();
    }
    let next = AtomicUsize::new(0);
    let take = || {
        let mut done = Vec::new();
        loop {
            let start = next.fetch_add(CHUNK, Ordering::Relaxed);
            let chunk = items.get(start..).unwrap_or_default();
            if chunk.is_empty() {
                return done;
            }
            let results: Vec<_> = chunk.iter().take(CHUNK).map(&work).collect();
            done.push((start, results));
        }
    };
    let mut chunks = Vec::new();
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(take)).collect();
        for worker in workers {
            match worker.join() {
                Ok(done) => chunks.extend(done),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
    });
    chunks.sort_unstable_by_key(|(start, _)| *start);
    chunks.into_iter().flat_map(|(_, results)| results).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn results_are_in_the_order_of_their_items() {
        for count in [0_usize, 1, 15, 16, 17, 1000] {
            let items: Vec<_> = (0..count).collect();
            let results = super::map(&items, |item| item * 2);
            assert_eq!(results, items.iter().map(|item| item * 2).collect::<Vec<_>>());
        }
    }
}
