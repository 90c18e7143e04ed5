//! How many requests are under way at a time: in all, for each namespace, and to each host.
//!
//! What a tenant can hold is bounded in number, and what waits is served in turn by namespace. So the tenant who names
//! slow servers, however many, delays his own requests and not those of others.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use helmops_shared::runtime::{FairPermit, FairSemaphore, lock};
use reqwest::Url;

/// Requests at a time in this process. Each has a connection, a reading thread and some hundred KiB of buffers at the most.
pub const REQUESTS: usize = 64;
/// Of these, for one namespace: seven namespaces of slow servers leave others what one of them has.
const PER_NAMESPACE: usize = 8;
/// Requests at a time to one host, whatever the port: a server is spared, and one tenant leaves half to others.
const PER_HOST: usize = 12;
/// Of these, for one namespace: as many as a browser opens connections.
const PER_HOST_AND_NAMESPACE: usize = 6;

/// How long one right lasts: a list of tags of a hundred pages, each in some seconds. Others may wait for what comes of it.
const LONGEST: Duration = Duration::from_mins(5);

/// Who is charged: a namespace.
type Namespace = Arc<str>;

/// Admits requests.
#[derive(Debug)]
pub struct Admissions {
    requests: FairSemaphore<Namespace>,
    hosts: Arc<Hosts>,
}

/// The right to one request at a time to a host, and to what follows from it: redirects, a token, the next page. Clones
/// are the same right.
#[derive(Clone, Debug)]
pub struct Admission {
    /// When all of it must have come to an end.
    pub until: Instant,
    _admitted: Arc<Admitted>,
}

#[derive(Debug)]
struct Admitted {
    _request: FairPermit<Namespace>,
    _slot: FairPermit<Namespace>,
    _user: User,
}

/// The hosts that somebody asks at the moment.
#[derive(Debug, Default)]
struct Hosts {
    known: Mutex<HashMap<String, Arc<FairSemaphore<Namespace>>>>,
}

/// Keeps a host known.
#[derive(Debug)]
struct User {
    hosts: Arc<Hosts>,
    name: String,
    slots: Option<Arc<FairSemaphore<Namespace>>>,
}

impl Default for Admissions {
    fn default() -> Self {
        Self {
            requests: FairSemaphore::new(REQUESTS, PER_NAMESPACE),
            hosts: Arc::default(),
        }
    }
}

impl Admissions {
    /// Waits until a namespace may send a request to the host of a URL.
    ///
    /// The slot of the host is waited for first: who waits for a slow host holds none of the requests that others could
    /// send. Whoever holds a request waits for nothing else, so the two limits cannot block each other.
    pub async fn admit(&self, namespace: &Namespace, url: &Url) -> Admission {
        let (user, slots) = self.hosts.user(url);
        let slot = slots.acquire(Arc::clone(namespace)).await;
        let admitted = Admitted {
            _request: self.requests.acquire(Arc::clone(namespace)).await,
            _slot: slot,
            _user: user,
        };
        Admission {
            until: Instant::now() + LONGEST,
            _admitted: Arc::new(admitted),
        }
    }
}

impl Hosts {
    fn user(self: &Arc<Self>, url: &Url) -> (User, FairSemaphore<Namespace>) {
        // The same host is meant with a dot at the end.
        let name = url
            .host_str()
            .unwrap_or_default()
            .trim_end_matches('.')
            .to_owned();
        let mut known = lock(&self.known);
        let slots = known
            .entry(name.clone())
            .or_insert_with(|| Arc::new(FairSemaphore::new(PER_HOST, PER_HOST_AND_NAMESPACE)));
        let user = User {
            slots: Some(Arc::clone(slots)),
            hosts: Arc::clone(self),
            name,
        };
        (user, FairSemaphore::clone(slots))
    }
}

