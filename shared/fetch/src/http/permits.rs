//! Limits the number of concurrent requests: in total, per namespace, and per host.
//!
//! A tenant holds a limited number of permits, and waiting namespaces are served in turn. So a tenant with any number of slow
//! servers delays its own requests and not those of others.
//!
//! A request must be within all limits, and is counted in all of them in one step. A waiting request holds nothing, whatever
//! limit it waits for: otherwise namespaces with slow servers of their own would hold slots of a host that they only wait for.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use helmops_process::lock;
use reqwest::Url;
use tokio::sync::oneshot;

/// Concurrent requests of this process. Each has a connection, a reading thread and at most some hundred KiB of buffers.
pub const REQUESTS: usize = 64;
/// Of these, for one namespace: seven namespaces with slow servers leave others the share of one.
const PER_NAMESPACE: usize = 8;
/// Concurrent requests to one host, on any port: it protects the server, and one tenant leaves half to others.
const PER_HOST: usize = 12;
/// Of these, for one namespace: as many as a browser opens connections.
const PER_HOST_AND_NAMESPACE: usize = 6;

/// How long a permit is valid: a tag list of a hundred pages, each in some seconds. Others may wait for its result.
const MAX_HOLD: Duration = Duration::from_mins(5);

/// The namespace that is charged.
type Namespace = Arc<str>;
/// The name of a host.
type Host = Arc<str>;

/// The permits for requests.
#[derive(Debug, Default)]
pub struct RequestPermits {
    state: Arc<Mutex<State>>,
}

/// The permit for one request at a time to a host, and for its follow-up requests: redirects, a token, the next page. Clones
/// share the permit.
#[derive(Clone, Debug)]
pub struct RequestPermit {
    /// When all requests with this permit must be complete.
    pub deadline: Instant,
    _admitted: Arc<HeldPermit>,
}

/// Counts a request until dropped.
#[derive(Debug)]
struct HeldPermit {
    state: Arc<Mutex<State>>,
    namespace: Namespace,
    host: Host,
}

/// A position in the queue, released when dropped. A permit that was granted meanwhile is released too, unless it was taken.
struct QueuedRequest<'a> {
    state: &'a Arc<Mutex<State>>,
    namespace: &'a Namespace,
    host: &'a Host,
    ticket: u64,
    is_taken: bool,
}

/// The requests in flight, and the waiters.
///
/// Invariant: after every operation no waiter is within all limits. So a new request that is within them overtakes no waiter.
#[derive(Debug, Default)]
struct State {
    in_flight: usize,
    /// Only namespaces with requests or waiters.
    namespaces: HashMap<Namespace, Tenant>,
    /// Requests in flight by host; only hosts that have some.
    hosts: HashMap<Host, usize>,
    /// Namespaces with waiters, in the order in which they are served.
    queue: BTreeMap<u64, Namespace>,
    /// The next ticket, or position in `queue`.
    sequence: u64,
}

/// The state of a namespace.
#[derive(Debug, Default)]
struct Tenant {
    in_flight: usize,
    position: Option<u64>,
    /// Only hosts with requests or waiters of the namespace.
    hosts: HashMap<Host, HostQueue>,
    /// Hosts with waiters, by the ticket of the first waiter.
    waiting_hosts: BTreeMap<u64, Host>,
}

/// The requests and waiters of a namespace for a host.
#[derive(Debug, Default)]
struct HostQueue {
    in_flight: usize,
    /// By ticket.
    waiters: BTreeMap<u64, oneshot::Sender<()>>,
}

impl RequestPermits {
    /// Waits until a namespace may send a request to the host of a URL. Dropping the future releases the position in the queue.
    pub async fn acquire(&self, namespace: &Namespace, url: &Url) -> RequestPermit {
        // A trailing dot does not change the host.
        let host = url.host_str().unwrap_or_default().trim_end_matches('.');
        let host: Host = host.into();
        loop {
            let (sender, granted) = oneshot::channel();
            let Some(ticket) = lock(&self.state).acquire_or_enqueue(namespace, &host, sender) else {
                break;
            };
            let mut waiting = QueuedRequest {
                state: &self.state,
                namespace,
                host: &host,
                ticket,
                is_taken: false,
            };
            // A sender is dropped only after it has sent, so this succeeds the first time.
            if granted.await.is_ok() {
                waiting.is_taken = true;
                break;
            }
        }
        RequestPermit {
            deadline: Instant::now() + MAX_HOLD,
            _admitted: Arc::new(HeldPermit {
                state: Arc::clone(&self.state),
                namespace: Arc::clone(namespace),
                host,
            }),
        }
    }
}

