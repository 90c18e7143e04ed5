//! Selects the connection to close when the server is full.
//!
//! A new connection is always worth more than one that does nothing, so that silent peers cannot block the others. The
//! address of the peer is the first criterion. API servers may all have the same address (a load balancer, konnectivity), so
//! an address has no limit of its own: its share counts only while the server is full.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use tokio::task::{AbortHandle, Id};

use super::activity::{Activity, ConnectionState};

/// An address may have `1 / SHARE` of all connections. Above that, its connections are the first to be closed.
const SHARE: usize = 4;

/// The open connections of a server, by the tasks that serve them.
pub(super) struct ConnectionSlots {
    limit: usize,
    open: HashMap<Id, Slot>,
    last_number: u64,
}

struct Slot {
    address: IpAddr,
    activity: Arc<Activity>,
    task: AbortHandle,
    /// Orders connections of the same instant.
    number: u64,
}

/// The connections of an address.
#[derive(Clone, Copy, Default)]
struct Counts {
    all: usize,
    /// Those without a request so far.
    silent: usize,
}

impl ConnectionSlots {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            limit,
            open: HashMap::new(),
            last_number: 0,
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.open.len() >= self.limit
    }

    /// Records the task that serves a connection of `address`.
    pub(super) fn occupy(&mut self, address: IpAddr, activity: Arc<Activity>, task: AbortHandle) {
        self.last_number += 1;
        self.open.insert(
            task.id(),
            Slot {
                address,
                activity,
                task,
                number: self.last_number,
            },
        );
    }

    /// Frees the slot of a connection that has ended. Does nothing if [`Self::evict_for`] has closed it.
    pub(super) fn release(&mut self, task: Id) {
        self.open.remove(&task);
    }

    /// Closes a connection in favor of a new one from `newcomer`. Returns whether there was one to close.
    ///
    /// The order is: connections of addresses above their share, then connections without a request so far, then idle ones,
    /// and the oldest first among equals. Without a request so far, those of the address with the most of them are first: of a burst of
    /// silent connections, as many as the limit may arrive before the request of another client is read. A connection with a request
    /// in flight is closed only for an address with fewer connections, and only at the address that has the most. For an address above
    /// its share, only its own connections are closed.
    pub(super) fn evict_for(&mut self, newcomer: IpAddr) -> bool {
        let Some(task) = self.eviction_candidate(newcomer) else {
            return false;
        };
        if let Some(slot) = self.open.remove(&task) {
            slot.task.abort();
        }
        true
    }

    fn eviction_candidate(&self, newcomer: IpAddr) -> Option<Id> {
        let share = (self.limit / SHARE).max(1);
        let counts = self.counts();
        let of = |address: IpAddr| counts.get(&address).copied().unwrap_or_default();
        let own = of(newcomer).all;
        let most = counts.values().map(|counts| counts.all).max();
        self.open
            .iter()
            .filter(|(_, slot)| own < share || slot.address == newcomer)
            .filter_map(|(id, slot)| {
                let Counts { all: count, silent } = of(slot.address);
                let (state, since) = slot.activity.state();
                let is_evictable =
                    state != ConnectionState::Active || (count > own + 1 && Some(count) == most);
                let silent = (state == ConnectionState::New).then_some(silent);
                let rank = (count <= share, state, Reverse(silent), since, slot.number);
                is_evictable.then_some((rank, *id))
            })
            .min_by_key(|(rank, _)| *rank)
            .map(|(_, id)| id)
    }

    fn counts(&self) -> HashMap<IpAddr, Counts> {
        let mut counts: HashMap<_, Counts> = HashMap::new();
        for slot in self.open.values() {
            let of_address = counts.entry(slot.address).or_default();
            of_address.all += 1;
            of_address.silent += usize::from(slot.activity.state().0 == ConnectionState::New);
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::task::JoinSet;
    use tokio::time::advance;

    use super::*;

    const LIMIT: usize = 16;

    /// Connections that stay open until they are closed by the server.
    struct Fixture {
        slots: ConnectionSlots,
        tasks: JoinSet<()>,
        names: HashMap<Id, &'static str>,
    }

    impl Fixture {
        fn new() -> Self {
            Self {
                slots: ConnectionSlots::new(LIMIT),
                tasks: JoinSet::new(),
                names: HashMap::new(),
            }
        }

        /// Opens connections, one per second.
        async fn open(&mut self, name: &'static str, count: usize, address: IpAddr) -> Vec<Arc<Activity>> {
            let mut activities = Vec::new();
            for _ in 0..count {
                advance(Duration::from_secs(1)).await;
                let activity = Activity::new();
                let task = self.tasks.spawn(std::future::pending());
                self.names.insert(task.id(), name);
                self.slots.occupy(address, Arc::clone(&activity), task);
                activities.push(activity);
            }
            activities
        }

        /// The connection that is closed for a new one from `address`.
        fn evicted_for(&mut self, address: IpAddr) -> Option<&'static str> {
            let id = self.slots.eviction_candidate(address)?;
            assert!(self.slots.evict_for(address));
            self.names.get(&id).copied()
        }
    }

    fn address(last: u8) -> IpAddr {
        [10, 0, 0, last].into()
    }

    fn finish_a_request(activities: &[Arc<Activity>]) {
        for activity in activities {
            drop(activity.start_request());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn connections_without_a_request_are_evicted_oldest_first_then_idle_ones() {
        let mut fixture = Fixture::new();
        let used = fixture.open("used", 1, address(1)).await;
        finish_a_request(&used);
        let busy = fixture.open("busy", 1, address(2)).await;
        let _in_flight = busy.iter().map(Activity::start_request).collect::<Vec<_>>();
        fixture.open("older", 1, address(3)).await;
        fixture.open("newer", 1, address(4)).await;
        assert_eq!(fixture.evicted_for(address(9)), Some("older"));
        assert_eq!(fixture.evicted_for(address(9)), Some("newer"));
        assert_eq!(fixture.evicted_for(address(9)), Some("used"));
        assert_eq!(
            fixture.evicted_for(address(9)),
            None,
            "a request in flight is not aborted"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_outlives_newer_silent_connections_of_addresses_with_more_of_them() {
        let mut fixture = Fixture::new();
        fixture.open("client", 1, address(1)).await;
        fixture.open("silent", LIMIT / SHARE, address(2)).await;
        fixture.open("silent too", LIMIT / SHARE - 1, address(3)).await;
        assert_eq!(fixture.evicted_for(address(9)), Some("silent"));
        for _ in 0..2 {
            assert_ne!(fixture.evicted_for(address(9)), Some("client"));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn connections_of_an_address_above_its_share_are_evicted_first_even_with_requests_in_flight() {
        let mut fixture = Fixture::new();
        fixture.open("silent", 1, address(1)).await;
        let greedy = fixture.open("greedy", LIMIT / SHARE + 1, address(2)).await;
        let _in_flight = greedy.iter().map(Activity::start_request).collect::<Vec<_>>();
        assert_eq!(fixture.evicted_for(address(9)), Some("greedy"));
        assert_eq!(
            fixture.evicted_for(address(9)),
            Some("silent"),
            "now it is within its share"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_above_its_share_evicts_only_its_own_connections() {
        let mut fixture = Fixture::new();
        fixture.open("silent", LIMIT - LIMIT / SHARE, address(1)).await;
        let greedy = fixture.open("greedy", LIMIT / SHARE, address(2)).await;
        finish_a_request(&greedy);
        assert_eq!(fixture.evicted_for(address(2)), Some("greedy"));
    }

    #[tokio::test(start_paused = true)]
    async fn requests_in_flight_at_many_addresses_do_not_block_a_new_address() {
        let mut fixture = Fixture::new();
        let mut in_flight = Vec::new();
        for last in 1..=4 {
            for activity in fixture.open("busy", LIMIT / 4, address(last)).await {
                in_flight.push(activity.start_request());
            }
        }
        assert_eq!(fixture.evicted_for(address(9)), Some("busy"));
        assert_eq!(fixture.evicted_for(address(1)), None);
    }

    #[tokio::test(start_paused = true)]
    async fn within_one_address_idle_connections_are_evicted_and_requests_in_flight_are_not() {
        let mut fixture = Fixture::new();
        let all = fixture.open("server", LIMIT, address(1)).await;
        assert!(fixture.slots.is_full());
        let mut in_flight: Vec<_> = all.iter().map(Activity::start_request).collect();
        assert_eq!(fixture.evicted_for(address(1)), None);
        in_flight.pop();
        assert_eq!(fixture.evicted_for(address(1)), Some("server"));
    }
}