impl Drop for User {
    fn drop(&mut self) {
        let mut known = lock(&self.hosts.known);
        self.slots = None;
        // Users come and go under the lock, so nobody else has it.
        if known
            .get(&self.name)
            .is_some_and(|slots| Arc::strong_count(slots) == 1)
        {
            known.remove(&self.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{pin::pin, task::Poll};

    use futures::{future::Either, poll};

    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    fn namespace(name: &str) -> Namespace {
        name.into()
    }

    /// What is admitted at once.
    async fn admitted(admissions: &Admissions, namespace: &Namespace, urls: &[Url]) -> Vec<Admission> {
        let mut all = Vec::new();
        for url in urls {
            if let Poll::Ready(admission) = poll!(pin!(admissions.admit(namespace, url))) {
                all.push(admission);
            }
        }
        all
    }

    fn hosts(number: usize) -> Vec<Url> {
        (0..number).map(|host| url(&format!("http://h{host}"))).collect()
    }

    #[tokio::test]
    async fn one_namespace_leaves_requests_to_others() {
        let admissions = Admissions::default();
        let mut held = Vec::new();
        for name in 0..7 {
            let all = admitted(&admissions, &namespace(&name.to_string()), &hosts(100)).await;
            assert_eq!(all.len(), PER_NAMESPACE);
            held.push(all);
        }
        let honest = admitted(&admissions, &namespace("honest"), &hosts(100)).await;
        assert_eq!(honest.len(), PER_NAMESPACE);
        let more = admitted(&admissions, &namespace("more"), &hosts(1)).await;
        assert!(more.is_empty(), "there are {REQUESTS} in all");
    }

    #[tokio::test]
    async fn a_host_is_one_host_on_all_ports_and_shared_fairly() {
        let admissions = Admissions::default();
        let ports: Vec<_> = (1..100).map(|port| url(&format!("http://h.:{port}/"))).collect();
        let first = admitted(&admissions, &namespace("a"), &ports).await;
        assert_eq!(first.len(), PER_HOST_AND_NAMESPACE);
        let same = vec![url("https://H/"); 100];
        let second = admitted(&admissions, &namespace("b"), &same).await;
        assert_eq!(second.len(), PER_HOST - PER_HOST_AND_NAMESPACE);
        assert!(admitted(&admissions, &namespace("c"), &same).await.is_empty());
        drop(first);
        assert_eq!(admitted(&admissions, &namespace("c"), &same[..1]).await.len(), 1);
    }

    #[tokio::test]
    async fn who_waits_for_a_slow_host_holds_no_request() {
        let admissions = Admissions::default();
        let slow = vec![url("http://slow/"); 20];
        let _held = [
            admitted(&admissions, &namespace("a"), &slow).await,
            admitted(&admissions, &namespace("b"), &slow).await,
        ];
        let names: Vec<_> = (0..20).map(|name| namespace(&format!("n{name}"))).collect();
        let mut waiting: Vec<_> = names
            .iter()
            .map(|name| Box::pin(admissions.admit(name, &slow[0])))
            .collect();
        for waiting in &mut waiting {
            assert!(poll!(waiting).is_pending());
        }
        let honest = admitted(&admissions, &namespace("honest"), &hosts(100)).await;
        assert_eq!(honest.len(), PER_NAMESPACE);
    }

    #[tokio::test]
    async fn hosts_that_nobody_asks_are_forgotten() {
        let admissions = Admissions::default();
        let name = namespace("a");
        for host in hosts(1000) {
            drop(admissions.admit(&name, &host).await);
        }
        let same = vec![url("http://h/"); 7];
        let held = admitted(&admissions, &name, &same).await;
        // A place in the queue that is given up, too.
        let waiting = Box::pin(admissions.admit(&name, &same[0]));
        let ready = Box::pin(std::future::ready(()));
        assert!(matches!(
            futures::future::select(waiting, ready).await,
            Either::Right(_)
        ));
        assert_eq!(lock(&admissions.hosts.known).len(), 1);
        drop(held);
        assert_eq!(lock(&admissions.hosts.known).len(), 0);
        assert_eq!(admissions.requests.keys(), 0);
    }
}
