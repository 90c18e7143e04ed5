use axum::body::Body;
use futures::stream;
use helmops_shared::runtime::PeerBytes;
use tokio::{sync::mpsc, task::JoinSet, time::sleep};

use super::*;

/// A body whose pieces the test sends.
struct Sent(mpsc::UnboundedSender<Bytes>);

fn request(body: Body, peer: Option<&PeerBytes>) -> Request {
    let mut request = Request::new(body);
    if let Some(peer) = peer {
        request.extensions_mut().insert(peer.clone());
    }
    request
}

fn holds_at_most(peer: &PeerBytes, bytes: usize) -> bool {
    peer.try_add(0, bytes)
}

fn open_ended() -> (Sent, Body) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let pieces = stream::unfold(receiver, |mut receiver| async move {
        let piece: Bytes = receiver.recv().await?;
        Some((Ok::<_, std::io::Error>(piece), receiver))
    });
    (Sent(sender), Body::from_stream(pieces))
}

fn pieces(bytes: usize, size: usize) -> Vec<Bytes> {
    vec![b'x'; bytes]
        .chunks(size)
        .map(Bytes::copy_from_slice)
        .collect()
}

fn in_pieces(bytes: usize) -> Body {
    Body::from_stream(stream::iter(
        pieces(bytes, 16 << 10).into_iter().map(Ok::<_, std::io::Error>),
    ))
}

#[tokio::test]
async fn a_body_comes_whole_and_is_given_back_with_its_bytes() {
    let (bodies, peer) = (Bodies::default(), PeerBytes::default());
    for length in [0, 1, STEP, STEP + 1, MAX_BODY] {
        for body in [Body::from(vec![b'x'; length]), in_pieces(length)] {
            let held = bodies.read(request(body, Some(&peer))).await.unwrap();
            assert_eq!(held.as_ref().len(), length);
            assert!(held.as_ref().iter().all(|byte| *byte == b'x'));
            assert!(holds_at_most(&peer, MAX_BODY.max(length.next_multiple_of(STEP))));
            assert!(length == 0 || !holds_at_most(&peer, length - 1));
        }
        assert!(holds_at_most(&peer, 0));
        assert_eq!(bodies.held.load(Ordering::Relaxed), 0);
    }
    for body in [Body::from(vec![b'x'; MAX_BODY + 1]), in_pieces(MAX_BODY + 1)] {
        let refusal = bodies.read(request(body, Some(&peer))).await.unwrap_err();
        assert!(matches!(refusal, Refusal::TooLarge), "{refusal}");
    }
    assert!(holds_at_most(&peer, 0));
    assert_eq!(bodies.held.load(Ordering::Relaxed), 0);
}

/// Bodies that arrive up to `bytes` and then stall.
fn stall(
    tasks: &mut JoinSet<&'static str>,
    bodies: &Arc<Bodies>,
    peer: Option<PeerBytes>,
    bytes: usize,
) -> Sent {
    let (sent, body) = open_ended();
    for piece in pieces(bytes, STEP) {
        sent.0.send(piece).unwrap();
    }
    let bodies = Arc::clone(bodies);
    tasks.spawn(async move {
        let read = bodies.read(request(body, peer.as_ref())).await;
        read.map_or_else(|refusal| refusal.reason(), |_| "read")
    });
    sent
}

#[tokio::test(start_paused = true)]
async fn unfinished_bodies_stay_within_the_budget_and_further_ones_are_refused_at_once() {
    let (bodies, mut tasks) = (Arc::new(Bodies::default()), JoinSet::new());
    let start = Instant::now();
    let mut open = Vec::new();
    for _ in 0..40 {
        open.push(stall(&mut tasks, &bodies, None, MAX_BODY - 1));
    }
    let mut refused = 0;
    while let Some(Ok(ended)) = tasks.join_next().await {
        if start.elapsed() > Duration::ZERO {
            assert_eq!(ended, "slow");
            break;
        }
        assert_eq!(ended, "budget");
        refused += 1;
        assert!(bodies.held.load(Ordering::Relaxed) <= BUDGET);
    }
    assert_eq!(refused, 36, "four of the largest fit");
    while tasks.join_next().await.is_some() {}
    assert!(start.elapsed() <= DEADLINE);
    assert_eq!(bodies.held.load(Ordering::Relaxed), 0);
    bodies.read(request(in_pieces(MAX_BODY), None)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn one_address_leaves_room_for_others() {
    let (bodies, mut tasks) = (Arc::new(Bodies::default()), JoinSet::new());
    let (stranger, server) = (PeerBytes::default(), PeerBytes::default());
    let mut open = Vec::new();
    for _ in 0..40 {
        open.push(stall(&mut tasks, &bodies, Some(stranger.clone()), MAX_BODY - 1));
    }
    sleep(Duration::from_millis(1)).await;
    assert!(holds_at_most(&stranger, PEER_BUDGET));
    for _ in 0..2 {
        let body = request(in_pieces(MAX_BODY), Some(&server));
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
    assert!(holds_at_most(&stranger, 0) && holds_at_most(&server, 0));
}

#[tokio::test(start_paused = true)]
async fn a_body_that_trickles_is_cut_off_before_the_deadline() {
    let (bodies, mut tasks) = (Arc::new(Bodies::default()), JoinSet::new());
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
        start.elapsed() < GRACE + Duration::from_secs(1),
        "{:?}",
        start.elapsed()
    );
}

#[tokio::test]
async fn a_lack_of_room_is_503_with_a_time_to_come_back() {
    for (refusal, status, retry) in [
        (Refusal::Budget, 503, Some("1")),
        (Refusal::PeerBudget, 503, Some("1")),
        (Refusal::Turn, 503, Some("1")),
        (Refusal::TooLarge, 413, None),
        (Refusal::Slow, 408, None),
    ] {
        assert!(Refusal::REASONS.contains(&refusal.reason()));
        let response = refusal.into_response();
        assert_eq!(response.status().as_u16(), status);
        let header = response.headers().get(RETRY_AFTER);
        assert_eq!(header.map(|value| value.to_str().unwrap()), retry);
    }
}