impl State {
    /// Counts a request if it is within all limits; otherwise enqueues it and returns its ticket.
    fn acquire_or_enqueue(
        &mut self,
        namespace: &Namespace,
        host: &Host,
        waiter: oneshot::Sender<()>,
    ) -> Option<u64> {
        let tenant = self.namespaces.entry(Arc::clone(namespace)).or_default();
        let has_capacity = self.in_flight < REQUESTS
            && tenant.in_flight < PER_NAMESPACE
            && has_capacity(&self.hosts, tenant, host);
        if has_capacity {
            self.count(namespace, host);
            return None;
        }
        let ticket = self.sequence;
        self.sequence += 1;
        let queue = tenant.hosts.entry(Arc::clone(host)).or_default();
        if queue.waiters.is_empty() {
            tenant.waiting_hosts.insert(ticket, Arc::clone(host));
        }
        queue.waiters.insert(ticket, waiter);
        if tenant.position.is_none() {
            self.requeue(namespace);
        }
        Some(ticket)
    }

    fn count(&mut self, namespace: &Namespace, host: &Host) {
        self.in_flight += 1;
        *self.hosts.entry(Arc::clone(host)).or_default() += 1;
        let tenant = self.namespaces.entry(Arc::clone(namespace)).or_default();
        tenant.in_flight += 1;
        tenant.hosts.entry(Arc::clone(host)).or_default().in_flight += 1;
    }

    /// Removes a completed request. Returns the waiters that are granted a permit now.
    fn end(&mut self, namespace: &Namespace, host: &Host) -> Vec<oneshot::Sender<()>> {
        self.in_flight = self.in_flight.saturating_sub(1);
        if let Some(in_flight) = self.hosts.get_mut(host) {
            *in_flight -= 1;
            if *in_flight == 0 {
                self.hosts.remove(host);
            }
        }
        if let Some(tenant) = self.namespaces.get_mut(namespace) {
            tenant.in_flight = tenant.in_flight.saturating_sub(1);
            if let Some(queue) = tenant.hosts.get_mut(host) {
                queue.in_flight = queue.in_flight.saturating_sub(1);
            }
        }
        self.remove_if_idle(namespace, host);
        std::iter::from_fn(|| self.grant()).collect()
    }

    /// Counts the request of the next waiter that is within all limits.
    fn grant(&mut self) -> Option<oneshot::Sender<()>> {
        if self.in_flight >= REQUESTS {
            return None;
        }
        let (namespace, ticket, host) = self.next()?;
        let waiter = self.remove(&namespace, &host, ticket);
        self.count(&namespace, &host);
        self.requeue(&namespace);
        waiter
    }

    /// The first namespace in the queue that has a waiter within the limits, and its oldest such waiter.
    ///
    /// A host at its limit has at least [`PER_HOST_AND_NAMESPACE`] requests in flight, so there are few such hosts, and a
    /// namespace is skipped after as few steps.
    fn next(&self) -> Option<(Namespace, u64, Host)> {
        self.queue.values().find_map(|namespace| {
            let tenant = self.namespaces.get(namespace)?;
            if tenant.in_flight >= PER_NAMESPACE {
                return None;
            }
            let mut waiting_hosts = tenant.waiting_hosts.iter();
            let (ticket, host) = waiting_hosts.find(|(_, host)| has_capacity(&self.hosts, tenant, host))?;
            Some((Arc::clone(namespace), *ticket, Arc::clone(host)))
        })
    }

