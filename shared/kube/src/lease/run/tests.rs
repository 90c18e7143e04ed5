use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
};

use helmops_process::lock;
use http::{Method, Request, Response, StatusCode};
use kube::client::Body;
use prometheus::Registry;
use serde_json::json;
use tokio::task::{AbortHandle, JoinSet};
use tower::service_fn;

use super::*;

const SECOND: Duration = Duration::from_secs(1);
/// The maximum retry period with jitter, and the time of the requests.
const RETRY: Duration = Duration::from_millis(2500);
/// The longest time between two renewals: a third of the deadline.
const RENEWAL: Duration = Duration::from_millis(3500);

/// How the API server behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Behaviour {
    Works,
    Fails(u16),
    Hangs,
    /// Handles writes and sends no response.
    Silent,
}

/// A fake API server with one Lease.
#[derive(Debug)]
struct FakeServer {
    behaviour: Behaviour,
    lease: Option<Lease>,
    version: u64,
    reads: u32,
    writes: u32,
    requests: u32,
}

type Server = Arc<Mutex<FakeServer>>;

fn server() -> Server {
    Arc::new(Mutex::new(FakeServer {
        behaviour: Behaviour::Works,
        lease: None,
        version: 0,
        reads: 0,
        writes: 0,
        requests: 0,
    }))
}

impl FakeServer {
    fn respond(&mut self, method: &Method, body: &[u8]) -> Result<Lease, u16> {
        if let Behaviour::Fails(code) = self.behaviour {
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
            let (response, behaviour) = {
                let mut server = lock(&server);
                server.requests += 1;
                let response =
                    (server.behaviour != Behaviour::Hangs).then(|| server.respond(&head.method, &body));
                (response, server.behaviour)
            };
            let (code, body) = match response {
                Some(_) if behaviour == Behaviour::Silent => return std::future::pending().await,
                None => return std::future::pending().await,
                Some(Ok(lease)) => (200, serde_json::to_value(lease).unwrap()),
                Some(Err(code)) => (code, status(code)),
            };
            let mut http_response = Response::new(Body::from(serde_json::to_vec(&body).unwrap()));
            *http_response.status_mut() = StatusCode::from_u16(code).unwrap();
            Ok::<_, Infallible>(http_response)
        }
    });
    crate::client_of(service, "system")
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

/// A replica that takes part in the election.
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
            "manager",
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

    /// Waits until it is the leader or not, and returns the time that it took.
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
async fn the_leader_renews_in_each_third_of_the_deadline_without_reads() {
    let (server, mut tasks) = (server(), JoinSet::new());
    let replica = Replica::start(&mut tasks, &server, "one");
    assert_eq!(
        timeout(RETRY, replica.leadership.wait_until_held()).await,
        Ok(Ok(()))
    );
    assert_eq!(lock(&server).holder(), "one");
    sleep(60 * SECOND).await;
    let reads = lock(&server).reads;
    let writes = lock(&server).writes;
    assert!(
        reads <= 1 && (17..=19).contains(&writes),
        "{reads} reads and {writes} writes"
    );
    assert_eq!(lock(&server).spec().lease_transitions, Some(0));
    assert!(replica.leads());
    assert!((replica.metric("helmops_leader") - 1.0).abs() < 1e-9);
    assert!((replica.metric("helmops_lease_transitions_total") - 1.0).abs() < 1e-9);
}

