use std::sync::Arc;

use futures::stream;
use tokio::{sync::mpsc, task::JoinSet, time::sleep};

use super::*;

const MAX_BODY: usize = 7 << 20;
const BUDGET: usize = 32 << 20;
const LIMITS: BodyLimits = BodyLimits {
    max_body: MAX_BODY,
    budget: BUDGET,
    deadline: Duration::from_secs(5),
    grace: Duration::from_secs(2),
    min_rate: 1 << 20,
    large: 16 << 10,
};

/// Sends the chunks of a body.
struct ChunkSender(mpsc::UnboundedSender<Bytes>);

/// A request of one of several addresses.
fn request(body: Body, peer: u8) -> Request {
    let mut request = Request::new(body);
    let peer = SocketAddr::from(([10, 0, 0, peer], 1));
    request.extensions_mut().insert(ConnectInfo(peer));
    request
}

/// Whether this number of bytes is free.
fn is_free(bodies: &Bodies, bytes: usize) -> bool {
    // A share is half of what is free.
    bodies.budget.reservation("other").resize(bytes / 2).is_ok()
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
    let bodies = Bodies::new(LIMITS);
    for length in [0, 1, MIN_BUFFER, MIN_BUFFER + 1, MAX_BODY] {
        for body in [Body::from(vec![b'x'; length]), in_chunks(length)] {
            let body = bodies.read(request(body, 1)).await.unwrap();
            assert_eq!(body.as_ref().len(), length);
            assert!(body.as_ref().iter().all(|byte| *byte == b'x'));
            assert!(is_free(&bodies, BUDGET - length.next_multiple_of(MIN_BUFFER)));
            assert!(length == 0 || !is_free(&bodies, BUDGET - length + 2));
        }
        assert!(is_free(&bodies, BUDGET));
    }
    for body in [Body::from(vec![b'x'; MAX_BODY + 1]), in_chunks(MAX_BODY + 1)] {
        let error = bodies.read(request(body, 1)).await.unwrap_err();
        assert!(matches!(error, BodyError::TooLarge(_)), "{error}");
    }
    assert!(is_free(&bodies, BUDGET));
}

/// Starts to read a body that stalls after `bytes`.
fn stall(tasks: &mut JoinSet<&'static str>, bodies: &Arc<Bodies>, peer: u8, bytes: usize) -> ChunkSender {
    let (sent, body) = open_ended();
    for chunk in chunks(bytes, MIN_BUFFER) {
        sent.0.send(chunk).unwrap();
    }
    let bodies = Arc::clone(bodies);
    tasks.spawn(async move {
        let read = bodies.read(request(body, peer)).await;
        read.map_or_else(|error| error.reason(), |_| "read")
    });
    sent
}

#[tokio::test(start_paused = true)]
async fn incomplete_bodies_stay_within_the_budget_and_further_ones_are_rejected_immediately() {
    let (bodies, mut tasks) = (Arc::new(Bodies::new(LIMITS)), JoinSet::new());
    let start = Instant::now();
    let mut open = Vec::new();
    for peer in 0..40 {
        open.push(stall(&mut tasks, &bodies, peer, MAX_BODY - 1));
    }
    let mut rejected = 0;
    while let Some(Ok(ended)) = tasks.join_next().await {
        if start.elapsed() > Duration::ZERO {
            assert_eq!(ended, "slow");
            break;
        }
        assert_eq!(ended, "budget");
        rejected += 1;
    }
    assert!(rejected >= 36, "four of the maximum size fit at most: {rejected}");
    while tasks.join_next().await.is_some() {}
    assert!(start.elapsed() <= LIMITS.deadline);
    assert!(is_free(&bodies, BUDGET));
    bodies.read(request(in_chunks(MAX_BODY), 1)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn one_address_cannot_use_the_whole_budget() {
    let (bodies, mut tasks) = (Arc::new(Bodies::new(LIMITS)), JoinSet::new());
    let mut open = Vec::new();
    for _ in 0..40 {
        open.push(stall(&mut tasks, &bodies, 1, MAX_BODY - 1));
    }
    sleep(Duration::from_millis(1)).await;
    assert!(is_free(&bodies, BUDGET / 2));
    for _ in 0..2 {
        let body = request(in_chunks(MAX_BODY), 2);
        bodies.read(body).await.unwrap();
    }
    let mut reasons = Vec::new();
    while let Some(Ok(ended)) = tasks.join_next().await {
        reasons.push(ended);
    }
    assert_eq!(reasons.iter().filter(|reason| **reason == "budget").count(), 38);
    assert!(is_free(&bodies, BUDGET));
}

#[tokio::test(start_paused = true)]
async fn a_body_that_trickles_is_cut_off_before_the_deadline() {
    let (bodies, mut tasks) = (Arc::new(Bodies::new(LIMITS)), JoinSet::new());
    let start = Instant::now();
    let sent = stall(&mut tasks, &bodies, 1, 10);
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
