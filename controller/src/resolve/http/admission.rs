//! How many requests are under way at a time: in all, for each namespace, and to each host.
//!
//! What a tenant can hold is bounded in number, and what waits is served in turn by namespace. So the tenant who names
//! slow servers, however many, delays his own requests and not those of others.
//!
//! A request needs room in all limits, and gets it in one step. What waits holds nothing, whatever limit it waits for:
//! otherwise namespaces with slow servers of their own would hold the slots of a host that they only wait for.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use helmops_shared::runtime::lock;
use reqwest::Url;
use tokio::sync::oneshot;

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
/// The name of a host.
type Host = Arc<str>;

/// Admits requests.
#[derive(Debug, Default)]
pub struct Admissions {
    state: Arc<Mutex<State>>,
}

/// The right to one request at a time to a host, and to what follows from it: redirects, a token, the next page. Clones
/// are the same right.
#[derive(Clone, Debug)]
pub struct Admission {
    /// When all of it must have come to an end.
    pub until: Instant,
    _admitted: Arc<Admitted>,
}

/// A request that is counted until this is dropped.
#[derive(Debug)]
struct Admitted {
    state: Arc<Mutex<State>>,
    namespace: Namespace,
    host: Host,
}

/// A place in the queue, until this is dropped. If a request was granted meanwhile it is given back, unless it was taken.
struct Waiting<'a> {
    state: &'a Arc<Mutex<State>>,
    namespace: &'a Namespace,
    host: &'a Host,
    ticket: u64,
    is_taken: bool,
}

/// What is under way, and what waits.
///
/// After every operation no waiter has room in all limits. So a newcomer that has room overtakes nobody.
#[derive(Debug, Default)]
struct State {
    under_way: usize,
    /// Only those with requests or waiters.
    namespaces: HashMap<Namespace, Tenant>,
    /// Requests under way by host; only hosts that have some.
    hosts: HashMap<Host, usize>,
    /// Namespaces that have waiters, in the order in which they are served.
    turns: BTreeMap<u64, Namespace>,
    /// Grows with each ticket and each turn.
    clock: u64,
}

/// A namespace.
#[derive(Debug, Default)]
struct Tenant {
    under_way: usize,
    turn: Option<u64>,
    /// Only those with requests or waiters of the namespace.
    hosts: HashMap<Host, Line>,
    /// Hosts that have waiters, by the ticket of the first of them.
    order: BTreeMap<u64, Host>,
}

/// What a namespace has to do with a host.
#[derive(Debug, Default)]
struct Line {
    under_way: usize,
    /// By ticket.
    waiters: BTreeMap<u64, oneshot::Sender<()>>,
}

impl Admissions {
    /// Waits until a namespace may send a request to the host of a URL. Dropping the future gives up the place in the queue.
    pub async fn admit(&self, namespace: &Namespace, url: &Url) -> Admission {
        // The same host is meant with a dot at the end.
        let host = url.host_str().unwrap_or_default().trim_end_matches('.');
        let host: Host = host.into();
        loop {
            let (sender, granted) = oneshot::channel();
            let Some(ticket) = lock(&self.state).take_or_wait(namespace, &host, sender) else {
                break;
            };
            let mut waiting = Waiting {
                state: &self.state,
                namespace,
                host: &host,
                ticket,
                is_taken: false,
            };
            // A sender is dropped only after it has sent, so this is true the first time.
            if granted.await.is_ok() {
                waiting.is_taken = true;
                break;
            }
        }
        Admission {
            until: Instant::now() + LONGEST,
            _admitted: Arc::new(Admitted {
                state: Arc::clone(&self.state),
                namespace: Arc::clone(namespace),
                host,
            }),
        }
    }
}

