use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
};

use helmops_shared::runtime::lock;
use http::{Method, Request, Response, StatusCode};
use kube::client::Body;
use prometheus::Registry;
use serde_json::json;
use tokio::task::{AbortHandle, JoinSet};
use tower::service_fn;

use super::*;

const SECOND: Duration = Duration::from_secs(1);
/// A retry period at its longest, and the requests.
const RETRY: Duration = Duration::from_millis(2500);

/// How the API server behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mood {
    Well,
    Refuses(u16),
    Hangs,
    /// Carries writes out and does not answer.
    Mute,
}

/// An API server that knows one Lease.
#[derive(Debug)]
struct Fake {
    mood: Mood,
    lease: Option<Lease>,
    version: u64,
    reads: u32,
    writes: u32,
    requests: u32,
}

type Server = Arc<Mutex<Fake>>;

fn server() -> Server {
    Arc::new(Mutex::new(Fake {
        mood: Mood::Well,
        lease: None,
        version: 0,
        reads: 0,
        writes: 0,
        requests: 0,
    }))
}

impl Fake {
    fn answer(&mut self, method: &Method, body: &[u8]) -> Result<Lease, u16> {
        if let Mood::Refuses(code) = self.mood {
            return Err(code);
        }
        if method == Method::GET {
            self.reads += 1;
            return self.lease.clone().ok_or(404);
        }
        let mut lease: Lease = serde_json::from_slice(body).unwrap();
        match (&self.lease, method == Method::POST) {
            (None, true) => {}
            (Some(stored), false) if stored.metadata.resource_version == lease.metadata.resource_version => {}
            (None, false) => return Err(404),
            (Some(_), _) => return Err(409),
        }
        self.writes += 1;
        self.set(lease.spec.take().unwrap());
        self.lease.clone().ok_or(500)
    }

    fn set(&mut self, spec: LeaseSpec) {
        self.version += 1;
        self.lease = Some(Lease {
            metadata: ObjectMeta {
                name: Some("lease".to_owned()),
                resource_version: Some(self.version.to_string()),
                ..ObjectMeta::default()
            },
            spec: Some(spec),
        });
    }

    fn spec(&self) -> LeaseSpec {
        self.lease.clone().unwrap().spec.unwrap()
    }

    fn holder(&self) -> String {
        self.spec().holder_identity.unwrap_or_default()
    }
}

fn client(server: &Server) -> Client {
    let server = Arc::clone(server);
    let service = service_fn(move |request: Request<Body>| {
        let server = Arc::clone(&server);
        async move {
            let (head, body) = request.into_parts();
            let body = body.collect_bytes().await.unwrap();
            sleep(Duration::from_millis(5)).await;
            let (answer, mood) = {
                let mut server = lock(&server);
                server.requests += 1;
                let answer = (server.mood != Mood::Hangs).then(|| server.answer(&head.method, &body));
                (answer, server.mood)
            };
            let (code, body) = match answer {
                Some(_) if mood == Mood::Mute => return std::future::pending().await,
                None => return std::future::pending().await,
                Some(Ok(lease)) => (200, serde_json::to_value(lease).unwrap()),
                Some(Err(code)) => (code, status(code)),
            };
            let mut response = Response::new(Body::from(serde_json::to_vec(&body).unwrap()));
            *response.status_mut() = StatusCode::from_u16(code).unwrap();
            Ok::<_, Infallible>(response)
        }
    });
    Client::new(service, "system")
}

fn status(code: u16) -> serde_json::Value {
    let reason = match code {
        403 => "Forbidden",
        404 => "NotFound",
        409 => "Conflict",
        _ => "InternalError",
    };
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "code": code, "reason": reason, "message": "no",
    })
}

/// A replica that takes part.
struct Replica {
    leadership: Leadership,
    stop: CancellationToken,
    drained: CancellationToken,
    health: Health,
    registry: Registry,
    task: AbortHandle,
}

impl Replica {
    fn start(tasks: &mut JoinSet<()>, server: &Server, identity: &str) -> Self {
        let timing = Timing::new(15 * SECOND, 10 * SECOND, 2 * SECOND).unwrap();
        let (health, registry) = (Health::default(), Registry::new());
        let lease = LeaseName {
            namespace: "system".to_owned(),
            name: "lease".to_owned(),
        };
        let metrics = LeaseMetrics::register(&registry).unwrap();
        let (election, leadership) = Election::new(
            client(server),
            lease,
            identity.to_owned(),
            timing,
            metrics,
            &health,
        );
        let (stop, drained) = (CancellationToken::new(), CancellationToken::new());
        let task = tasks.spawn(election.run(stop.clone(), drained.clone().cancelled_owned()));
        Self {
            leadership,
            stop,
            drained,
            health,
            registry,
            task,
        }
    }

    fn leads(&self) -> bool {
        self.leadership.remaining().is_some()
    }