    /// Moves a namespace to the end of the queue if it has waiters, and removes it otherwise.
    fn requeue(&mut self, namespace: &Namespace) {
        let Some(tenant) = self.namespaces.get_mut(namespace) else {
            return;
        };
        if let Some(position) = tenant.position.take() {
            self.queue.remove(&position);
        }
        if !tenant.waiting_hosts.is_empty() {
            tenant.position = Some(self.sequence);
            self.queue.insert(self.sequence, Arc::clone(namespace));
            self.sequence += 1;
        }
    }

    /// Removes a waiter.
    fn remove(&mut self, namespace: &Namespace, host: &Host, ticket: u64) -> Option<oneshot::Sender<()>> {
        let tenant = self.namespaces.get_mut(namespace)?;
        let queue = tenant.hosts.get_mut(host)?;
        let waiter = queue.waiters.remove(&ticket)?;
        if tenant.waiting_hosts.remove(&ticket).is_some()
            && let Some((next, _)) = queue.waiters.first_key_value()
        {
            tenant.waiting_hosts.insert(*next, Arc::clone(host));
        }
        Some(waiter)
    }

    /// Cancels a waiter; returns whether it was still waiting. If not, it was granted a permit.
    fn cancel(&mut self, namespace: &Namespace, host: &Host, ticket: u64) -> bool {
        let was_waiting = self.remove(namespace, host, ticket).is_some();
        let is_last = self
            .namespaces
            .get(namespace)
            .is_some_and(|tenant| tenant.waiting_hosts.is_empty());
        if is_last {
            self.requeue(namespace);
        }
        self.remove_if_idle(namespace, host);
        was_waiting
    }

    /// Removes a namespace, and its entry for a host, if they have no requests and no waiters.
    fn remove_if_idle(&mut self, namespace: &Namespace, host: &Host) {
        let Some(tenant) = self.namespaces.get_mut(namespace) else {
            return;
        };
        let is_idle = |queue: &HostQueue| queue.in_flight == 0 && queue.waiters.is_empty();
        if tenant.hosts.get(host).is_some_and(is_idle) {
            tenant.hosts.remove(host);
        }
        if tenant.hosts.is_empty() {
            self.namespaces.remove(namespace);
        }
    }
}

/// Whether a host has capacity for another request of a namespace.
fn has_capacity(hosts: &HashMap<Host, usize>, tenant: &Tenant, host: &Host) -> bool {
    let own = tenant.hosts.get(host).map_or(0, |queue| queue.in_flight);
    own < PER_HOST_AND_NAMESPACE && hosts.get(host).is_none_or(|all| *all < PER_HOST)
}

/// Ends a request, and grants its permit to the next waiters.
fn end(state: &Mutex<State>, namespace: &Namespace, host: &Host) {
    let granted = lock(state).end(namespace, host);
    for waiter in granted {
        // A waiter that is being dropped releases the permit itself.
        let _ = waiter.send(());
    }
}

impl Drop for HeldPermit {
    fn drop(&mut self) {
        end(&self.state, &self.namespace, &self.host);
    }
}

