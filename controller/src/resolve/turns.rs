//! How many look-ups are in progress, and how many of them hold a large Secret.
//!
//! Look-ups that wait for a server give up their place among the workers, so any number of them could wait. Each takes some
//! memory, and what its Secret holds. Beyond these numbers a HelmOp waits before anything is allocated for its look-up.

use std::sync::Arc;

use helmops_shared::runtime::{FairPermit, FairSemaphore};

/// Look-ups at a time. One takes 20 KiB, and what a small Secret holds.
const LOOK_UPS: usize = 8192;
/// Of these, for one namespace: 28 MiB at most. As with requests, seven namespaces leave others what one of them has.
const LOOK_UPS_PER_NAMESPACE: usize = 1024;

/// Secrets that are read at a time. Reading takes several times the size of the Secret, which is 1 MiB at most.
const SECRETS: usize = 32;
/// Of these, for one namespace.
const SECRETS_PER_NAMESPACE: usize = 4;

/// What a Secret may hold that is not large, in bytes: a login, a client certificate and some authorities.
pub const SMALL: usize = 8 << 10;

/// Shares of what look-ups need besides requests. None of them is waited for by who holds what others wait for.
#[derive(Debug)]
pub struct ResolvePermits {
    look_ups: FairSemaphore<Arc<str>>,
    /// To read a Secret.
    reads: FairSemaphore<Arc<str>>,
    /// To hold a large one.
    large: FairSemaphore<Arc<str>>,
}

/// The right to look something up, or to hold a Secret, until it is dropped.
#[derive(Debug)]
pub struct ResolvePermit(#[expect(dead_code, reason = "held until it is dropped")] FairPermit<Arc<str>>);

impl Default for ResolvePermits {
    fn default() -> Self {
        Self {
            look_ups: FairSemaphore::new(LOOK_UPS, LOOK_UPS_PER_NAMESPACE),
            reads: FairSemaphore::new(SECRETS, SECRETS_PER_NAMESPACE),
            large: FairSemaphore::new(SECRETS, SECRETS_PER_NAMESPACE),
        }
    }
}

impl ResolvePermits {
    /// Waits until a namespace may begin a look-up.
    pub async fn look_up(&self, namespace: &Arc<str>) -> ResolvePermit {
        ResolvePermit(self.look_ups.acquire(Arc::clone(namespace)).await)
    }

    /// What a Secret holds, read in turn, and the right to hold it if it is large. A large one is read once more with
    /// that right: before it has been read its size is not known, and what waits must not hold it.
    ///
    /// # Errors
    /// Those of `read`.
    pub async fn secret<T, E, F: Future<Output = Result<T, E>>>(
        &self,
        namespace: &Arc<str>,
        size: fn(&T) -> usize,
        read: impl Fn() -> F,
    ) -> Result<(T, Option<ResolvePermit>), E> {
        let reading = self.reads.acquire(Arc::clone(namespace)).await;
        let secret = read().await?;
        drop(reading);
        if size(&secret) <= SMALL {
            return Ok((secret, None));
        }
        drop(secret);
        let turn = ResolvePermit(self.large.acquire(Arc::clone(namespace)).await);
        Ok((read().await?, Some(turn)))
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, convert::Infallible};

    use futures::future::{join, join_all};
    use tokio::task::yield_now;

    use super::*;

    /// How many of a hundred Secrets of so many bytes one namespace holds at a time.
    async fn held(turns: &ResolvePermits, bytes: usize) -> usize {
        let (now, most) = (Cell::new(0), Cell::new(0));
        let tenant = Arc::from("a");
        let look_ups = (0..100).map(async |_| {
            let read = || async {
                yield_now().await;
                Ok::<_, Infallible>(bytes)
            };
            let Ok((_, _turn)) = turns.secret(&tenant, |bytes| *bytes, read).await;
            now.set(now.get() + 1);
            most.set(most.get().max(now.get()));
            for _ in 0..500 {
                yield_now().await;
            }
            now.set(now.get() - 1);
        });
        join_all(look_ups).await;
        most.get()
    }

    #[tokio::test]
    async fn a_namespace_holds_few_large_secrets_and_many_small_ones() {
        let turns = ResolvePermits::default();
        assert_eq!(held(&turns, SMALL + 1).await, SECRETS_PER_NAMESPACE);
        assert_eq!(held(&turns, SMALL).await, 100);
        assert_eq!((turns.reads.keys(), turns.large.keys()), (0, 0));
    }

    #[tokio::test]
    async fn a_namespace_reads_few_secrets_at_a_time() {
        let turns = ResolvePermits::default();
        let (now, most) = (Cell::new(0), Cell::new(0));
        let tenant = Arc::from("a");
        let read = || async {
            now.set(now.get() + 1);
            most.set(most.get().max(now.get()));
            yield_now().await;
            now.set(now.get() - 1);
            Err::<(), _>(())
        };
        join_all((0..100).map(|_| turns.secret(&tenant, |()| 0, read))).await;
        assert_eq!(most.get(), SECRETS_PER_NAMESPACE);
    }

    #[tokio::test]
    async fn a_namespace_leaves_look_ups_to_others() {
        let turns = ResolvePermits::default();
        let (greedy, modest) = (Arc::from("greedy"), Arc::from("modest"));
        let all: Vec<_> = (0..LOOK_UPS_PER_NAMESPACE)
            .map(|_| turns.look_up(&greedy))
            .collect();
        let _held = join_all(all).await;
        let mut more = std::pin::pin!(turns.look_up(&greedy));
        assert!(futures::poll!(&mut more).is_pending());
        let (_first, _second) = join(turns.look_up(&modest), turns.look_up(&modest)).await;
    }
}