    fn metric(&self, name: &str) -> f64 {
        let families = self.registry.gather();
        let family = families.iter().find(|family| family.name() == name).unwrap();
        let metric = &family.get_metric()[0];
        metric.get_gauge().get_value() + metric.get_counter().get_value()
    }

    /// Waits, and gives the time that it took.
    async fn until(&self, leads: bool, limit: Duration) -> Duration {
        let start = Instant::now();
        while self.leads() != leads {
            assert!(start.elapsed() < limit, "leads: {} after {limit:?}", self.leads());
            sleep(Duration::from_millis(10)).await;
        }
        start.elapsed()
    }
}

#[tokio::test(start_paused = true)]
async fn the_leader_renews_at_each_period_and_reads_nothing() {
    let (server, mut tasks) = (server(), JoinSet::new());
    let replica = Replica::start(&mut tasks, &server, "one");
    assert_eq!(timeout(RETRY, replica.leadership.held()).await, Ok(Ok(())));
    assert_eq!(lock(&server).holder(), "one");
    sleep(60 * SECOND).await;
    let reads = lock(&server).reads;
    let writes = lock(&server).writes;
    assert!(
        reads <= 1 && (25..=31).contains(&writes),
        "{reads} reads and {writes} writes"
    );
    assert_eq!(lock(&server).spec().lease_transitions, Some(0));
    assert!(replica.leads());
    assert!((replica.metric("helmops_leader") - 1.0).abs() < 1e-9);
    assert!((replica.metric("helmops_lease_transitions_total") - 1.0).abs() < 1e-9);
}

