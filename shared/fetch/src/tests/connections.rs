//! Servers that cannot be reached, or that use another protocol.

use helmops_model::reason::Reason;
use helmops_runtime::error_class::Class;
use tokio::net::TcpListener;

use super::{
    fixture::{TestResolver, anonymous, assert_fails, version},
    responses::indexed,
    server::{Action, Reply, Server, status},
};

#[tokio::test]
async fn a_refused_connection_is_reported() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/charts", listener.local_addr().unwrap());
    drop(listener);
    let resolver = TestResolver::new();
    let outcome = resolver.repository(&anonymous(), &url).await;
    let expected = [
        &*format!("failed to fetch {url}/index.yaml"),
        "connection refused",
        "check the port",
    ];
    assert_fails(outcome, Reason::ConnectionFailed, Class::TRANSIENT, &expected);
    assert_eq!(resolver.requests("index", "ConnectionFailed"), 1);
    resolver.assert_idle(1);
}

#[tokio::test]
async fn an_unknown_host_name_is_reported() {
    let resolver = TestResolver::new();
    let outcome = resolver
        .repository(&anonymous(), "https://nothing.invalid/charts")
        .await;
    let expected = [
        "https://nothing.invalid/charts/index.yaml",
        "no such host",
        "check the host in the URL",
    ];
    assert_fails(outcome, Reason::DNSLookupFailed, Class::TRANSIENT, &expected);
    let outcome = resolver
        .registry(&anonymous(), "oci://no-registry.invalid/charts/web", "1.2.3")
        .await;
    assert_fails(
        outcome,
        Reason::DNSLookupFailed,
        Class::TRANSIENT,
        &["no-registry.invalid", "no such host"],
    );
    assert_eq!(resolver.requests("index", "DNSLookupFailed"), 1);
    assert_eq!(resolver.requests("manifest", "DNSLookupFailed"), 1);
    resolver.assert_idle(2);
}

fn endless_head() -> Reply {
    let line = b"X-Header: and another one\r\n".to_vec();
    vec![
        Action::Write(b"HTTP/1.1 200 OK\r\n".to_vec()),
        Action::Pour(Box::new(std::iter::repeat(line))),
    ]
}

#[tokio::test]
async fn responses_that_are_not_http_are_reported() {
    let cases: [fn() -> Reply; 4] = [
        || vec![Action::Close],
        || vec![Action::Write(b"SSH-2.0-OpenSSH_10.0\r\n".to_vec()), Action::Close],
        || {
            vec![
                Action::Write(b"HTTP/1.1 200 OK\r\nContent-".to_vec()),
                Action::Close,
            ]
        },
        endless_head,
    ];
    for reply in cases {
        let server = Server::http(move |_| reply()).await;
        let resolver = TestResolver::new();
        let outcome = resolver.repository(&anonymous(), &server.url()).await;
        let expected = [&*server.url(), "the connection was closed"];
        let error = assert_fails(outcome, Reason::ConnectionFailed, Class::TRANSIENT, &expected);
        assert_eq!(server.requests().len(), 1, "{error}");
        // A head of many lines, and some MiB in the buffers of the sockets.
        assert!(server.written() < 32 << 20, "{}: {error}", server.written());
        resolver.assert_idle(1);
    }
}

#[tokio::test]
async fn connections_are_reused() {
    let server = Server::http(|_| indexed(&[], &["1.0.0"])).await;
    let resolver = TestResolver::new();
    for _ in 0..5 {
        let outcome = resolver.repository(&anonymous(), &server.url()).await;
        assert_eq!(version(outcome), "1.0.0");
    }
    assert_eq!(server.requests().len(), 5);
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn bytes_left_on_a_connection_are_not_the_response_to_the_next_request() {
    let server = Server::http(|head| match head.nth {
        0 => {
            let mut reply = status(404, &[]);
            // A second response without a request.
            reply.extend(indexed(&[], &["6.6.6"]));
            reply
        }
        _ => indexed(&[], &["1.0.0"]),
    })
    .await;
    let resolver = TestResolver::new();
    let outcome = resolver.repository(&anonymous(), &server.url()).await;
    assert_fails(outcome, Reason::RepositoryNotFound, Class::Absent, &[]);
    let found = resolver
        .repository_until_success(&anonymous(), &server.url())
        .await;
    assert_eq!(found.version, "1.0.0");
}
