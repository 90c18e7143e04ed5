use futures::stream;
use tokio::{sync::mpsc, task::JoinSet, time::sleep};

use super::*;

const MAX_BODY: usize = 7 << 20;
const BUDGET: usize = 32 << 20;
const PEER_BUDGET: usize = BUDGET / 2;
const LIMITS: BodyLimits = BodyLimits {
    max_body: MAX_BODY,
    budget: BUDGET,
    peer_budget: PEER_BUDGET,
    deadline: Duration::from_secs(5),
    grace: Duration::from_secs(2),
    min_rate: 1 << 20,
    large: 16 << 10,
};

/// Sends the chunks of a body.
struct ChunkSender(mpsc::UnboundedSender<Bytes>);

fn request(body: Body, peer: Option<&PeerBytes>) -> Request {
    let mut request = Request::new(body);
    if let Some(peer) = peer {
        request.extensions_mut().insert(peer.clone());
    }
    request
}

fn uses_at_most(peer: &PeerBytes, bytes: usize) -> bool {
    peer.try_add(0, bytes)
}

fn open_ended() -> (ChunkSender, Body) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let chunks = stream::unfold(receiver, |mut receiver| async move {
        let chunk: Bytes = receiver.recv().await?;
        Some((Ok::<_, std::io::Error>(chunk), receiver))
    });
    (ChunkSender(sender), Body::from_stream(chunks))
}

fn chunks(bytes: usize, size: usize) -> Vec<Bytes> {
    vec![b'x'; bytes]
        .chunks(size)
        .map(Bytes::copy_from_slice)
        .collect()
}

fn in_chunks(bytes: usize) -> Body {
    Body::from_stream(stream::iter(
        chunks(bytes, 16 << 10).into_iter().map(Ok::<_, std::io::Error>),
    ))
}

#[tokio::test]
async fn a_body_is_read_completely_and_frees_its_budget_when_dropped() {
    let (bodies, peer) = (Bodies::new(LIMITS), PeerBytes::default());
    for length in [0, 1, RESERVE_STEP, RESERVE_STEP + 1, MAX_BODY] {
        for body in [Body::from(vec![b'x'; length]), in_chunks(length)] {
            let body = bodies.read(request(body, Some(&peer))).await.unwrap();
            assert_eq!(body.as_ref().len(), length);
            assert!(body.as_ref().iter().all(|byte| *byte == b'x'));
            assert!(uses_at_most(
                &peer,
                MAX_BODY.max(length.next_multiple_of(RESERVE_STEP))
            ));
            assert!(length == 0 || !uses_at_most(&peer, length - 1));
        }
        assert!(uses_at_most(&peer, 0));
        assert_eq!(bodies.in_use.load(Ordering::Relaxed), 0);
    }
    for body in [Body::from(vec![b'x'; MAX_BODY + 1]), in_chunks(MAX_BODY + 1)] {
        let error = bodies.read(request(body, Some(&peer))).await.unwrap_err();
        assert!(matches!(error, BodyError::TooLarge(_)), "{error}");
    }
    assert!(uses_at_most(&peer, 0));
    assert_eq!(bodies.in_use.load(Ordering::Relaxed), 0);
}

/// Starts to read a body that stalls after `bytes`.
fn stall(
    tasks: &mut JoinSet<&'static str>,
    bodies: &Arc<Bodies>,
    peer: Option<PeerBytes>,
    bytes: usize,
) -> ChunkSender {
    let (sent, body) = open_ended();
    for chunk in chunks(bytes, RESERVE_STEP) {
        sent.0.send(chunk).unwrap();
    }
    let bodies = Arc::clone(bodies);
    tasks.spawn(async move {
        let read = bodies.read(request(body, peer.as_ref())).await;
        read.map_or_else(|error| error.reason(), |_| "read")
    });
    sent
}

#[tokio::test(start_paused = true)]
async fn incomplete_bodies_stay_within_the_budget_and_further_ones_are_rejected_immediately() {
    let (bodies, mut tasks) = (Arc::new(Bodies::new(LIMITS)), JoinSet::new());
    let start = Instant::now();
    let mut open = Vec::new();
    for _ in 0..40 {
        open.push(stall(&mut tasks, &bodies, None, MAX_BODY - 1));
    }
    let mut rejected = 0;
    while let Some(Ok(ended)) = tasks.join_next().await {
        if start.elapsed() > Duration::ZERO {
            assert_eq!(ended, "slow");
            break;
        }
        assert_eq!(ended, "budget");
        rejected += 1;
        assert!(bodies.in_use.load(Ordering::Relaxed) <= BUDGET);
    }
    assert_eq!(rejected, 36, "four of the maximum size fit");
    while tasks.join_next().await.is_some() {}
    assert!(start.elapsed() <= LIMITS.deadline);
    assert_eq!(bodies.in_use.load(Ordering::Relaxed), 0);
    bodies.read(request(in_chunks(MAX_BODY), None)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn one_address_cannot_use_the_whole_budget() {
    let (bodies, mut tasks) = (Arc::new(Bodies::new(LIMITS)), JoinSet::new());
    let (client, server) = (PeerBytes::default(), PeerBytes::default());
    let mut open = Vec::new();
    for _ in 0..40 {
        open.push(stall(&mut tasks, &bodies, Some(client.clone()), MAX_BODY - 1));
    }
    sleep(Duration::from_millis(1)).await;
    assert!(uses_at_most(&client, PEER_BUDGET));
    for _ in 0..2 {
        let body = request(in_chunks(MAX_BODY), Some(&server));
        bodies.read(body).await.unwrap();
    }
    let mut reasons = Vec::new();
    while let Some(Ok(ended)) = tasks.join_next().await {
        reasons.push(ended);
    }
    assert_eq!(
        reasons.iter().filter(|reason| **reason == "peer_budget").count(),
        38
    );
    assert!(uses_at_most(&client, 0) && uses_at_most(&server, 0));
}

#[tokio::test(start_paused = true)]
async fn a_body_that_trickles_is_cut_off_before_the_deadline() {
    let (bodies, mut tasks) = (Arc::new(Bodies::new(LIMITS)), JoinSet::new());
    let start = Instant::now();
    let sent = stall(&mut tasks, &bodies, None, 10);
    let trickle = async {
        while sent.0.send(Bytes::from_static(b"x")).is_ok() {
            sleep(Duration::from_millis(100)).await;
        }
    };
    let (ended, ()) = tokio::join!(tasks.join_next(), trickle);
    assert_eq!(ended.unwrap().unwrap(), "slow");
    assert!(
        start.elapsed() < LIMITS.grace + Duration::from_secs(1),
        "{:?}",
        start.elapsed()
    );
}

#[tokio::test]
async fn an_exhausted_budget_is_503_with_retry_after() {
    let slow = BodyError::Slow {
        grace: LIMITS.grace,
        min_rate: LIMITS.min_rate,
    };
    for (error, status, retry) in [
        (BodyError::Budget(1), 503, Some("1")),
        (BodyError::PeerBudget(1), 503, Some("1")),
        (BodyError::LargeBusy, 503, Some("1")),
        (BodyError::TooLarge(1), 413, None),
        (slow, 408, None),
    ] {
        assert!(BodyError::REASONS.contains(&error.reason()));
        let response = error.into_response();
        assert_eq!(response.status().as_u16(), status);
        let header = response.headers().get(RETRY_AFTER);
        assert_eq!(header.map(|value| value.to_str().unwrap()), retry);
    }
}