/// Errors, silence, and answers that never come though the write was done.
#[tokio::test(start_paused = true)]
async fn a_leader_without_a_renewal_stops_in_time_and_goes_on_when_it_can() {
    for mood in [
        Mood::Refuses(500),
        Mood::Refuses(403),
        Mood::Hangs,
        Mood::Mute,
        Mood::Refuses(404),
    ] {
        let (server, mut tasks) = (server(), JoinSet::new());
        let replica = Replica::start(&mut tasks, &server, "one");
        replica.until(true, RETRY).await;
        sleep(30 * SECOND).await;
        let before = lock(&server).requests;
        lock(&server).mood = mood;
        let took = replica.until(false, 11 * SECOND).await;
        assert!(took <= 10 * SECOND && took > 7 * SECOND, "{mood:?}: {took:?}");
        let tries = lock(&server).requests - before;
        assert!(tries >= 2, "{mood:?}: {tries} tries to save it");
        sleep(600 * SECOND).await;
        assert!(
            !replica.leads() && replica.health.live().ok(),
            "it is alive, and tries"
        );
        assert!(
            replica.metric("helmops_leader").abs() < 1e-9,
            "and is seen to stand by"
        );
        lock(&server).mood = Mood::Well;
        let took = replica.until(true, 20 * SECOND).await;
        let most = match mood {
            // A Lease that was gone and is back may have had another holder meanwhile.
            Mood::Refuses(404) => 15 * SECOND + RETRY,
            // It must have given up a request that hung, and waited once.
            _ => 5 * SECOND + RETRY,
        };
        assert!(took <= most, "{mood:?}: {took:?}");
        assert_eq!(
            lock(&server).spec().lease_transitions,
            Some(0),
            "it has always been its own"
        );
        assert!((replica.metric("helmops_lease_transitions_total") - 3.0).abs() < 1e-9);
    }
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_is_in_trouble_from_the_start_is_waited_for() {
    for mood in [
        Mood::Refuses(500),
        Mood::Refuses(403),
        Mood::Refuses(404),
        Mood::Hangs,
        Mood::Mute,
    ] {
        let (server, mut tasks) = (server(), JoinSet::new());
        lock(&server).mood = mood;
        let replica = Replica::start(&mut tasks, &server, "one");
        sleep(600 * SECOND).await;
        assert!(!replica.leads());
        assert!(replica.health.live().ok());
        lock(&server).mood = Mood::Well;
        replica.until(true, 5 * SECOND + RETRY).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_deleted_lease_is_made_anew_and_nobody_notices() {
    let (server, mut tasks) = (server(), JoinSet::new());
    let one = Replica::start(&mut tasks, &server, "one");
    one.until(true, RETRY).await;
    let other = Replica::start(&mut tasks, &server, "other");
    sleep(5 * SECOND).await;
    for _ in 0..10 {
        lock(&server).lease = None;
        for _ in 0..50 {
            sleep(SECOND / 10).await;
            assert!(one.leads() && !other.leads());
        }
        assert_eq!(lock(&server).holder(), "one");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_taken_by_hand_is_respected_until_it_runs_out() {
    let (server, mut tasks) = (server(), JoinSet::new());
    let replica = Replica::start(&mut tasks, &server, "one");
    replica.until(true, RETRY).await;
    let by_hand = |server: &Server, holder: &str| {
        let mut server = lock(server);
        let spec = LeaseSpec {
            holder_identity: Some(holder.to_owned()),
            ..server.spec()
        };
        server.set(spec);
    };
    by_hand(&server, "somebody");
    let took = replica.until(false, RETRY).await;
    assert!(took <= RETRY, "{took:?}");
    let took = replica.until(true, 20 * SECOND).await;
    assert!(took >= 15 * SECOND && took <= 15 * SECOND + RETRY, "{took:?}");
    let spec = lock(&server).spec();
    assert_eq!(
        (spec.holder_identity.as_deref(), spec.lease_transitions),
        (Some("one"), Some(1))
    );
    // Nobody: it is anybody's, and so its own again.
    by_hand(&server, "");
    sleep(RETRY).await;
    assert!(replica.leads());
    assert_eq!(lock(&server).holder(), "one");
}

#[tokio::test(start_paused = true)]
async fn what_else_changes_of_the_lease_is_no_matter() {
    let (server, mut tasks) = (server(), JoinSet::new());
    let replica = Replica::start(&mut tasks, &server, "one");
    replica.until(true, RETRY).await;
    for _ in 0..30 {
        {
            let mut server = lock(&server);
            let spec = server.spec();
            server.set(spec);
        }
        for _ in 0..10 {
            sleep(SECOND / 10).await;
            assert!(replica.leads());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn another_takes_over_from_one_that_dies_and_never_before() {
    let (server, mut tasks) = (server(), JoinSet::new());
    let one = Replica::start(&mut tasks, &server, "one");
    one.until(true, RETRY).await;
    let other = Replica::start(&mut tasks, &server, "other");
    for _ in 0..600 {
        sleep(SECOND / 10).await;
        assert!(one.leads() && !other.leads());
    }
    one.task.abort();
    let took = other.until(true, 20 * SECOND).await;
    assert!(took > 12 * SECOND && took <= 15 * SECOND + RETRY, "{took:?}");
    assert!(!one.leads());
    assert_eq!(lock(&server).spec().lease_transitions, Some(1));
}

#[tokio::test(start_paused = true)]
async fn who_stops_leads_while_work_drains_and_then_hands_over() {
    let (server, mut tasks) = (server(), JoinSet::new());
    let one = Replica::start(&mut tasks, &server, "one");
    one.until(true, RETRY).await;
    let other = Replica::start(&mut tasks, &server, "other");
    sleep(5 * SECOND).await;
    one.stop.cancel();
    for _ in 0..600 {
        sleep(SECOND / 10).await;
        assert!(one.leads() && !other.leads(), "work is under way");
    }
    one.drained.cancel();
    tasks.join_next().await.unwrap().unwrap();
    assert!(!one.leads());
    assert!(one.metric("helmops_leader").abs() < 1e-9);
    let spec = lock(&server).spec();
    assert_eq!(
        (spec.holder_identity.as_deref(), spec.lease_duration_seconds),
        (Some(""), Some(1))
    );
    let took = other.until(true, RETRY).await;
    assert!(took <= RETRY, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn who_stands_by_stops_at_once_and_leaves_the_lease_alone() {
    let (server, mut tasks) = (server(), JoinSet::new());
    let one = Replica::start(&mut tasks, &server, "one");
    one.until(true, RETRY).await;
    let other = Replica::start(&mut tasks, &server, "other");
    sleep(5 * SECOND).await;
    other.stop.cancel();
    other.drained.cancel();
    let start = Instant::now();
    tasks.join_next().await.unwrap().unwrap();
    assert!(start.elapsed() < SECOND / 10);
    assert_eq!(lock(&server).holder(), "one");
    assert!(one.leads());
}

/// A first write that hangs may have made it the leader.
#[tokio::test(start_paused = true)]
async fn stopping_ends_soon_whatever_the_api_server_does() {
    for mood in [Mood::Hangs, Mood::Mute, Mood::Refuses(403)] {
        for after in [0, 1, 30] {
            let (server, mut tasks) = (server(), JoinSet::new());
            let replica = Replica::start(&mut tasks, &server, "one");
            if after > 0 {
                replica.until(true, RETRY).await;
            }
            lock(&server).mood = mood;
            sleep(after * SECOND).await;
            replica.stop.cancel();
            replica.drained.cancel();
            let start = Instant::now();
            tasks.join_next().await.unwrap().unwrap();
            assert!(start.elapsed() <= 2 * FAREWELL, "{mood:?}: {:?}", start.elapsed());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_lease_is_given_back_though_not_at_the_first_try() {
    let (server, mut tasks) = (server(), JoinSet::new());
    let replica = Replica::start(&mut tasks, &server, "one");
    replica.until(true, RETRY).await;
    lock(&server).mood = Mood::Refuses(500);
    replica.stop.cancel();
    replica.drained.cancel();
    sleep(2 * SECOND).await;
    lock(&server).mood = Mood::Well;
    tasks.join_next().await.unwrap().unwrap();
    assert_eq!(lock(&server).holder(), "");
}
