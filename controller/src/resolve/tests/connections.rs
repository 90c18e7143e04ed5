//! Servers that cannot be reached, or that speak something else.

use helmops_shared::reason::Reason;
use tokio::net::TcpListener;

use super::{
    answers::indexed,
    asking::{Asking, anonymous, assert_fails, version},
    rig::{Act, Reply, Server, status},
};
use crate::backoff::Pace;

#[tokio::test]
async fn nothing_listens() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/charts", listener.local_addr().unwrap());
    drop(listener);
    let asking = Asking::new();
    let outcome = asking.repository(&anonymous(), &url).await;
    let words = [
        &*format!("failed to fetch {url}/index.yaml"),
        "connection refused",
        "check the port",
    ];
    assert_fails(outcome, Reason::ConnectionFailed, Pace::TRANSIENT, &words);
    assert_eq!(asking.requests("index", "ConnectionFailed"), 1);
    asking.assert_idle(1);
}

#[tokio::test]
async fn the_host_name_is_not_in_dns() {
    let asking = Asking::new();
    let outcome = asking
        .repository(&anonymous(), "https://nothing.invalid/charts")
        .await;
    let words = [
        "https://nothing.invalid/charts/index.yaml",
        "no such host",
        "check the host in the URL",
    ];
    assert_fails(outcome, Reason::DNSLookupFailed, Pace::TRANSIENT, &words);
    let outcome = asking
        .registry(&anonymous(), "oci://no-registry.invalid/charts/web", "1.2.3")
        .await;
    assert_fails(
        outcome,
        Reason::DNSLookupFailed,
        Pace::TRANSIENT,
        &["no-registry.invalid", "no such host"],
    );
    assert_eq!(asking.requests("index", "DNSLookupFailed"), 1);
    assert_eq!(asking.requests("manifest", "DNSLookupFailed"), 1);
    asking.assert_idle(2);
}

fn a_head_without_end() -> Reply {
    let line = b"X-Header: and another one\r\n".to_vec();
    vec![
        Act::Write(b"HTTP/1.1 200 OK\r\n".to_vec()),
        Act::Pour(Box::new(std::iter::repeat(line))),
    ]
}

#[tokio::test]
async fn answers_that_are_no_http() {
    let cases: [fn() -> Reply; 4] = [
        || vec![Act::Close],
        || vec![Act::Write(b"SSH-2.0-OpenSSH_10.0\r\n".to_vec()), Act::Close],
        || vec![Act::Write(b"HTTP/1.1 200 OK\r\nContent-".to_vec()), Act::Close],
        a_head_without_end,
    ];
    for reply in cases {
        let server = Server::http(move |_| reply()).await;
        let asking = Asking::new();
        let outcome = asking.repository(&anonymous(), &server.url()).await;
        let words = [&*server.url(), "the connection was closed"];
        let error = assert_fails(outcome, Reason::ConnectionFailed, Pace::TRANSIENT, &words);
        assert_eq!(server.heads().len(), 1, "{error}");
        // A head of many lines, and some MiB in the sockets' buffers.
        assert!(server.written() < 32 << 20, "{}: {error}", server.written());
        asking.assert_idle(1);
    }
}

#[tokio::test]
async fn connections_are_used_again() {
    let server = Server::http(|_| indexed(&[], &["1.0.0"])).await;
    let asking = Asking::new();
    for _ in 0..5 {
        let outcome = asking.repository(&anonymous(), &server.url()).await;
        assert_eq!(version(outcome), "1.0.0");
    }
    assert_eq!(server.heads().len(), 5);
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn what_an_error_leaves_behind_on_a_connection_is_no_answer_to_the_next_request() {
    let server = Server::http(|head| match head.nth {
        0 => {
            let mut reply = status(404, &[]);
            // A second answer that nobody asked for.
            reply.extend(indexed(&[], &["6.6.6"]));
            reply
        }
        _ => indexed(&[], &["1.0.0"]),
    })
    .await;
    let asking = Asking::new();
    let outcome = asking.repository(&anonymous(), &server.url()).await;
    assert_fails(outcome, Reason::RepositoryNotFound, Pace::SLOW, &[]);
    let found = asking.repository_in_the_end(&anonymous(), &server.url()).await;
    assert_eq!(found.version, "1.0.0");
}
