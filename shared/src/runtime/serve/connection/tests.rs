//! Over an in-memory pipe and a paused clock: time moves only when both sides wait.

use axum::body::Body;
use http_body_util::BodyExt;
use hyper::Request;
use hyper::body::Incoming;
use hyper::client::conn::http2::{self as client, SendRequest};
use hyper_util::rt::TokioExecutor;
use tokio::io::{AsyncWriteExt, DuplexStream, duplex};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::super::peer::{GET_SLOW, PEER, SLOW, app, exchange, metrics, read_done, read_to_close};
use super::*;

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn connections(limits: Limits) -> Arc<Connections> {
    let stop = CancellationToken::new();
    Arc::new(Connections::new(Transport::Plain, app(), limits, metrics(), stop))
}

fn caller() -> Caller {
    Caller {
        address: PEER,
        activity: Activity::new(),
        body_bytes: PeerBytes::default(),
    }
}

fn pipe() -> (DuplexStream, DuplexStream) {
    duplex(1 << 10)
}

/// Runs both sides to their end. The hour passes in no time, and only when nothing else will ever happen.
async fn both<A, B>(server: impl Future<Output = A>, peer: impl Future<Output = B>) -> (A, B) {
    let ended = timeout(Duration::from_hours(1), async { tokio::join!(server, peer) });
    ended.await.expect("both sides end")
}

/// Asserts that a connection ended by the rule for `limit`: not before it, and within a farewell after it.
fn assert_ended_at(start: Instant, limit: Duration) {
    let took = start.elapsed();
    assert!(
        took >= limit && took <= limit + FAREWELL + seconds(1),
        "ended after {took:?}, limit {limit:?}"
    );
}

