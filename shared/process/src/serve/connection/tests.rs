//! Tests with an in-memory pipe and a paused clock: time advances only when both sides wait.

use tokio::io::{AsyncWriteExt, DuplexStream, duplex};
use tokio::time::sleep;

use super::super::activity::Activity;
use super::super::test_client::{GET_SLOW, PEER, SLOW, app, exchange, metrics, read_done, read_to_close};
use super::*;

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn connections(limits: Limits) -> Arc<Connections> {
    let stop = CancellationToken::new();
    Arc::new(Connections::new(Transport::Plain, app(), limits, metrics(), stop))
}

fn context() -> ConnectionContext {
    ConnectionContext {
        address: PEER,
        activity: Activity::new(),
    }
}

fn pipe() -> (DuplexStream, DuplexStream) {
    duplex(1 << 10)
}

/// Runs both sides until they end. The clock is paused, so the hour passes only if both sides hang.
async fn both<A, B>(server: impl Future<Output = A>, peer: impl Future<Output = B>) -> (A, B) {
    let ended = timeout(Duration::from_hours(1), async { tokio::join!(server, peer) });
    ended.await.expect("both sides end")
}

/// Asserts that a connection ended because of `limit`: not before it, and within the close timeout after it.
fn assert_ended_at(start: Instant, limit: Duration) {
    let took = start.elapsed();
    assert!(
        took >= limit && took <= limit + CLOSE_TIMEOUT + seconds(1),
        "ended after {took:?}, limit {limit:?}"
    );
}

/// Sends one byte per second until the server has closed the connection.
async fn trickle(peer: &mut DuplexStream, bytes: impl Iterator<Item = u8>) {
    for byte in bytes {
        if peer.write_all(&[byte]).await.is_err() {
            return;
        }
        sleep(seconds(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_connection_is_closed() {
    let (server, mut peer) = pipe();
    let (connections, start) = (connections(Limits::default()), Instant::now());
    let limit = connections.limits.first_request;
    both(connections.serve(server, context()), read_to_close(&mut peer)).await;
    assert_ended_at(start, limit);
}

#[tokio::test(start_paused = true)]
async fn a_header_that_trickles_and_never_ends_is_cut_off() {
    let (server, mut peer) = pipe();
    let (connections, start) = (connections(Limits::default()), Instant::now());
    peer.write_all(b"GET / HTTP/1.1\r\nx: ").await.unwrap();
    let (end, ()) = both(
        connections.http(server, &context()),
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
    both(connections.http(server, &context()), async {
        exchange(&mut peer).await;
        peer.write_all(b"GET / HTTP/1.1\r\nx: ").await.unwrap();
        trickle(&mut peer, std::iter::repeat(b'x')).await;
    })
    .await;
    assert_ended_at(start, connections.limits.idle);
}

#[tokio::test(start_paused = true)]
async fn a_connection_stays_open_for_gos_idle_timeout_and_is_closed_later() {
    let (server, mut peer) = pipe();
    let connections = connections(Limits::default());
    let limit = connections.limits.idle;
    let requests = async {
        for _ in 0..3 {
            exchange(&mut peer).await;
            // Go's client keeps an idle connection for this long.
            sleep(seconds(90)).await;
        }
        exchange(&mut peer).await;
        let start = Instant::now();
        assert!(read_to_close(&mut peer).await.is_empty());
        assert_ended_at(start, limit);
    };
    let (end, ()) = both(connections.http(server, &context()), requests).await;
    assert!(matches!(end, End::Closed), "{end}");
}

#[tokio::test(start_paused = true)]
async fn a_slow_response_does_not_count_as_idle() {
    let (server, mut peer) = pipe();
    let limits = Limits {
        first_request: seconds(1),
        idle: seconds(1),
        ..Limits::default()
    };
    let connections = connections(limits);
    peer.write_all(GET_SLOW).await.unwrap();
    both(connections.http(server, &context()), read_done(&mut peer)).await;
}

/// While the application still produces a response, its request is in flight. A response that was passed on as a whole is not,
/// and its connection counts as idle.
#[tokio::test(start_paused = true)]
async fn a_peer_that_does_not_read_its_response_is_cut_off() {
    let limits = Limits::default();
    for (path, limit) in [("/endless", limits.request), ("/large", limits.idle)] {
        let (server, mut peer) = pipe();
        let (connections, start) = (connections(Limits::default()), Instant::now());
        let request = format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n");
        peer.write_all(request.as_bytes()).await.unwrap();
        let (end, ()) = both(connections.http(server, &context()), async {}).await;
        assert!(matches!(end, End::CutOff), "{path}: {end}");
        assert_ended_at(start, limit);
    }
}

#[tokio::test(start_paused = true)]
async fn on_stop_a_request_in_flight_completes_and_the_connection_is_closed() {
    let (server, mut peer) = pipe();
    let connections = connections(Limits::default());
    let requests = async {
        peer.write_all(GET_SLOW).await.unwrap();
        sleep(seconds(1)).await;
        connections.stop.cancel();
        assert!(read_done(&mut peer).await.contains("connection: close"));
        assert!(read_to_close(&mut peer).await.is_empty());
    };
    let start = Instant::now();
    let (end, ()) = both(connections.http(server, &context()), requests).await;
    assert!(matches!(end, End::Closed), "{end}");
    assert_eq!(start.elapsed().as_secs(), SLOW.as_secs());
}

#[tokio::test(start_paused = true)]
async fn on_stop_a_response_that_the_peer_does_not_read_is_cut_off_soon() {
    let (server, mut peer) = pipe();
    let (connections, start) = (connections(Limits::default()), Instant::now());
    peer.write_all(b"GET /late HTTP/1.1\r\nhost: a\r\n\r\n")
        .await
        .unwrap();
    let stopping = async {
        sleep(seconds(1)).await;
        connections.stop.cancel();
    };
    let (end, ()) = both(connections.http(server, &context()), stopping).await;
    assert!(matches!(end, End::CutOff), "{end}");
    assert_ended_at(start, SLOW + CLOSE_TIMEOUT);
}

#[tokio::test(start_paused = true)]
async fn on_stop_an_idle_connection_is_closed_immediately_and_half_a_header_soon() {
    let (server, mut peer) = pipe();
    let idle = connections(Limits::default());
    let start = Instant::now();
    let (end, ()) = both(idle.http(server, &context()), async {
        exchange(&mut peer).await;
        idle.stop.cancel();
    })
    .await;
    assert!(matches!(end, End::Closed), "{end}");
    assert_eq!(start.elapsed(), Duration::ZERO);

    let (server, mut peer) = pipe();
    let stalled = connections(Limits::default());
    peer.write_all(b"GET / HT").await.unwrap();
    let (end, ()) = both(stalled.http(server, &context()), async { stalled.stop.cancel() }).await;
    assert!(matches!(end, End::CutOff), "{end}");
    assert_ended_at(start, CLOSE_TIMEOUT);
}

#[tokio::test(start_paused = true)]
async fn a_header_that_is_too_large_is_rejected() {
    let (server, mut peer) = pipe();
    let connections = connections(Limits::default());
    let request = format!("GET / HTTP/1.1\r\nx: {}\r\n\r\n", "x".repeat(HEADER_BYTES));
    let requests = async {
        let (mut reader, mut writer) = tokio::io::split(&mut peer);
        let (text, _) = both(read_to_close(&mut reader), writer.write_all(request.as_bytes())).await;
        let text = String::from_utf8(text).unwrap();
        assert!(text.starts_with("HTTP/1.1 431 "), "{text}");
    };
    both(connections.http(server, &context()), requests).await;
}
