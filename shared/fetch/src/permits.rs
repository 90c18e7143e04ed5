//! How much is done at a time: requests, reads of Secrets among them, and resolutions.
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

/// The host of the API server, which is no URL of a chart.
const API_SERVER: &str = "";

/// The namespace that is charged.
type Namespace = Arc<str>;
/// The name of a host.
type Host = Arc<str>;

/// The permits of all resolutions.
#[derive(Debug)]
pub struct Permits {
    requests: FairSemaphore<Namespace, Host>,
    resolutions: FairSemaphore<Namespace>,
}

/// The permit for one request at a time to a host, and for its follow-up requests: redirects, a token, the next page. Clones
/// share it.
pub type RequestPermit = Arc<FairPermit<Namespace, Host>>;

/// The permit to resolve versions.
pub type ResolvePermit = FairPermit<Namespace>;

impl Default for Permits {
    fn default() -> Self {
        Self {
            requests: FairSemaphore::with_pairs(REQUESTS),
            resolutions: FairSemaphore::new(RESOLUTIONS, RESOLUTIONS_PER_NAMESPACE),
        }
    }
}

impl Permits {
    /// Waits until a namespace may send a request to the host of a URL.
    pub async fn request(&self, namespace: &Namespace, url: &Url) -> RequestPermit {
        // A trailing dot does not change the host.
        let host = url.host_str().unwrap_or_default().trim_end_matches('.');
        self.host(namespace, host).await
    }

    /// Waits until a namespace may start a resolution.
    pub async fn resolution(&self, namespace: &Namespace) -> ResolvePermit {
        self.resolutions.acquire(Arc::clone(namespace)).await
    }

    /// Waits until a namespace may read a Secret: that takes several times its size, which is at most 1 MiB.
    pub async fn secret(&self, namespace: &Namespace) -> RequestPermit {
        self.host(namespace, API_SERVER).await
    }

    async fn host(&self, namespace: &Namespace, host: &str) -> RequestPermit {
        let permit = self.requests.acquire_pair(Arc::clone(namespace), host.into());
        Arc::new(excluded(permit).await)
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

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

    #[test]
    fn a_namespace_reads_few_secrets_at_a_time_and_stalled_servers_take_no_permit_of_others() {
        let permits = Permits::default();
        let request = |namespace: &str, host: usize| {
            let url = Url::parse(&format!("http://{host}.example.com")).unwrap();
            permits.request(&namespace.into(), &url).now_or_never()
        };
        let secret = |namespace: &str| permits.secret(&namespace.into()).now_or_never();
        let _stalled: Vec<_> = (0..100).map(|host| request("hostile", host)).collect();
        assert!(
            secret("hostile").is_none(),
            "its own servers have all of its permits"
        );
        let held: Vec<_> = (0..100).filter_map(|_| secret("a")).collect();
        assert_eq!(held.len(), REQUESTS.per_pair);
        assert!(secret("b").is_some() && request("a", 1).is_some());
    }
}