impl State {
    /// Counts a request, if there is room for it. Otherwise it waits, with this ticket.
    fn take_or_wait(
        &mut self,
        namespace: &Namespace,
        host: &Host,
        waiter: oneshot::Sender<()>,
    ) -> Option<u64> {
        let tenant = self.namespaces.entry(Arc::clone(namespace)).or_default();
        let has_room = self.under_way < REQUESTS
            && tenant.under_way < PER_NAMESPACE
            && has_room(&self.hosts, tenant, host);
        if has_room {
            self.count(namespace, host);
            return None;
        }
        let ticket = self.clock;
        self.clock += 1;
        let line = tenant.hosts.entry(Arc::clone(host)).or_default();
        if line.waiters.is_empty() {
            tenant.order.insert(ticket, Arc::clone(host));
        }
        line.waiters.insert(ticket, waiter);
        if tenant.turn.is_none() {
            self.pass_turn(namespace);
        }
        Some(ticket)
    }

    fn count(&mut self, namespace: &Namespace, host: &Host) {
        self.under_way += 1;
        *self.hosts.entry(Arc::clone(host)).or_default() += 1;
        let tenant = self.namespaces.entry(Arc::clone(namespace)).or_default();
        tenant.under_way += 1;
        tenant.hosts.entry(Arc::clone(host)).or_default().under_way += 1;
    }

    /// A request has ended. Returns the waiters that have room now.
    fn end(&mut self, namespace: &Namespace, host: &Host) -> Vec<oneshot::Sender<()>> {
        self.under_way = self.under_way.saturating_sub(1);
        if let Some(under_way) = self.hosts.get_mut(host) {
            *under_way -= 1;
            if *under_way == 0 {
                self.hosts.remove(host);
            }
        }
        if let Some(tenant) = self.namespaces.get_mut(namespace) {
            tenant.under_way = tenant.under_way.saturating_sub(1);
            if let Some(line) = tenant.hosts.get_mut(host) {
                line.under_way = line.under_way.saturating_sub(1);
            }
        }
        self.forget(namespace, host);
        std::iter::from_fn(|| self.grant()).collect()
    }

    /// Counts the request of the next waiter that has room for it.
    fn grant(&mut self) -> Option<oneshot::Sender<()>> {
        if self.under_way >= REQUESTS {
            return None;
        }
        let (namespace, ticket, host) = self.next()?;
        let waiter = self.remove(&namespace, &host, ticket);
        self.count(&namespace, &host);
        self.pass_turn(&namespace);
        waiter
    }

    /// The namespace whose turn it is, of those that have a waiter with room, and its waiter that came first.
    ///
    /// A host without room has at least [`PER_HOST_AND_NAMESPACE`] requests under way, so there are few of them, and a
    /// namespace is passed over after as few steps.
    fn next(&self) -> Option<(Namespace, u64, Host)> {
        self.turns.values().find_map(|namespace| {
            let tenant = self.namespaces.get(namespace)?;
            if tenant.under_way >= PER_NAMESPACE {
                return None;
            }
            let mut order = tenant.order.iter();
            let (ticket, host) = order.find(|(_, host)| has_room(&self.hosts, tenant, host))?;
            Some((Arc::clone(namespace), *ticket, Arc::clone(host)))
        })
    }

    /// Puts a namespace at the end of those that are served in turn, if it has waiters.
    fn pass_turn(&mut self, namespace: &Namespace) {
        let Some(tenant) = self.namespaces.get_mut(namespace) else {
            return;
        };
        if let Some(turn) = tenant.turn.take() {
            self.turns.remove(&turn);
        }
        if !tenant.order.is_empty() {
            tenant.turn = Some(self.clock);
            self.turns.insert(self.clock, Arc::clone(namespace));
            self.clock += 1;
        }
    }

    /// Takes a waiter out of the queue.
    fn remove(&mut self, namespace: &Namespace, host: &Host, ticket: u64) -> Option<oneshot::Sender<()>> {
        let tenant = self.namespaces.get_mut(namespace)?;
        let line = tenant.hosts.get_mut(host)?;
        let waiter = line.waiters.remove(&ticket)?;
        if tenant.order.remove(&ticket).is_some()
            && let Some((next, _)) = line.waiters.first_key_value()
        {
            tenant.order.insert(*next, Arc::clone(host));
        }
        Some(waiter)
    }

