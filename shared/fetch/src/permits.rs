//! How much is done at a time: requests, resolutions, and what they hold of Secrets.
//!
//! A resolution that waits for a server releases its worker permit, so without a limit any number of them could wait. Each
//! uses some memory, plus the content of its Secret. Above these numbers a HelmOp waits before anything is allocated for it.
//! What waits for a permit here holds none that others wait for, and its deadline is paused.

use std::sync::Arc;

use helmops_fair::{FairPermit, FairSemaphore, PairLimits, deadline::excluded};
use reqwest::Url;

/// The limits of requests. Each has a connection, a reading thread and at most some hundred KiB of buffers.
pub const REQUESTS: PairLimits = PairLimits {
    total: 64,
    // Seven namespaces with slow servers leave others the share of one.
    per_key: 8,
    // To one host, on any port: it protects the server, and one tenant leaves half to others.
    per_second: 12,
    // As many as a browser opens connections.
    per_pair: 6,
};

/// Concurrent resolutions. One uses 20 KiB, plus the content of a small Secret.
const RESOLUTIONS: usize = 8192;
/// Of these, for one namespace: at most 28 MiB. As for requests, seven namespaces together leave others the share of one.
const RESOLUTIONS_PER_NAMESPACE: usize = 1024;

/// The limits of Secrets that are read, and of large ones that are held. A read uses several times the size of the Secret, which
/// is at most 1 MiB.
const SECRETS: PairLimits = PairLimits {
    total: 64,
    per_key: 8,
    per_second: 32,
    per_pair: 4,
};

/// Maximum size of a small Secret, in bytes: a login, a client certificate and some CA certificates.
pub const MAX_SMALL_SECRET: usize = 8 << 10;

/// The namespace that is charged.
type Namespace = Arc<str>;
/// The name of a host.
type Host = Arc<str>;

/// The permits of all resolutions.
#[derive(Debug)]
pub struct Permits {
    requests: FairSemaphore<Namespace, Host>,
    resolutions: FairSemaphore<Namespace>,
    secrets: FairSemaphore<Namespace, Use>,
}

/// What is done with a Secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Use {
    Read,
    /// It is large, and in memory until the end of the resolution.
    Hold,
}

/// The permit for one request at a time to a host, and for its follow-up requests: redirects, a token, the next page. Clones
/// share it.
pub type RequestPermit = Arc<FairPermit<Namespace, Host>>;

/// The permit to resolve versions.
pub type ResolvePermit = FairPermit<Namespace>;

/// The permit to hold a large Secret.
#[derive(Debug)]
pub struct SecretPermit(#[expect(dead_code, reason = "held until it is dropped")] FairPermit<Namespace, Use>);

impl Default for Permits {
    fn default() -> Self {
        Self {
            requests: FairSemaphore::with_pairs(REQUESTS),
            resolutions: FairSemaphore::new(RESOLUTIONS, RESOLUTIONS_PER_NAMESPACE),
            secrets: FairSemaphore::with_pairs(SECRETS),
        }
    }
}

impl Permits {
    /// Waits until a namespace may send a request to the host of a URL.
    pub async fn request(&self, namespace: &Namespace, url: &Url) -> RequestPermit {
        // A trailing dot does not change the host.
        let host = url.host_str().unwrap_or_default().trim_end_matches('.');
        let permit = self.requests.acquire_pair(Arc::clone(namespace), host.into());
        Arc::new(excluded(permit).await)
    }

    /// Waits until a namespace may start a resolution.
    pub async fn resolution(&self, namespace: &Namespace) -> ResolvePermit {
        self.resolutions.acquire(Arc::clone(namespace)).await
    }

    /// Reads a Secret, and acquires the permit to hold it if it is large. A large Secret is read again with that permit: its
    /// size is unknown before the first read, and a resolution that waits for the permit must not hold the Secret.
    ///
    /// # Errors
    /// Those of `read`.
    pub async fn read_secret<T, E, F: Future<Output = Result<T, E>>>(
        &self,
        namespace: &Namespace,
        size: fn(&T) -> usize,
        read: impl Fn() -> F,
    ) -> Result<(T, Option<SecretPermit>), E> {
        let acquire = |to| self.secrets.acquire_pair(Arc::clone(namespace), to);
        let reading = acquire(Use::Read).await;
        let secret = read().await?;
        drop(reading);
        if size(&secret) <= MAX_SMALL_SECRET {
            return Ok((secret, None));
        }
        drop(secret);
        let permit = SecretPermit(acquire(Use::Hold).await);
        Ok((read().await?, Some(permit)))
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, convert::Infallible};

    use futures::{FutureExt, future::join_all};
    use tokio::task::yield_now;

    use super::*;

    #[test]
    fn all_ports_of_a_host_are_the_same_host() {
        let permits = Permits::default();
        let request = |url: &str| {
            let url = Url::parse(url).unwrap();
            permits.request(&"a".into(), &url).now_or_never()
        };
        let held: Vec<_> = (1..100)
            .filter_map(|port| request(&format!("http://h.:{port}/")))
            .collect();
        assert_eq!(held.len(), REQUESTS.per_pair);
        assert!(request("https://H/").is_none() && request("https://other/").is_some());
    }

    /// How many of a hundred Secrets of this size one namespace holds at a time.
    async fn held(permits: &Permits, bytes: usize) -> usize {
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
        let permits = Permits::default();
        assert_eq!(held(&permits, MAX_SMALL_SECRET + 1).await, SECRETS.per_pair);
        assert_eq!(held(&permits, MAX_SMALL_SECRET).await, 100);
        assert_eq!(permits.secrets.keys(), 0);
    }

    #[tokio::test]
    async fn a_namespace_reads_few_secrets_at_a_time() {
        let permits = Permits::default();
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
        assert_eq!(max.get(), SECRETS.per_pair);
    }
}
