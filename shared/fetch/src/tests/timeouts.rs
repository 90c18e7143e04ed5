//! Slow servers. In each test the tested timeout is short, and the others are not reached.

use std::time::{Duration, Instant};

use helmops_model::reason::Reason;
use helmops_runtime::error_class::Class;

use super::{
    fixture::{
        LONG_TIMEOUTS, TestResolver, anonymous, assert_fails, over_plain_http, reference, within_deadline,
    },
    responses::index,
    server::{Action, Reply, Server, stalling},
};
use crate::http::Timeouts;

const SHORT: Duration = Duration::from_millis(300);
/// Below the other timeouts, so that only the tested one can have ended the request.
const BELOW_DEADLINE: Duration = Duration::from_secs(10);
/// Delay between two bytes of a server that sends slowly and without end.
const DRIP: Duration = Duration::from_millis(20);

fn read() -> Timeouts {
    Timeouts {
        read: SHORT,
        ..LONG_TIMEOUTS
    }
}

fn total() -> Timeouts {
    Timeouts {
        total: SHORT,
        ..LONG_TIMEOUTS
    }
}

async fn assert_times_out(timeouts: Timeouts, reply: fn() -> Reply) {
    let server = Server::http(move |_| reply()).await;
    let resolver = TestResolver::with_timeouts(timeouts);
    let started = Instant::now();
    let outcome = resolver.repository(&anonymous(), &server.url()).await;
    assert!(started.elapsed() < BELOW_DEADLINE, "{:?}", started.elapsed());
    let expected = [&*server.url(), "timeout: the "];
    assert_fails(outcome, Reason::Timeout, Class::TRANSIENT, &expected);
    // The connection of the failed request is closed.
    server.wait_for_disconnects(1).await;
    assert_eq!(resolver.requests("index", "Timeout"), 1);
    resolver.assert_idle(1);
}

#[tokio::test]
async fn a_server_that_never_responds_times_out() {
    assert_times_out(read(), || vec![Action::Stall]).await;
    assert_times_out(total(), || vec![Action::Stall]).await;
}

#[tokio::test]
async fn a_head_that_arrives_slowly_times_out() {
    assert_times_out(total(), || {
        vec![Action::Drip(b"HTTP/1.1 200 OK\r\nX-Header: ".repeat(100), DRIP)]
    })
    .await;
}

#[tokio::test]
async fn a_body_that_arrives_slowly_times_out() {
    assert_times_out(total(), || {
        let text = index(&["1.0.0"; 100]).into_bytes();
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", text.len());
        vec![Action::Write(head.into_bytes()), Action::Drip(text, DRIP)]
    })
    .await;
}

#[tokio::test]
async fn a_body_that_stalls_times_out() {
    assert_times_out(read(), || stalling(index(&["1.0.0"]))).await;
}

#[tokio::test]
async fn a_compressed_body_that_stalls_times_out() {
    assert_times_out(read(), || {
        let head = "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 1000\r\n\r\n";
        // The beginning of a gzip member.
        vec![
            Action::Write([head.as_bytes(), b"\x1f\x8b\x08\x00"].concat()),
            Action::Stall,
        ]
    })
    .await;
}

#[tokio::test]
async fn informational_responses_do_not_extend_the_timeout() {
    assert_times_out(total(), || {
        let hints = Action::Drip(
            b"HTTP/1.1 103 Early Hints\r\n\r\n".repeat(100),
            Duration::from_millis(1),
        );
        vec![hints, Action::Stall]
    })
    .await;
}

#[tokio::test]
async fn a_tls_handshake_without_a_reply_times_out() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let resolver = TestResolver::with_timeouts(Timeouts {
        connect: SHORT,
        ..LONG_TIMEOUTS
    });
    let started = Instant::now();
    // The kernel accepts the connection, and no server reads from it.
    let outcome = resolver.repository(&anonymous(), &url).await;
    assert!(started.elapsed() < BELOW_DEADLINE, "{:?}", started.elapsed());
    let expected = [&*url, "timeout", "the connection was not accepted"];
    assert_fails(outcome, Reason::Timeout, Class::TRANSIENT, &expected);
    resolver.assert_idle(1);
}

#[tokio::test]
async fn a_tag_list_that_stalls_times_out() {
    let server = Server::http(|_| stalling("{\"tags\":[\"1.0.0\"")).await;
    let resolver = TestResolver::with_timeouts(read());
    let outcome = resolver
        .registry(&over_plain_http(anonymous()), &reference(&server), "")
        .await;
    assert_fails(outcome, Reason::Timeout, Class::TRANSIENT, &[&server.host()]);
    assert_eq!(resolver.requests("tags", "Timeout"), 1);
    resolver.assert_idle(1);
}

#[tokio::test]
async fn all_resolutions_that_wait_for_a_slow_server_share_its_timeout() {
    let server = Server::http(|_| vec![Action::Stall]).await;
    let resolver = TestResolver::with_timeouts(total());
    let (access, url) = (anonymous(), server.url());
    let started = Instant::now();
    let resolutions = (0..20).map(|_| resolver.repository(&access, &url));
    let outcomes = within_deadline(futures::future::join_all(resolutions)).await;
    assert!(started.elapsed() < BELOW_DEADLINE, "{:?}", started.elapsed());
    for outcome in outcomes {
        assert_fails(outcome, Reason::Timeout, Class::TRANSIENT, &[&url]);
    }
    // The host backs off after the first failure. A second one, if the test takes that long, is shared.
    let requests = server.requests().len();
    assert!(requests <= 2, "{requests}");
    resolver.assert_idle(requests as u64);
}