    /// Gives up a place; whether there was still one. If not, a request was granted for it.
    fn leave(&mut self, namespace: &Namespace, host: &Host, ticket: u64) -> bool {
        let was_waiting = self.remove(namespace, host, ticket).is_some();
        let is_last = self
            .namespaces
            .get(namespace)
            .is_some_and(|tenant| tenant.order.is_empty());
        if is_last {
            self.pass_turn(namespace);
        }
        self.forget(namespace, host);
        was_waiting
    }

    /// Forgets a namespace and its part of a host where nothing is left of them.
    fn forget(&mut self, namespace: &Namespace, host: &Host) {
        let Some(tenant) = self.namespaces.get_mut(namespace) else {
            return;
        };
        let is_over = |line: &Line| line.under_way == 0 && line.waiters.is_empty();
        if tenant.hosts.get(host).is_some_and(is_over) {
            tenant.hosts.remove(host);
        }
        if tenant.hosts.is_empty() {
            self.namespaces.remove(namespace);
        }
    }
}

/// Whether a host has room for one more request of a namespace.
fn has_room(hosts: &HashMap<Host, usize>, tenant: &Tenant, host: &Host) -> bool {
    let own = tenant.hosts.get(host).map_or(0, |line| line.under_way);
    own < PER_HOST_AND_NAMESPACE && hosts.get(host).is_none_or(|all| *all < PER_HOST)
}

