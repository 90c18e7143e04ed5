//! Servers that let one wait. In each test the timeout that is meant is short, and the others are not met in its time.

use std::time::{Duration, Instant};

use helmops_shared::reason::Reason;

use super::{
    answers::index,
    asking::{Asking, PATIENT, anonymous, assert_fails, in_the_clear, in_time, reference, version},
    rig::{Act, Reply, Server, stalling},
};
use crate::{
    backoff::Pace,
    resolve::http::{LeastRate, Timeouts},
};

const SHORT: Duration = Duration::from_millis(300);
/// So that none of the longer timeouts is mistaken for the one that is meant.
const IN_TIME: Duration = Duration::from_secs(10);
/// Between two bytes of a server that never stops and never comes to an end.
const DRIP: Duration = Duration::from_millis(20);

fn read() -> Timeouts {
    Timeouts {
        read: SHORT,
        ..PATIENT
    }
}

fn total() -> Timeouts {
    Timeouts {
        total: SHORT,
        ..PATIENT
    }
}

async fn times_out(timeouts: Timeouts, reply: fn() -> Reply) {
    let server = Server::http(move |_| reply()).await;
    let asking = Asking::within(timeouts);
    let started = Instant::now();
    let outcome = asking.repository(&anonymous(), &server.url()).await;
    assert!(started.elapsed() < IN_TIME, "{:?}", started.elapsed());
    let words = [&*server.url(), "timeout: the "];
    assert_fails(outcome, Reason::Timeout, Pace::TRANSIENT, &words);
    // It does not keep what it has given up.
    server.has_been_left(1).await;
    assert_eq!(asking.requests("index", "Timeout"), 1);
    asking.assert_idle(1);
}

#[tokio::test]
async fn no_word() {
    times_out(read(), || vec![Act::Stall]).await;
    times_out(total(), || vec![Act::Stall]).await;
}

#[tokio::test]
async fn a_head_that_drips() {
    times_out(total(), || {
        vec![Act::Drip(b"HTTP/1.1 200 OK\r\nX-Header: ".repeat(100), DRIP)]
    })
    .await;
}

#[tokio::test]
async fn a_body_that_drips() {
    times_out(total(), || {
        let text = index(&["1.0.0"; 100]).into_bytes();
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", text.len());
        vec![Act::Write(head.into_bytes()), Act::Drip(text, DRIP)]
    })
    .await;
}

/// A least rate that a dripping server does not reach, looked at early.
fn rate(grace: Duration) -> Timeouts {
    Timeouts {
        rate: LeastRate {
            grace,
            window: SHORT,
            bytes: 1000,
        },
        ..PATIENT
    }
}

#[tokio::test]
async fn a_body_that_drips_is_given_up_long_before_the_end() {
    let drip = || {
        let text = index(&["1.0.0"; 100]).into_bytes();
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", text.len());
        vec![Act::Write(head.into_bytes()), Act::Drip(text, DRIP)]
    };
    times_out(rate(SHORT), drip).await;
    // The beginning comes fast.
    times_out(rate(SHORT), || {
        let text = index(&["1.0.0"; 100]).into_bytes();
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", text.len());
        let (fast, slow) = text.split_at(5000);
        vec![
            Act::Write([head.as_bytes(), fast].concat()),
            Act::Drip(slow.to_vec(), DRIP),
        ]
    })
    .await;
    times_out(rate(SHORT), || stalling(index(&["1.0.0"]))).await;
}

#[tokio::test]
async fn a_small_body_may_be_slow() {
    let server = Server::http(|_| {
        let text = index(&["1.0.0"]).into_bytes();
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", text.len());
        let pause = Duration::from_millis(2);
        vec![Act::Write(head.into_bytes()), Act::Drip(text, pause)]
    })
    .await;
    let asking = Asking::within(rate(IN_TIME));
    let outcome = asking.repository(&anonymous(), &server.url()).await;
    assert_eq!(version(outcome), "1.0.0");
}

#[tokio::test]
async fn a_body_that_stalls() {
    times_out(read(), || stalling(index(&["1.0.0"]))).await;
}

#[tokio::test]
async fn a_compressed_body_that_stalls() {
    times_out(read(), || {
        let head = "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 1000\r\n\r\n";
        // The beginning of a gzip member.
        vec![
            Act::Write([head.as_bytes(), b"\x1f\x8b\x08\x00"].concat()),
            Act::Stall,
        ]
    })
    .await;
}

#[tokio::test]
async fn news_that_it_will_come() {
    times_out(total(), || {
        let news = Act::Drip(
            b"HTTP/1.1 103 Early Hints\r\n\r\n".repeat(100),
            Duration::from_millis(1),
        );
        vec![news, Act::Stall]
    })
    .await;
}

#[tokio::test]
async fn a_greeting_that_never_comes() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let asking = Asking::within(Timeouts {
        connect: SHORT,
        ..PATIENT
    });
    let started = Instant::now();
    // The kernel takes the connection, and nobody says anything on it.
    let outcome = asking.repository(&anonymous(), &url).await;
    assert!(started.elapsed() < IN_TIME, "{:?}", started.elapsed());
    let words = [&*url, "timeout", "the connection was not accepted"];
    assert_fails(outcome, Reason::Timeout, Pace::TRANSIENT, &words);
    asking.assert_idle(1);
}

#[tokio::test]
async fn the_registry_of_a_tag_list_that_stalls() {
    let server = Server::http(|_| stalling("{\"tags\":[\"1.0.0\"")).await;
    let asking = Asking::within(read());
    let outcome = asking
        .registry(&in_the_clear(anonymous()), &reference(&server), "")
        .await;
    assert_fails(outcome, Reason::Timeout, Pace::TRANSIENT, &[&server.host()]);
    assert_eq!(asking.requests("tags", "Timeout"), 1);
    asking.assert_idle(1);
}

#[tokio::test]
async fn who_waits_for_a_slow_server_gets_its_failure_and_no_other_turn_of_waiting() {
    let server = Server::http(|_| vec![Act::Stall]).await;
    let asking = Asking::within(total());
    let (access, url) = (anonymous(), server.url());
    let started = Instant::now();
    let look_ups = (0..20).map(|_| asking.repository(&access, &url));
    let outcomes = in_time(futures::future::join_all(look_ups)).await;
    assert!(started.elapsed() < IN_TIME, "{:?}", started.elapsed());
    for outcome in outcomes {
        assert_fails(outcome, Reason::Timeout, Pace::TRANSIENT, &[&url]);
    }
    // The host is spared after the first failure. A second one, should all of this take so long, is shared.
    let requests = server.heads().len();
    assert!(requests <= 2, "{requests}");
    asking.assert_idle(requests as u64);
}