impl Drop for QueuedRequest<'_> {
    fn drop(&mut self) {
        if self.is_taken {
            return;
        }
        let was_waiting = lock(self.state).cancel(self.namespace, self.host, self.ticket);
        if !was_waiting {
            end(self.state, self.namespace, self.host);
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

    /// The permits that are granted immediately.
    async fn acquired(permits: &RequestPermits, namespace: &Namespace, urls: &[Url]) -> Vec<RequestPermit> {
        let mut all = Vec::new();
        for url in urls {
            if let Poll::Ready(permit) = poll!(pin!(permits.acquire(namespace, url))) {
                all.push(permit);
            }
        }
        all
    }

    fn hosts(number: usize) -> Vec<Url> {
        (0..number).map(|host| url(&format!("http://h{host}"))).collect()
    }

    #[tokio::test]
    async fn a_namespace_at_its_limit_leaves_permits_to_others() {
        let permits = RequestPermits::default();
        let mut held = Vec::new();
        for name in 0..7 {
            let all = acquired(&permits, &namespace(&name.to_string()), &hosts(100)).await;
            assert_eq!(all.len(), PER_NAMESPACE);
            held.push(all);
        }
        let modest = acquired(&permits, &namespace("modest"), &hosts(100)).await;
        assert_eq!(modest.len(), PER_NAMESPACE);
        let more = acquired(&permits, &namespace("more"), &hosts(1)).await;
        assert!(more.is_empty(), "there are {REQUESTS} permits in total");
    }

    #[tokio::test]
    async fn all_ports_of_a_host_share_its_limit() {
        let permits = RequestPermits::default();
        let ports: Vec<_> = (1..100).map(|port| url(&format!("http://h.:{port}/"))).collect();
        let first = acquired(&permits, &namespace("a"), &ports).await;
        assert_eq!(first.len(), PER_HOST_AND_NAMESPACE);
        let same = vec![url("https://H/"); 100];
        let second = acquired(&permits, &namespace("b"), &same).await;
        assert_eq!(second.len(), PER_HOST - PER_HOST_AND_NAMESPACE);
        assert!(acquired(&permits, &namespace("c"), &same).await.is_empty());
        drop(first);
        assert_eq!(acquired(&permits, &namespace("c"), &same[..1]).await.len(), 1);
    }

    #[tokio::test]
    async fn a_request_that_waits_for_a_host_holds_no_permit() {
        let permits = RequestPermits::default();
        let slow = vec![url("http://slow/"); 20];
        let _held = [
            acquired(&permits, &namespace("a"), &slow).await,
            acquired(&permits, &namespace("b"), &slow).await,
        ];
        let dns: Vec<_> = (0..20).map(|name| namespace(&format!("n{name}"))).collect();
        let mut waiting: Vec<_> = dns
            .iter()
            .map(|name| Box::pin(permits.acquire(name, &slow[0])))
            .collect();
        for waiting in &mut waiting {
            assert!(poll!(waiting).is_pending());
        }
        let modest = acquired(&permits, &namespace("modest"), &hosts(100)).await;
        assert_eq!(modest.len(), PER_NAMESPACE);
    }

    /// Two namespaces reach their limit with their own servers, and have more requests that wait for a shared host.
    #[tokio::test]
    async fn a_request_that_waits_for_its_namespace_holds_no_host() {
        let permits = RequestPermits::default();
        let shared = vec![url("http://shared/"); 20];
        let hostile = [namespace("a"), namespace("b")];
        let _held = [
            acquired(&permits, &hostile[0], &hosts(100)).await,
            acquired(&permits, &hostile[1], &hosts(100)).await,
        ];
        let mut waiting: Vec<_> = hostile
            .iter()
            .flat_map(|name| (0..20).map(|_| Box::pin(permits.acquire(name, &shared[0]))))
            .collect();
        for waiting in &mut waiting {
            assert!(poll!(waiting).is_pending());
        }
        let modest = acquired(&permits, &namespace("modest"), &shared).await;
        assert_eq!(modest.len(), PER_HOST_AND_NAMESPACE);
    }

    /// Every limit is reached, and one namespace has a long queue: another namespace is still served next.
    #[tokio::test]
    async fn waiting_namespaces_are_served_in_turn() {
        let permits = RequestPermits::default();
        let all = hosts(2);
        let (greedy, modest) = (namespace("greedy"), namespace("modest"));
        let mut held = acquired(&permits, &greedy, &vec![all[0].clone(); 6]).await;
        let _others = [
            acquired(&permits, &namespace("b"), &vec![all[0].clone(); 6]).await,
            acquired(&permits, &namespace("c"), &hosts(100)).await,
        ];
        let mut queue: Vec<_> = (0..100)
            .map(|_| Box::pin(permits.acquire(&greedy, &all[0])))
            .collect();
        for waiting in &mut queue {
            assert!(poll!(waiting).is_pending());
        }
        let mut one = pin!(permits.acquire(&modest, &all[0]));
        let mut more = pin!(permits.acquire(&modest, &all[0]));
        assert!(poll!(&mut one).is_pending() && poll!(&mut more).is_pending());
        held.truncate(4);
        let (first, second) = (poll!(&mut queue[0]), poll!(&mut one));
        assert!(first.is_ready(), "it is the oldest waiter");
        assert!(second.is_ready(), "the other namespace is next");
        assert!(poll!(&mut queue[1]).is_pending() && poll!(&mut more).is_pending());
    }

    /// A host at its limit does not block requests to other hosts.
    #[tokio::test]
    async fn a_completed_request_unblocks_every_waiter_within_the_limits() {
        let permits = RequestPermits::default();
        let (a, b, c, all) = (namespace("a"), namespace("b"), namespace("c"), hosts(3));
        let mut held = acquired(
            &permits,
            &a,
            &all[..2].iter().cycle().take(8).cloned().collect::<Vec<_>>(),
        )
        .await;
        assert_eq!(held.len(), PER_NAMESPACE);
        let mut own = pin!(permits.acquire(&a, &all[2]));
        assert!(poll!(&mut own).is_pending());
        let _full = [
            acquired(&permits, &b, &vec![all[0].clone(); 6]).await,
            acquired(&permits, &c, &vec![all[0].clone(); 2]).await,
        ];
        let mut other = pin!(permits.acquire(&c, &all[0]));
        assert!(poll!(&mut other).is_pending());
        held.remove(0);
        assert!(poll!(&mut own).is_ready() && poll!(&mut other).is_ready());
    }

    /// Many namespaces request few hosts, in all orders, and some cancel: all others are served, and no state is left.
    #[tokio::test]
    async fn every_waiter_is_served_and_no_state_is_left() {
        let permits = RequestPermits::default();
        let all = hosts(7);
        let dns: Vec<_> = (0..30).map(|name| namespace(&name.to_string())).collect();
        let requests = (0..3000_usize).map(async |number| {
            let (name, host) = (&dns[number * 7 % 30], &all[number * number % 7]);
            if number % 10 == 3 {
                let mut cancelled = pin!(permits.acquire(name, host));
                drop(poll!(&mut cancelled));
                tokio::task::yield_now().await;
                return;
            }
            let _admission = permits.acquire(name, host).await;
            assert_within_limits(&permits, name);
            for _ in 0..number % 5 {
                tokio::task::yield_now().await;
            }
        });
        futures::future::join_all(requests).await;
        assert_empty(&permits);
    }

    #[tokio::test]
    async fn hosts_without_requests_are_removed() {
        let permits = RequestPermits::default();
        let name = namespace("a");
        for host in hosts(1000) {
            drop(permits.acquire(&name, &host).await);
        }
        let same = vec![url("http://h/"); 7];
        let held = acquired(&permits, &name, &same).await;
        // A cancelled position in the queue too.
        let waiting = Box::pin(permits.acquire(&name, &same[0]));
        let ready = Box::pin(std::future::ready(()));
        assert!(matches!(
            futures::future::select(waiting, ready).await,
            Either::Right(_)
        ));
        assert_eq!(lock(&permits.state).hosts.len(), 1);
        drop(held);
        assert_empty(&permits);
    }

    #[tokio::test]
    async fn a_permit_granted_to_a_dropped_waiter_is_passed_on() {
        let permits = RequestPermits::default();
        let (name, same) = (namespace("a"), vec![url("http://h/"); 6]);
        let mut held = acquired(&permits, &name, &same).await;
        let mut first = Box::pin(permits.acquire(&name, &same[0]));
        let mut second = Box::pin(permits.acquire(&name, &same[0]));
        assert!(poll!(&mut first).is_pending() && poll!(&mut second).is_pending());
        held.pop();
        drop(first);
        assert!(poll!(&mut second).is_ready());
        drop((held, second));
        assert_empty(&permits);
    }

    fn assert_within_limits(permits: &RequestPermits, name: &Namespace) {
        let state = lock(&permits.state);
        assert!(state.in_flight <= REQUESTS);
        assert!(state.hosts.values().all(|in_flight| *in_flight <= PER_HOST));
        let tenant = &state.namespaces[name];
        assert!(tenant.in_flight <= PER_NAMESPACE);
        let mut queues = tenant.hosts.values();
        assert!(queues.all(|queue| queue.in_flight <= PER_HOST_AND_NAMESPACE));
    }

    fn assert_empty(permits: &RequestPermits) {
        let state = lock(&permits.state);
        assert_eq!((state.in_flight, state.hosts.len()), (0, 0));
        assert_eq!((state.namespaces.len(), state.queue.len()), (0, 0));
    }
}