/// Ends a request, and passes its room on.
fn end(state: &Mutex<State>, namespace: &Namespace, host: &Host) {
    let granted = lock(state).end(namespace, host);
    for waiter in granted {
        // A waiter that is being dropped at this moment gives the request back itself.
        let _ = waiter.send(());
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        end(&self.state, &self.namespace, &self.host);
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if self.is_taken {
            return;
        }
        let was_waiting = lock(self.state).leave(self.namespace, self.host, self.ticket);
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

    /// Two namespaces use up their requests at servers of their own, and have more that wait for a host of all.
    #[tokio::test]
    async fn who_waits_for_a_request_holds_no_host() {
        let admissions = Admissions::default();
        let shared = vec![url("http://shared/"); 20];
        let hostile = [namespace("a"), namespace("b")];
        let _held = [
            admitted(&admissions, &hostile[0], &hosts(100)).await,
            admitted(&admissions, &hostile[1], &hosts(100)).await,
        ];
        let mut waiting: Vec<_> = hostile
            .iter()
            .flat_map(|name| (0..20).map(|_| Box::pin(admissions.admit(name, &shared[0]))))
            .collect();
        for waiting in &mut waiting {
            assert!(poll!(waiting).is_pending());
        }
        let honest = admitted(&admissions, &namespace("honest"), &shared).await;
        assert_eq!(honest.len(), PER_HOST_AND_NAMESPACE);
    }

    /// Every limit is reached, and one namespace has a long queue everywhere: another still has the next turn.
    #[tokio::test]
    async fn namespaces_that_wait_are_served_in_turn() {
        let admissions = Admissions::default();
        let all = hosts(2);
        let (greedy, modest) = (namespace("greedy"), namespace("modest"));
        let mut held = admitted(&admissions, &greedy, &vec![all[0].clone(); 6]).await;
        let _others = [
            admitted(&admissions, &namespace("b"), &vec![all[0].clone(); 6]).await,
            admitted(&admissions, &namespace("c"), &hosts(100)).await,
        ];
        let mut queue: Vec<_> = (0..100)
            .map(|_| Box::pin(admissions.admit(&greedy, &all[0])))
            .collect();
        for waiting in &mut queue {
            assert!(poll!(waiting).is_pending());
        }
        let mut one = pin!(admissions.admit(&modest, &all[0]));
        let mut more = pin!(admissions.admit(&modest, &all[0]));
        assert!(poll!(&mut one).is_pending() && poll!(&mut more).is_pending());
        held.truncate(4);
        let (first, second) = (poll!(&mut queue[0]), poll!(&mut one));
        assert!(first.is_ready(), "it came first");
        assert!(second.is_ready(), "then it is the turn of the other");
        assert!(poll!(&mut queue[1]).is_pending() && poll!(&mut more).is_pending());
    }

    /// What one host cannot take does not hold up what others can.
    #[tokio::test]
    async fn a_request_that_ends_makes_room_for_all_that_have_it_now() {
        let admissions = Admissions::default();
        let (a, b, c, all) = (namespace("a"), namespace("b"), namespace("c"), hosts(3));
        let mut held = admitted(
            &admissions,
            &a,
            &all[..2].iter().cycle().take(8).cloned().collect::<Vec<_>>(),
        )
        .await;
        assert_eq!(held.len(), PER_NAMESPACE);
        let mut own = pin!(admissions.admit(&a, &all[2]));
        assert!(poll!(&mut own).is_pending());
        let _full = [
            admitted(&admissions, &b, &vec![all[0].clone(); 6]).await,
            admitted(&admissions, &c, &vec![all[0].clone(); 2]).await,
        ];
        let mut other = pin!(admissions.admit(&c, &all[0]));
        assert!(poll!(&mut other).is_pending());
        held.remove(0);
        assert!(poll!(&mut own).is_ready() && poll!(&mut other).is_ready());
    }

    /// Many namespaces ask for few hosts, in all orders, and some give up: all others are served, and nothing is left.
    #[tokio::test]
    async fn everybody_is_served_and_nothing_is_left() {
        let admissions = Admissions::default();
        let all = hosts(7);
        let names: Vec<_> = (0..30).map(|name| namespace(&name.to_string())).collect();
        let requests = (0..3000_usize).map(async |number| {
            let (name, host) = (&names[number * 7 % 30], &all[number * number % 7]);
            if number % 10 == 3 {
                let mut given_up = pin!(admissions.admit(name, host));
                drop(poll!(&mut given_up));
                tokio::task::yield_now().await;
                return;
            }
            let _admission = admissions.admit(name, host).await;
            assert_within_limits(&admissions, name);
            for _ in 0..number % 5 {
                tokio::task::yield_now().await;
            }
        });
        futures::future::join_all(requests).await;
        assert_empty(&admissions);
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
        assert_eq!(lock(&admissions.state).hosts.len(), 1);
        drop(held);
        assert_empty(&admissions);
    }

    #[tokio::test]
    async fn a_request_that_was_granted_to_nobody_is_passed_on() {
        let admissions = Admissions::default();
        let (name, same) = (namespace("a"), vec![url("http://h/"); 6]);
        let mut held = admitted(&admissions, &name, &same).await;
        let mut first = Box::pin(admissions.admit(&name, &same[0]));
        let mut second = Box::pin(admissions.admit(&name, &same[0]));
        assert!(poll!(&mut first).is_pending() && poll!(&mut second).is_pending());
        held.pop();
        drop(first);
        assert!(poll!(&mut second).is_ready());
        drop((held, second));
        assert_empty(&admissions);
    }

    fn assert_within_limits(admissions: &Admissions, name: &Namespace) {
        let state = lock(&admissions.state);
        assert!(state.under_way <= REQUESTS);
        assert!(state.hosts.values().all(|under_way| *under_way <= PER_HOST));
        let tenant = &state.namespaces[name];
        assert!(tenant.under_way <= PER_NAMESPACE);
        let mut lines = tenant.hosts.values();
        assert!(lines.all(|line| line.under_way <= PER_HOST_AND_NAMESPACE));
    }

    fn assert_empty(admissions: &Admissions) {
        let state = lock(&admissions.state);
        assert_eq!((state.under_way, state.hosts.len()), (0, 0));
        assert_eq!((state.namespaces.len(), state.turns.len()), (0, 0));
    }
}
