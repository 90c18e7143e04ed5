//! Limits how many resolutions are in progress, and how many of them hold a large Secret.
//!
//! A resolution that waits for a server releases its worker permit, so without a limit any number of them could wait. Each
//! uses some memory, plus the content of its Secret. Above these numbers a HelmOp waits before anything is allocated for it.

use std::sync::Arc;

use helmops_process::{FairPermit, FairSemaphore};

/// Concurrent resolutions. One uses 20 KiB, plus the content of a small Secret.
const RESOLUTIONS: usize = 8192;
/// Of these, for one namespace: at most 28 MiB. As for requests, seven namespaces together leave others the share of one.
const RESOLUTIONS_PER_NAMESPACE: usize = 1024;

/// Concurrent reads of Secrets. A read uses several times the size of the Secret, which is at most 1 MiB.
const SECRETS: usize = 32;
/// Of these, for one namespace.
const SECRETS_PER_NAMESPACE: usize = 4;

/// Maximum size of a small Secret, in bytes: a login, a client certificate and some CA certificates.
pub const MAX_SMALL_SECRET: usize = 8 << 10;

/// The permits that resolutions need besides those for requests. No resolution waits for one of them while it holds a permit
/// that others wait for.
#[derive(Debug)]
pub struct ResolvePermits {
    resolutions: FairSemaphore<Arc<str>>,
    /// To read a Secret.
    secret_reads: FairSemaphore<Arc<str>>,
    /// To hold a large Secret.
    large_secrets: FairSemaphore<Arc<str>>,
}

/// The permit to resolve versions, or to hold a large Secret; released when dropped.
#[derive(Debug)]
pub struct ResolvePermit(#[expect(dead_code, reason = "held until it is dropped")] FairPermit<Arc<str>>);

impl Default for ResolvePermits {
    fn default() -> Self {
        Self {
            resolutions: FairSemaphore::new(RESOLUTIONS, RESOLUTIONS_PER_NAMESPACE),
            secret_reads: FairSemaphore::new(SECRETS, SECRETS_PER_NAMESPACE),
            large_secrets: FairSemaphore::new(SECRETS, SECRETS_PER_NAMESPACE),
        }
    }
}

impl ResolvePermits {
    /// Waits until a namespace may start a resolution.
    pub async fn acquire(&self, namespace: &Arc<str>) -> ResolvePermit {
        ResolvePermit(self.resolutions.acquire(Arc::clone(namespace)).await)
    }

    /// Reads a Secret, and acquires the permit to hold it if it is large. A large Secret is read again with that permit: its
    /// size is unknown before the first read, and a resolution that waits for the permit must not hold the Secret.
    ///
    /// # Errors
    /// Those of `read`.
    pub async fn read_secret<T, E, F: Future<Output = Result<T, E>>>(
        &self,
        namespace: &Arc<str>,
        size: fn(&T) -> usize,
        read: impl Fn() -> F,
    ) -> Result<(T, Option<ResolvePermit>), E> {
        let reading = self.secret_reads.acquire(Arc::clone(namespace)).await;
        let secret = read().await?;
        drop(reading);
        if size(&secret) <= MAX_SMALL_SECRET {
            return Ok((secret, None));
        }
        drop(secret);
        let permit = ResolvePermit(self.large_secrets.acquire(Arc::clone(namespace)).await);
        Ok((read().await?, Some(permit)))
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, convert::Infallible};

    use futures::future::{join, join_all};
    use tokio::task::yield_now;

    use super::*;

    /// How many of a hundred Secrets of this size one namespace holds at a time.
    async fn held(permits: &ResolvePermits, bytes: usize) -> usize {
        let (current, max) = (Cell::new(0), Cell::new(0));
        let tenant = Arc::from("a");
        let resolutions = (0..100).map(async |_| {
            let read = || async {
                yield_now().await;
                Ok::<_, Infallible>(bytes)
            };
            let Ok((_, _permit)) = permits.read_secret(&tenant, |bytes| *bytes, read).await;
            current.set(current.get() + 1);
            max.set(max.get().max(current.get()));
            for _ in 0..500 {
                yield_now().await;
            }
            current.set(current.get() - 1);
        });
        join_all(resolutions).await;
        max.get()
    }

    #[tokio::test]
    async fn a_namespace_holds_few_large_secrets_and_many_small_ones() {
        let permits = ResolvePermits::default();
        assert_eq!(held(&permits, MAX_SMALL_SECRET + 1).await, SECRETS_PER_NAMESPACE);
        assert_eq!(held(&permits, MAX_SMALL_SECRET).await, 100);
        assert_eq!(
            (permits.secret_reads.keys(), permits.large_secrets.keys()),
            (0, 0)
        );
    }

    #[tokio::test]
    async fn a_namespace_reads_few_secrets_at_a_time() {
        let permits = ResolvePermits::default();
        let (current, max) = (Cell::new(0), Cell::new(0));
        let tenant = Arc::from("a");
        let read = || async {
            current.set(current.get() + 1);
            max.set(max.get().max(current.get()));
            yield_now().await;
            current.set(current.get() - 1);
            Err::<(), _>(())
        };
        join_all((0..100).map(|_| permits.read_secret(&tenant, |()| 0, read))).await;
        assert_eq!(max.get(), SECRETS_PER_NAMESPACE);
    }

    #[tokio::test]
    async fn a_namespace_at_its_limit_leaves_resolutions_to_others() {
        let permits = ResolvePermits::default();
        let (greedy, modest) = (Arc::from("greedy"), Arc::from("modest"));
        let all: Vec<_> = (0..RESOLUTIONS_PER_NAMESPACE)
            .map(|_| permits.acquire(&greedy))
            .collect();
        let _held = join_all(all).await;
        let mut more = std::pin::pin!(permits.acquire(&greedy));
        assert!(futures::poll!(&mut more).is_pending());
        let (_first, _second) = join(permits.acquire(&modest), permits.acquire(&modest)).await;
    }
}
