//! Conditional requests: what is sent back, and what a kept answer is good for.

use std::time::Instant;

use helmops_shared::reason::Reason;

use super::{
    answers::{CHART, index, indexed, revalidating},
    asking::{Asking, anonymous, assert_fails, version},
    rig::{Act, Head, Reply, Server, answer, status},
};
use crate::backoff::Pace;

const ETAG: &str = "\"a\"";
const DATE: &str = "Sat, 21 Nov 2026 17:00:00 GMT";

/// What a request said of what is known already.
fn conditions(head: &Head) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
    let sent = |name| head.header(name).map(<[u8]>::to_vec);
    (sent("If-None-Match"), sent("If-Modified-Since"))
}

#[tokio::test]
async fn values_are_repeated_byte_by_byte() {
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
            vec![Act::Write(reply)]
        })
        .await;
        let asking = Asking::new();
        for _ in 0..2 {
            assert_eq!(
                version(asking.repository(&anonymous(), &server.url()).await),
                "1.0.0"
            );
        }
        let heads = server.heads();
        assert_eq!(conditions(&heads[0]), (None, None));
        assert_eq!(conditions(&heads[1]), (Some(tag.to_vec()), None));
    }
}

#[tokio::test]
async fn a_date_alone_and_both() {
    let (etag, date) = (Some(ETAG.as_bytes().to_vec()), Some(DATE.as_bytes().to_vec()));
    let cases: [(&[(&str, &str)], _); 3] = [
        (&[("Last-Modified", DATE)], (None, date.clone())),
        (&[("Last-Modified", DATE), ("ETag", ETAG)], (etag, date)),
        (&[], (None, None)),
    ];
    for (headers, sent) in cases {
        let server = Server::http(move |_| indexed(headers, &["1.0.0"])).await;
        let asking = Asking::new();
        for _ in 0..2 {
            assert_eq!(
                version(asking.repository(&anonymous(), &server.url()).await),
                "1.0.0"
            );
        }
        assert_eq!(conditions(&server.heads()[1]), sent);
    }
}

#[tokio::test]
async fn nothing_has_changed() {
    let server = Server::http(|head| revalidating(head, ETAG, &index(&["1.0.0"]))).await;
    let asking = Asking::new();
    for _ in 0..4 {
        assert_eq!(
            version(asking.repository(&anonymous(), &server.url()).await),
            "1.0.0"
        );
    }
    assert_eq!(server.heads().len(), 4, "each look-up asks anew");
    assert_eq!(asking.requests("index", "success"), 1);
    assert_eq!(asking.requests("index", "not_modified"), 3);
    assert_eq!(
        asking.bytes("index"),
        index(&["1.0.0"]).len() as u64,
        "and costs no body"
    );
    assert_eq!(asking.metric("helmops_fetch_coalesced_total"), 0);
    assert!(asking.metric("helmops_cache_bytes") > 0);
    asking.assert_idle(4);
}

#[tokio::test]
async fn something_has_changed() {
    let server = Server::http(|head| match head.nth {
        0 => revalidating(head, "\"a\"", &index(&["1.0.0"])),
        _ => revalidating(head, "\"b\"", &index(&["1.0.0", "1.1.0"])),
    })
    .await;
    let asking = Asking::new();
    for expected in ["1.0.0", "1.1.0", "1.1.0"] {
        assert_eq!(
            version(asking.repository(&anonymous(), &server.url()).await),
            expected
        );
    }
    let sent = server
        .heads()
        .iter()
        .map(|head| head.text("If-None-Match").to_owned())
        .collect::<Vec<_>>();
    assert_eq!(sent, ["", "\"a\"", "\"b\""]);
    assert_eq!(asking.requests("index", "success"), 2);
    assert_eq!(asking.requests("index", "not_modified"), 1);
}

#[tokio::test]
async fn nothing_has_changed_says_a_server_that_was_not_asked_so() {
    let server = Server::http(|_| status(304, &[])).await;
    let asking = Asking::new();
    let outcome = asking.repository(&anonymous(), &server.url()).await;
    assert_fails(
        outcome,
        Reason::RepositoryError,
        Pace::SLOW,
        &[
            &server.url(),
            "error code: 304: the server says that nothing has changed",
        ],
    );
    assert_eq!(server.heads().len(), 1);
    asking.assert_idle(1);
}

#[tokio::test]
async fn what_is_broken_does_not_displace_what_is_good() {
    let broken: [fn() -> Reply; 5] = [
        || answer(200, &[("ETag", "\"bad\"")], "<html>sign in</html>"),
        || {
            answer(
                200,
                &[("ETag", "\"bad\""), ("Content-Encoding", "gzip")],
                "no gzip",
            )
        },
        || {
            answer(
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
        let asking = Asking::new();
        assert_eq!(
            version(asking.repository(&anonymous(), &server.url()).await),
            "1.0.0"
        );
        for _ in 0..2 {
            let outcome = asking.repository(&anonymous(), &server.url()).await;
            assert!(
                outcome.is_err(),
                "an old answer is not given away for a new one: {outcome:?}"
            );
        }
        assert_eq!(
            version(asking.repository(&anonymous(), &server.url()).await),
            "1.0.0"
        );
        let heads = server.heads();
        let sent = heads
            .iter()
            .map(|head| head.text("If-None-Match"))
            .collect::<Vec<_>>();
        assert_eq!(sent, ["", ETAG, ETAG, ETAG]);
        assert_eq!(asking.requests("index", "not_modified"), 1);
    }
}

#[tokio::test]
async fn an_answer_that_is_fresh_enough_is_not_asked_for_again() {
    let server = Server::http(|_| indexed(&[], &["1.0.0"])).await;
    let (asking, since) = (Asking::new(), Instant::now());
    let url = server.url();
    for _ in 0..3 {
        let outcome = asking.chart(&anonymous(), (&url, CHART), since).await;
        assert_eq!(version(outcome), "1.0.0");
    }
    assert_eq!(server.heads().len(), 1);
    assert_eq!(asking.metric("helmops_fetch_coalesced_total"), 2);
}
