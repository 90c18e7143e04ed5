//! Which connection gives way when the server is full.
//!
//! A new connection is always worth more than one that does nothing: only so can a peer that stays silent not keep
//! the others out. The address of the peer decides first. API servers may all come from one address (a load balancer,
//! konnectivity), so an address has no limit of its own: its share counts only while the server is full.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use tokio::task::{AbortHandle, Id};

use super::activity::{Activity, Standing};
use super::peer_bytes::PeerBytes;

/// One address may hold this fraction of all connections before its connections are the first to be closed.
const SHARE: usize = 4;

/// The open connections of a server, by the task that serves them.
pub(super) struct ConnectionSlots {
    limit: usize,
    open: HashMap<Id, Place>,
    /// Only addresses with an open connection, so no more than `open` has.
    peers: HashMap<IpAddr, Peer>,
    opened: u64,
}

struct Place {
    peer: IpAddr,
    activity: Arc<Activity>,
    task: AbortHandle,
    /// Orders connections of the same instant.
    number: u64,
}

#[derive(Default)]
struct Peer {
    connections: usize,
    body_bytes: PeerBytes,
}

impl ConnectionSlots {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            limit,
            open: HashMap::new(),
            peers: HashMap::new(),
            opened: 0,
        }
    }

    pub(super) fn full(&self) -> bool {
        self.open.len() >= self.limit
    }

    /// Counts a connection from `peer` that is about to be served. Returns the counter that all connections of this
    /// address share.
    pub(super) fn take(&mut self, peer: IpAddr) -> PeerBytes {
        let peer = self.peers.entry(peer).or_default();
        peer.connections += 1;
        peer.body_bytes.clone()
    }

    /// Notes the task that serves a connection that [`Self::take`] has counted.
    pub(super) fn hold(&mut self, peer: IpAddr, activity: Arc<Activity>, task: AbortHandle) {
        self.opened += 1;
        self.open.insert(
            task.id(),
            Place {
                peer,
                activity,
                task,
                number: self.opened,
            },
        );
    }

    /// The connection has ended. Does nothing for one that was closed by [`Self::make_room`].
    pub(super) fn leave(&mut self, task: Id) {
        self.remove(task);
    }

    /// Closes a connection in favour of a new one from `newcomer`. Returns whether there was one to close.
    ///
    /// First come addresses above their share, then connections without a request so far, then idle ones; of equals the
    /// oldest. A request under way is ended only for an address with fewer connections, and only at the address that
    /// has the most. An address above its share gets room from its own connections alone.
    pub(super) fn make_room(&mut self, newcomer: IpAddr) -> bool {
        let Some(task) = self.first_to_go(newcomer) else {
            return false;
        };
        if let Some(place) = self.remove(task) {
            place.task.abort();
        }
        true
    }

    fn first_to_go(&self, newcomer: IpAddr) -> Option<Id> {
        let share = (self.limit / SHARE).max(1);
        let own = self.held_by(newcomer);
        let most = self.peers.values().map(|peer| peer.connections).max();
        self.open
            .iter()
            .filter(|(_, place)| own < share || place.peer == newcomer)
            .filter_map(|(id, place)| {
                let held = self.held_by(place.peer);
                let (standing, since) = place.activity.standing();
                let may_go = standing != Standing::Busy || (held > own + 1 && Some(held) == most);
                let rank = (held <= share, standing, since, place.number);
                may_go.then_some((rank, *id))
            })
            .min_by_key(|(rank, _)| *rank)
            .map(|(_, id)| id)
    }

    fn held_by(&self, peer: IpAddr) -> usize {
        self.peers.get(&peer).map_or(0, |peer| peer.connections)
    }

    fn remove(&mut self, task: Id) -> Option<Place> {
        let place = self.open.remove(&task)?;
        if let Some(peer) = self.peers.get_mut(&place.peer) {
            peer.connections -= 1;
            if peer.connections == 0 {
                self.peers.remove(&place.peer);
            }
        }
        Some(place)
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
    struct Stage {
        places: ConnectionSlots,
        tasks: JoinSet<()>,
        names: HashMap<Id, &'static str>,
    }

    impl Stage {
        fn new() -> Self {
            Self {
                places: ConnectionSlots::new(LIMIT),
                tasks: JoinSet::new(),
                names: HashMap::new(),
            }
        }

        /// Opens connections, each a second after the one before.
        async fn open(&mut self, name: &'static str, count: usize, peer: IpAddr) -> Vec<Arc<Activity>> {
            let mut activities = Vec::new();
            for _ in 0..count {
                advance(Duration::from_secs(1)).await;
                let activity = Activity::new();
                let task = self.tasks.spawn(std::future::pending());
                self.names.insert(task.id(), name);
                self.places.take(peer);
                self.places.hold(peer, Arc::clone(&activity), task);
                activities.push(activity);
            }
            activities
        }

        /// What is closed for a connection from `peer`.
        fn gives_way_to(&mut self, peer: IpAddr) -> Option<&'static str> {
            let id = self.places.first_to_go(peer)?;
            assert!(self.places.make_room(peer));
            self.names.get(&id).copied()
        }
    }

    fn address(last: u8) -> IpAddr {
        [10, 0, 0, last].into()
    }

    fn finish_a_request(activities: &[Arc<Activity>]) {
        for activity in activities {
            drop(activity.begin());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn of_connections_without_a_request_the_oldest_goes_before_any_idle_one() {
        let mut stage = Stage::new();
        let used = stage.open("used", 1, address(1)).await;
        finish_a_request(&used);
        let busy = stage.open("busy", 1, address(2)).await;
        let _under_way = busy.iter().map(Activity::begin).collect::<Vec<_>>();
        stage.open("older", 1, address(3)).await;
        stage.open("newer", 1, address(4)).await;
        assert_eq!(stage.gives_way_to(address(9)), Some("older"));
        assert_eq!(stage.gives_way_to(address(9)), Some("newer"));
        assert_eq!(stage.gives_way_to(address(9)), Some("used"));
        assert_eq!(
            stage.gives_way_to(address(9)),
            None,
            "a request under way is not ended"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_above_its_share_gives_way_first_even_with_requests_under_way() {
        let mut stage = Stage::new();
        stage.open("silent", 1, address(1)).await;
        let greedy = stage.open("greedy", LIMIT / SHARE + 1, address(2)).await;
        let _under_way = greedy.iter().map(Activity::begin).collect::<Vec<_>>();
        assert_eq!(stage.gives_way_to(address(9)), Some("greedy"));
        assert_eq!(
            stage.gives_way_to(address(9)),
            Some("silent"),
            "now it is within its share"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_above_its_share_gets_no_room_from_others() {
        let mut stage = Stage::new();
        stage.open("silent", LIMIT - LIMIT / SHARE, address(1)).await;
        let greedy = stage.open("greedy", LIMIT / SHARE, address(2)).await;
        finish_a_request(&greedy);
        assert_eq!(stage.gives_way_to(address(2)), Some("greedy"));
    }

    #[tokio::test(start_paused = true)]
    async fn requests_under_way_at_many_addresses_do_not_keep_a_further_address_out() {
        let mut stage = Stage::new();
        let mut under_way = Vec::new();
        for last in 1..=4 {
            for activity in stage.open("busy", LIMIT / 4, address(last)).await {
                under_way.push(activity.begin());
            }
        }
        assert_eq!(stage.gives_way_to(address(9)), Some("busy"));
        assert_eq!(stage.gives_way_to(address(1)), None);
    }

    #[tokio::test(start_paused = true)]
    async fn behind_one_address_idle_connections_make_room_and_requests_are_not_ended() {
        let mut stage = Stage::new();
        let all = stage.open("server", LIMIT, address(1)).await;
        assert!(stage.places.full());
        let mut under_way: Vec<_> = all.iter().map(Activity::begin).collect();
        assert_eq!(stage.gives_way_to(address(1)), None);
        under_way.pop();
        assert_eq!(stage.gives_way_to(address(1)), Some("server"));
    }

    #[tokio::test(start_paused = true)]
    async fn addresses_that_left_are_forgotten() {
        let mut stage = Stage::new();
        for last in 1..=10 {
            stage.open("passing", 1, address(last)).await;
            let id = stage.names.keys().copied().next().unwrap();
            stage.names.clear();
            stage.places.leave(id);
            stage.places.leave(id);
        }
        assert!(stage.places.peers.is_empty() && stage.places.open.is_empty());
    }
}