/// Errors, requests that hang, and writes that succeed without a response.
#[tokio::test(start_paused = true)]
async fn a_leader_without_a_renewal_stops_in_time_and_leads_again_later() {
    for behaviour in [
        Behaviour::Fails(500),
        Behaviour::Fails(403),
        Behaviour::Hangs,
        Behaviour::Silent,
        Behaviour::Fails(404),
    ] {
        let (server, mut tasks) = (server(), JoinSet::new());
        let replica = Replica::start(&mut tasks, &server, "one");
        replica.until(true, RETRY).await;
        sleep(30 * SECOND).await;
        let before = lock(&server).requests;
        lock(&server).behaviour = behaviour;
        let took = replica.until(false, 11 * SECOND).await;
        assert!(
            took <= 10 * SECOND && took > 6 * SECOND,
            "{behaviour:?}: {took:?}"
        );
        let attempts = lock(&server).requests - before;
        assert!(attempts >= 2, "{behaviour:?}: {attempts} attempts to renew");
        sleep(600 * SECOND).await;
        assert!(
            !replica.leads() && replica.health.live().ok(),
            "it is alive and retries"
        );
        assert!(
            replica.metric("helmops_leader").abs() < 1e-9,
            "and the metric shows that it is not the leader"
        );
        lock(&server).behaviour = Behaviour::Works;
        let took = replica.until(true, 20 * SECOND).await;
        let limit = match behaviour {
            // A Lease that was missing for a while may have had another holder.
            Behaviour::Fails(404) => 15 * SECOND + RETRY,
            // A request that hangs has to time out, and one retry period has to pass.
            _ => 5 * SECOND + RETRY,
        };
        assert!(took <= limit, "{behaviour:?}: {took:?}");
        assert_eq!(
            lock(&server).spec().lease_transitions,
            Some(0),
            "it has never had another holder"
        );
        assert!((replica.metric("helmops_lease_transitions_total") - 3.0).abs() < 1e-9);
    }
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_fails_from_the_start_is_retried() {
    for behaviour in [
        Behaviour::Fails(500),
        Behaviour::Fails(403),
        Behaviour::Fails(404),
        Behaviour::Hangs,
        Behaviour::Silent,
    ] {
        let (server, mut tasks) = (server(), JoinSet::new());
        lock(&server).behaviour = behaviour;
        let replica = Replica::start(&mut tasks, &server, "one");
        sleep(600 * SECOND).await;
        assert!(!replica.leads());
        assert!(replica.health.live().ok());
        lock(&server).behaviour = Behaviour::Works;
        replica.until(true, 5 * SECOND + RETRY).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_deleted_lease_is_created_again_without_a_loss_of_leadership() {
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
async fn a_holder_set_by_hand_is_respected_until_the_lease_expires() {
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
    by_hand(&server, "user");
    // At the next renewal.
    replica.until(false, RENEWAL).await;
    let took = replica.until(true, 20 * SECOND).await;
    assert!(took >= 15 * SECOND && took <= 15 * SECOND + RETRY, "{took:?}");
    let spec = lock(&server).spec();
    assert_eq!(
        (spec.holder_identity.as_deref(), spec.lease_transitions),
        (Some("one"), Some(1))
    );
    // Without a holder the replica acquires it again.
    by_hand(&server, "");
    sleep(RENEWAL).await;
    assert!(replica.leads());
    assert_eq!(lock(&server).holder(), "one");
}

#[tokio::test(start_paused = true)]
async fn other_changes_of_the_lease_do_not_end_leadership() {
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
async fn another_replica_takes_over_only_after_the_leader_dies() {
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
    assert!(took > 11 * SECOND && took <= 15 * SECOND + RETRY, "{took:?}");
    assert!(!one.leads());
    assert_eq!(lock(&server).spec().lease_transitions, Some(1));
}

#[tokio::test(start_paused = true)]
async fn a_stopping_leader_drains_its_work_and_then_releases_the_lease() {
    let (server, mut tasks) = (server(), JoinSet::new());
    let one = Replica::start(&mut tasks, &server, "one");
    one.until(true, RETRY).await;
    let other = Replica::start(&mut tasks, &server, "other");
    sleep(5 * SECOND).await;
    one.stop.cancel();
    for _ in 0..600 {
        sleep(SECOND / 10).await;
        assert!(one.leads() && !other.leads(), "work is in progress");
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
async fn a_standby_replica_stops_immediately_and_does_not_write_the_lease() {
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
async fn shutdown_is_fast_whatever_the_api_server_does() {
    for behaviour in [Behaviour::Hangs, Behaviour::Silent, Behaviour::Fails(403)] {
        for after in [0, 1, 30] {
            let (server, mut tasks) = (server(), JoinSet::new());
            let replica = Replica::start(&mut tasks, &server, "one");
            if after > 0 {
                replica.until(true, RETRY).await;
            }
            lock(&server).behaviour = behaviour;
            sleep(after * SECOND).await;
            replica.stop.cancel();
            replica.drained.cancel();
            let start = Instant::now();
            tasks.join_next().await.unwrap().unwrap();
            assert!(
                start.elapsed() <= 2 * RELEASE_TIMEOUT,
                "{behaviour:?}: {:?}",
                start.elapsed()
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_release_of_the_lease_is_retried() {
    let (server, mut tasks) = (server(), JoinSet::new());
    let replica = Replica::start(&mut tasks, &server, "one");
    replica.until(true, RETRY).await;
    lock(&server).behaviour = Behaviour::Fails(500);
    replica.stop.cancel();
    replica.drained.cancel();
    sleep(2 * SECOND).await;
    lock(&server).behaviour = Behaviour::Works;
    tasks.join_next().await.unwrap().unwrap();
    assert_eq!(lock(&server).holder(), "");
}
