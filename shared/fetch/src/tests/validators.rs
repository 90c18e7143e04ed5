//! Conditional requests: which headers are sent, and when a cached response is used.

use std::time::Instant;

use helmops_model::reason::Reason;
use helmops_runtime::error_class::Class;

use super::{
    fixture::{TestResolver, anonymous, assert_fails, version},
    responses::{CHART, index, indexed, revalidating},
    server::{Action, Reply, RequestHead, Server, response, status},
};

const ETAG: &str = "\"a\"";
const DATE: &str = "Sat, 21 Nov 2026 17:00:00 GMT";

/// The conditional headers of a request.
fn conditions(head: &RequestHead) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
    let sent = |name| head.header(name).map(<[u8]>::to_vec);
    (sent("If-None-Match"), sent("If-Modified-Since"))
}

#[tokio::test]
async fn entity_tags_are_repeated_byte_by_byte() {
    let tags: [&[u8]; 6] = [
        b"\"a\"",
        b"W/\"a\"",
        b"unquoted",
        b"\"caf\xc3\xa9 \xff\"",
        b"\"a\", \"b\"",
        b"\"\"",
    ];
    for tag in tags {
        let server = Server::http(move |_| {
            let body = index(&["1.0.0"]);
            let mut reply = b"HTTP/1.1 200 OK\r\nETag: ".to_vec();
            reply.extend_from_slice(tag);
            reply.extend_from_slice(format!("\r\nContent-Length: {}\r\n\r\n{body}", body.len()).as_bytes());
            vec![Action::Write(reply)]
        })
        .await;
        let resolver = TestResolver::new();
        for _ in 0..2 {
            assert_eq!(
                version(resolver.repository(&anonymous(), &server.url()).await),
                "1.0.0"
            );
        }
        let heads = server.requests();
        assert_eq!(conditions(&heads[0]), (None, None));
        assert_eq!(conditions(&heads[1]), (Some(tag.to_vec()), None));
    }
}

#[tokio::test]
async fn last_modified_is_repeated_with_and_without_an_entity_tag() {
    let (etag, date) = (Some(ETAG.as_bytes().to_vec()), Some(DATE.as_bytes().to_vec()));
    let cases: [(&[(&str, &str)], _); 3] = [
        (&[("Last-Modified", DATE)], (None, date.clone())),
        (&[("Last-Modified", DATE), ("ETag", ETAG)], (etag, date)),
        (&[], (None, None)),
    ];
    for (headers, sent) in cases {
        let server = Server::http(move |_| indexed(headers, &["1.0.0"])).await;
        let resolver = TestResolver::new();
        for _ in 0..2 {
            assert_eq!(
                version(resolver.repository(&anonymous(), &server.url()).await),
                "1.0.0"
            );
        }
        assert_eq!(conditions(&server.requests()[1]), sent);
    }
}

#[tokio::test]
async fn an_unchanged_index_is_not_downloaded_again() {
    let server = Server::http(|head| revalidating(head, ETAG, &index(&["1.0.0"]))).await;
    let resolver = TestResolver::new();
    for _ in 0..4 {
        assert_eq!(
            version(resolver.repository(&anonymous(), &server.url()).await),
            "1.0.0"
        );
    }
    assert_eq!(server.requests().len(), 4, "each resolution sends a request");
    assert_eq!(resolver.requests("index", "success"), 1);
    assert_eq!(resolver.requests("index", "not_modified"), 3);
    assert_eq!(
        resolver.bytes("index"),
        index(&["1.0.0"]).len() as u64,
        "and downloads no body"
    );
    assert_eq!(resolver.metric("helmops_fetch_coalesced_total"), 0);
    assert!(resolver.metric("helmops_cache_bytes") > 0);
    resolver.assert_idle(4);
}

#[tokio::test]
async fn a_changed_index_is_downloaded_again() {
    let server = Server::http(|head| match head.nth {
        0 => revalidating(head, "\"a\"", &index(&["1.0.0"])),
        _ => revalidating(head, "\"b\"", &index(&["1.0.0", "1.1.0"])),
    })
    .await;
    let resolver = TestResolver::new();
    for expected in ["1.0.0", "1.1.0", "1.1.0"] {
        assert_eq!(
            version(resolver.repository(&anonymous(), &server.url()).await),
            expected
        );
    }
    let sent = server
        .requests()
        .iter()
        .map(|head| head.text("If-None-Match").to_owned())
        .collect::<Vec<_>>();
    assert_eq!(sent, ["", "\"a\"", "\"b\""]);
    assert_eq!(resolver.requests("index", "success"), 2);
    assert_eq!(resolver.requests("index", "not_modified"), 1);
}

#[tokio::test]
async fn status_304_to_an_unconditional_request_is_an_error() {
    let server = Server::http(|_| status(304, &[])).await;
    let resolver = TestResolver::new();
    let outcome = resolver.repository(&anonymous(), &server.url()).await;
    assert_fails(
        outcome,
        Reason::RepositoryError,
        Class::Absent,
        &[
            &server.url(),
            "error code: 304: the server reports that nothing has changed",
        ],
    );
    assert_eq!(server.requests().len(), 1);
    resolver.assert_idle(1);
}

#[tokio::test]
async fn an_invalid_response_does_not_replace_the_cached_one() {
    let broken: [fn() -> Reply; 5] = [
        || response(200, &[("ETag", "\"bad\"")], "<html>sign in</html>"),
        || {
            response(
                200,
                &[("ETag", "\"bad\""), ("Content-Encoding", "gzip")],
                "no gzip",
            )
        },
        || {
            response(
                200,
                &[("ETag", "\"bad\"")],
                "entries:\n  web:\n  - version: \"1.0",
            )
        },
        || status(404, &[("ETag", "\"bad\"")]),
        || status(403, &[("ETag", "\"bad\"")]),
    ];
    for reply in broken {
        let server = Server::http(move |head| match head.nth {
            1 | 2 => reply(),
            _ => revalidating(head, ETAG, &index(&["1.0.0"])),
        })
        .await;
        let resolver = TestResolver::new();
        assert_eq!(
            version(resolver.repository(&anonymous(), &server.url()).await),
            "1.0.0"
        );
        for _ in 0..2 {
            let outcome = resolver.repository(&anonymous(), &server.url()).await;
            assert!(
                outcome.is_err(),
                "a cached response is not returned instead of the new one: {outcome:?}"
            );
        }
        assert_eq!(
            version(resolver.repository(&anonymous(), &server.url()).await),
            "1.0.0"
        );
        let heads = server.requests();
        let sent = heads
            .iter()
            .map(|head| head.text("If-None-Match"))
            .collect::<Vec<_>>();
        assert_eq!(sent, ["", ETAG, ETAG, ETAG]);
        assert_eq!(resolver.requests("index", "not_modified"), 1);
    }
}

#[tokio::test]
async fn a_response_that_is_fresh_enough_is_not_requested_again() {
    let server = Server::http(|_| indexed(&[], &["1.0.0"])).await;
    let (resolver, since) = (TestResolver::new(), Instant::now());
    let url = server.url();
    for _ in 0..3 {
        let outcome = resolver.chart(&anonymous(), (&url, CHART), since).await;
        assert_eq!(version(outcome), "1.0.0");
    }
    assert_eq!(server.requests().len(), 1);
    assert_eq!(resolver.metric("helmops_fetch_coalesced_total"), 2);
}