/// Sends `bytes` one a second until the server has hung up.
async fn trickle(peer: &mut DuplexStream, bytes: impl Iterator<Item = u8>) {
    for byte in bytes {
        if peer.write_all(&[byte]).await.is_err() {
            return;
        }
        sleep(seconds(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_never_says_anything_is_closed() {
    let (server, mut peer) = pipe();
    let (connections, start) = (connections(Limits::default()), Instant::now());
    let limit = connections.limits.first_request;
    both(connections.serve(server, caller()), read_to_close(&mut peer)).await;
    assert_ended_at(start, limit);
}

#[tokio::test(start_paused = true)]
async fn a_header_that_never_ends_is_cut_off_however_it_trickles() {
    let (server, mut peer) = pipe();
    let (connections, start) = (connections(Limits::default()), Instant::now());
    peer.write_all(b"GET / HTTP/1.1\r\nx: ").await.unwrap();
    let (end, ()) = both(
        connections.http1(server, &caller()),
        trickle(&mut peer, std::iter::repeat(b'x')),
    )
    .await;
    assert!(matches!(end, End::CutOff), "{end}");
    assert_ended_at(start, connections.limits.first_request);
}

#[tokio::test(start_paused = true)]
async fn a_header_that_never_ends_after_a_request_is_cut_off() {
    let (server, mut peer) = pipe();
    let (connections, start) = (connections(Limits::default()), Instant::now());
    both(connections.http1(server, &caller()), async {
        exchange(&mut peer).await;
        peer.write_all(b"GET / HTTP/1.1\r\nx: ").await.unwrap();
        trickle(&mut peer, std::iter::repeat(b'x')).await;
    })
    .await;
    assert_ended_at(start, connections.limits.idle);
}

#[tokio::test(start_paused = true)]
async fn half_an_http2_preface_is_cut_off() {
    let (server, mut peer) = pipe();
    let (connections, start) = (connections(Limits::default()), Instant::now());
    peer.write_all(b"PRI * HTTP").await.unwrap();
    let (end, _) = both(connections.http2(server, &caller()), read_to_close(&mut peer)).await;
    assert!(matches!(end, End::CutOff), "{end}");
    assert_ended_at(start, connections.limits.first_request);
}

#[tokio::test(start_paused = true)]
async fn http2_pings_are_no_reason_to_stay() {
    const SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    const PING: [u8; 17] = [0, 0, 8, 6, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];
    let (server, peer) = pipe();
    let (connections, start) = (connections(Limits::default()), Instant::now());
    let (mut answers, mut peer) = tokio::io::split(peer);
    let pinging = async {
        peer.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
        peer.write_all(&SETTINGS).await.unwrap();
        while peer.write_all(&PING).await.is_ok() {
            sleep(seconds(1)).await;
        }
    };
    both(
        connections.http2(server, &caller()),
        both(pinging, read_to_close(&mut answers)),
    )
    .await;
    assert_ended_at(start, connections.limits.first_request);
}

#[tokio::test(start_paused = true)]
async fn a_connection_is_reused_by_gos_client_and_closed_after_it() {
    let (server, mut peer) = pipe();
    let connections = connections(Limits::default());
    let limit = connections.limits.idle;
    let asking = async {
        for _ in 0..3 {
            exchange(&mut peer).await;
            // Go's client keeps an idle connection for as long as this.
            sleep(seconds(90)).await;
        }
        exchange(&mut peer).await;
        let start = Instant::now();
        assert!(read_to_close(&mut peer).await.is_empty());
        assert_ended_at(start, limit);
    };
    let (end, ()) = both(connections.http1(server, &caller()), asking).await;
    assert!(matches!(end, End::Closed), "{end}");
}

#[tokio::test(start_paused = true)]
async fn a_slow_answer_is_not_idleness() {
    let (server, mut peer) = pipe();
    let limits = Limits {
        first_request: seconds(1),
        idle: seconds(1),
        ..Limits::default()
    };
    let connections = connections(limits);
    peer.write_all(GET_SLOW).await.unwrap();
    both(connections.http1(server, &caller()), read_done(&mut peer)).await;
}

/// An answer that is still being made keeps its request under way; one that was handed over whole does not,
/// and its connection counts as idle.
fn unread() -> [(&'static str, Duration); 2] {
    let limits = Limits::default();
    [("/endless", limits.request), ("/large", limits.idle)]
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_does_not_read_its_http1_answer_is_cut_off() {
    for (path, limit) in unread() {
        let (server, mut peer) = pipe();
        let (connections, start) = (connections(Limits::default()), Instant::now());
        let request = format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n");
        peer.write_all(request.as_bytes()).await.unwrap();
        let (end, ()) = both(connections.http1(server, &caller()), async {}).await;
        assert!(matches!(end, End::CutOff), "{path}: {end}");
        assert_ended_at(start, limit);
    }
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_does_not_read_its_http2_answer_is_cut_off() {
    for (path, limit) in unread() {
        let (server, peer) = pipe();
        let (connections, start) = (connections(Limits::default()), Instant::now());
        let (mut send, _driver) = h2_client(peer).await;
        // The client's window holds less than the answer, and nobody takes anything out of it.
        let (end, _unread) = both(connections.http2(server, &caller()), send.send_request(get(path))).await;
        assert!(matches!(end, End::CutOff), "{path}: {end}");
        assert_ended_at(start, limit);
    }
}

/// An HTTP/2 client on `peer`; it runs until the set is dropped.
async fn h2_client(peer: DuplexStream) -> (SendRequest<Body>, JoinSet<hyper::Result<()>>) {
    let (send, connection) = client::handshake(TokioExecutor::new(), TokioIo::new(peer))
        .await
        .unwrap();
    let mut driver = JoinSet::new();
    driver.spawn(connection);
    (send, driver)
}

fn get(path: &str) -> Request<Body> {
    Request::get(format!("http://a{path}"))
        .body(Body::empty())
        .unwrap()
}

async fn body_of(response: hyper::Response<Incoming>) -> Vec<u8> {
    response.into_body().collect().await.unwrap().to_bytes().to_vec()
}

#[tokio::test(start_paused = true)]
async fn http2_requests_share_a_connection_that_is_closed_once_idle() {
    let (server, peer) = pipe();
    let (connections, start) = (connections(Limits::default()), Instant::now());
    let (send, driver) = h2_client(peer).await;
    let asking = async {
        let requests = (0..20).map(|_| {
            let mut send = send.clone();
            async move { body_of(send.send_request(get("/slow")).await.unwrap()).await }
        });
        for body in all(requests).await {
            assert_eq!(body, b"done");
        }
        assert_eq!(start.elapsed().as_secs(), SLOW.as_secs(), "they ran side by side");
    };
    let (end, ()) = both(connections.http2(server, &caller()), asking).await;
    assert!(!matches!(end, End::CutOff), "{end}");
    assert_ended_at(start, SLOW + connections.limits.idle);
    drop(driver);
}

async fn all<F: Future<Output: Send + 'static> + Send + 'static>(
    futures: impl Iterator<Item = F>,
) -> Vec<F::Output> {
    futures.collect::<JoinSet<_>>().join_all().await
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_one_http2_request_leaves_the_others_alone() {
    let (server, peer) = pipe();
    let connections = connections(Limits::default());
    let (mut send, _driver) = h2_client(peer).await;
    let asking = async {
        let slow = send.send_request(get("/slow"));
        send.clone().send_request(get("/panic")).await.unwrap_err();
        assert_eq!(body_of(slow.await.unwrap()).await, b"done");
        connections.stop.cancel();
    };
    let (end, ()) = both(connections.http2(server, &caller()), asking).await;
    assert!(!matches!(end, End::CutOff), "{end}");
}

#[tokio::test(start_paused = true)]
async fn on_stop_an_http1_request_under_way_is_answered_and_the_connection_closed() {
    let (server, mut peer) = pipe();
    let connections = connections(Limits::default());
    let asking = async {
        peer.write_all(GET_SLOW).await.unwrap();
        sleep(seconds(1)).await;
        connections.stop.cancel();
        assert!(read_done(&mut peer).await.contains("connection: close"));
        assert!(read_to_close(&mut peer).await.is_empty());
    };
    let start = Instant::now();
    let (end, ()) = both(connections.http1(server, &caller()), asking).await;
    assert!(matches!(end, End::Closed), "{end}");
    assert_eq!(start.elapsed().as_secs(), SLOW.as_secs());
}

#[tokio::test(start_paused = true)]
async fn on_stop_an_http2_request_under_way_is_answered_and_the_connection_closed() {
    let (server, peer) = pipe();
    let connections = connections(Limits::default());
    let (mut send, _driver) = h2_client(peer).await;
    let asking = async {
        let slow = send.send_request(get("/slow"));
        sleep(seconds(1)).await;
        connections.stop.cancel();
        assert_eq!(body_of(slow.await.unwrap()).await, b"done");
    };
    let start = Instant::now();
    let (end, ()) = both(connections.http2(server, &caller()), asking).await;
    assert!(matches!(end, End::Closed), "{end}");
    assert_eq!(start.elapsed().as_secs(), SLOW.as_secs());
}

#[tokio::test(start_paused = true)]
async fn on_stop_an_answer_that_nobody_reads_is_cut_off_soon_after_it_is_made() {
    let (server, mut peer) = pipe();
    let (connections, start) = (connections(Limits::default()), Instant::now());
    peer.write_all(b"GET /late HTTP/1.1\r\nhost: a\r\n\r\n")
        .await
        .unwrap();
    let stopping = async {
        sleep(seconds(1)).await;
        connections.stop.cancel();
    };
    let (end, ()) = both(connections.http1(server, &caller()), stopping).await;
    assert!(matches!(end, End::CutOff), "{end}");
    assert_ended_at(start, SLOW + FAREWELL);
}

#[tokio::test(start_paused = true)]
async fn on_stop_an_idle_connection_is_closed_at_once_and_half_a_header_soon() {
    let (server, mut peer) = pipe();
    let kept = connections(Limits::default());
    let start = Instant::now();
    let (end, ()) = both(kept.http1(server, &caller()), async {
        exchange(&mut peer).await;
        kept.stop.cancel();
    })
    .await;
    assert!(matches!(end, End::Closed), "{end}");
    assert_eq!(start.elapsed(), Duration::ZERO);

    let (server, mut peer) = pipe();
    let stalled = connections(Limits::default());
    peer.write_all(b"GET / HT").await.unwrap();
    let (end, ()) = both(stalled.http1(server, &caller()), async { stalled.stop.cancel() }).await;
    assert!(matches!(end, End::CutOff), "{end}");
    assert_ended_at(start, FAREWELL);
}

#[tokio::test(start_paused = true)]
async fn a_header_that_is_too_large_is_refused() {
    let (server, mut peer) = pipe();
    let connections = connections(Limits::default());
    let request = format!(
        "GET / HTTP/1.1\r\nx: {}\r\n\r\n",
        "x".repeat(HEADER_BYTES as usize)
    );
    let asking = async {
        let (mut answer, mut request_side) = tokio::io::split(&mut peer);
        let (text, _) = both(
            read_to_close(&mut answer),
            request_side.write_all(request.as_bytes()),
        )
        .await;
        let text = String::from_utf8(text).unwrap();
        assert!(text.starts_with("HTTP/1.1 431 "), "{text}");
    };
    both(connections.http1(server, &caller()), asking).await;
}
