//! Bodies that contradict their heads, or that never end.

use std::{
    io::Write,
    time::{Duration, Instant},
};

use flate2::{Compression, write::GzEncoder};
use helmops_model::reason::Reason;
use helmops_runtime::error_class::Class;

use super::{
    fixture::{LONG_TIMEOUTS, ResolveResult, TestResolver, anonymous, assert_fails, version},
    responses::{entry, index, indexed},
    server::{Action, Reply, Server, chunked, forever, response, status, with_content_length},
};
use crate::{
    http::{Limits, Timeouts},
    repository::LIMITS,
};

const GZIP: (&str, &str) = ("Content-Encoding", "gzip");
const MIB: u64 = 1 << 20;

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Resolves from a server that always sends the same reply, and asserts that one request is sent.
async fn resolve(reply: impl Fn() -> Reply + Send + Sync + 'static) -> (TestResolver, Server, ResolveResult) {
    let server = Server::http(move |_| reply()).await;
    let resolver = TestResolver::new();
    let outcome = resolver.repository(&anonymous(), &server.url()).await;
    assert_eq!(server.lines(), ["GET /index.yaml"]);
    resolver.assert_idle(1);
    (resolver, server, outcome)
}

async fn assert_fetch_fails(
    reply: impl Fn() -> Reply + Send + Sync + 'static,
    reason: Reason,
    class: Class,
    expected: &str,
) {
    let (resolver, server, outcome) = resolve(reply).await;
    let url = format!("{}/index.yaml", server.url());
    assert_fails(outcome, reason, class, &[&url, expected]);
    // If the response is complete, the request is a success and only the content is invalid.
    let counted = if reason == Reason::InvalidIndex {
        "success"
    } else {
        reason.as_str()
    };
    assert_eq!(resolver.requests("index", counted), 1);
}

#[tokio::test]
async fn a_valid_index_is_used() {
    let text = index(&["1.0.0", "1.1.0"]);
    let (resolver, server, outcome) = resolve(|| indexed(&[], &["1.0.0", "1.1.0"])).await;
    let found = outcome.unwrap();
    assert_eq!((found.version.as_str(), found.digest.as_str()), ("1.1.0", "5f3b"));
    assert_eq!(found.url, format!("{}/web-1.1.0.tgz", server.url()));
    assert_eq!(resolver.bytes("index"), text.len() as u64);
    assert_eq!(server.requests()[0].text("Accept-Encoding"), "gzip");
    assert_eq!(server.requests()[0].header("Authorization"), None);
}

#[tokio::test]
async fn compressed_bodies_are_read() {
    let text = index(&["1.0.0"]);
    let (head, tail) = text.split_at(40);
    let two_members = [gzip(head.as_bytes()), gzip(tail.as_bytes())].concat();
    for (name, body) in [
        ("gzip", gzip(text.as_bytes())),
        ("GZip", two_members),
        ("x-gzip", gzip(text.as_bytes())),
    ] {
        let length = body.len() as u64;
        let (resolver, _, outcome) =
            resolve(move || response(200, &[("Content-Encoding", name)], body.clone())).await;
        assert_eq!(version(outcome), "1.0.0", "{name}");
        assert_eq!(resolver.bytes("index"), length, "counted as received");
    }
    let plain = || response(200, &[("Content-Encoding", "identity")], index(&["1.0.0"]));
    assert_eq!(version(resolve(plain).await.2), "1.0.0");
}

#[tokio::test]
async fn invalid_compressed_bodies_are_errors() {
    let whole = gzip(index(&["1.0.0"; 50]).as_bytes());
    let half = whole[..whole.len() / 2].to_vec();
    let reply = move || response(200, &[GZIP], half.clone());
    assert_fetch_fails(
        reply,
        Reason::RepositoryError,
        Class::TRANSIENT,
        "cannot be decompressed: it ends too early",
    )
    .await;

    // The index is complete, but the checksum after it is missing.
    let without_checksum = whole[..whole.len() - 8].to_vec();
    let reply = move || response(200, &[GZIP], without_checksum.clone());
    assert_fetch_fails(
        reply,
        Reason::RepositoryError,
        Class::TRANSIENT,
        "it ends too early",
    )
    .await;

    let mut flipped = whole;
    let last = flipped.len() - 5;
    flipped[last] ^= 1;
    let reply = move || response(200, &[GZIP], flipped.clone());
    assert_fetch_fails(
        reply,
        Reason::RepositoryError,
        Class::TRANSIENT,
        "cannot be decompressed",
    )
    .await;

    let reply = || response(200, &[GZIP], index(&["1.0.0"]));
    assert_fetch_fails(
        reply,
        Reason::RepositoryError,
        Class::TRANSIENT,
        "cannot be decompressed",
    )
    .await;
    let reply = || response(200, &[("Content-Encoding", "br")], "\x0b\x02\u{0}");
    assert_fetch_fails(
        reply,
        Reason::RepositoryError,
        Class::TRANSIENT,
        "Content-Encoding \"br\" was not requested",
    )
    .await;
}

/// The head and a repeatable block of an index: entries of a chart that is not requested, a quarter of a MiB per block.
fn entries() -> (Vec<u8>, Vec<u8>) {
    let entry = entry("other", "1.0.0");
    let head = b"apiVersion: v1\nentries:\n  other:\n".to_vec();
    (head, entry.repeat((256 << 10) / entry.len()).into_bytes())
}

/// A few MiB that decompress to half a GiB.
fn bomb() -> Vec<u8> {
    let (head, block) = entries();
    [gzip(&head), gzip(&block).repeat(2048)].concat()
}

#[tokio::test]
async fn a_body_that_decompresses_to_too_much_is_aborted() {
    let bomb = bomb();
    let length = bomb.len() as u64;
    assert!(length < 4 * MIB, "{length}");
    let server = Server::http(move |_| response(200, &[GZIP], bomb.clone())).await;
    let limits = Limits {
        decoded: 4 * MIB,
        ..LIMITS
    };
    let resolver = TestResolver::with_limits(limits, LONG_TIMEOUTS);
    let outcome = resolver.repository(&anonymous(), &server.url()).await;
    let expected = [&*server.url(), "larger than 4 MiB after decompression"];
    assert_fails(outcome, Reason::ResponseTooLarge, Class::Absent, &expected);
    assert_eq!(resolver.requests("index", "ResponseTooLarge"), 1);
    // The body was aborted before it was received completely.
    assert!(resolver.bytes("index") < length, "{}", resolver.bytes("index"));
    resolver.assert_idle(1);
}

#[tokio::test]
async fn a_body_that_takes_too_long_to_read_is_aborted() {
    // It arrives immediately, so that no timeout of the connection ends it.
    let bomb = bomb();
    let server = Server::http(move |_| response(200, &[GZIP], bomb.clone())).await;
    let limits = Limits {
        decoded: u64::MAX,
        ..LIMITS
    };
    let timeouts = Timeouts {
        total: Duration::from_millis(500),
        ..LONG_TIMEOUTS
    };
    let resolver = TestResolver::with_limits(limits, timeouts);
    let started = Instant::now();
    let outcome = resolver.repository(&anonymous(), &server.url()).await;
    assert!(
        started.elapsed() < Duration::from_secs(10),
        "{:?}",
        started.elapsed()
    );
    assert_fails(
        outcome,
        Reason::Timeout,
        Class::TRANSIENT,
        &[&server.url(), "timeout: the "],
    );
    assert_eq!(resolver.requests("index", "Timeout"), 1);
    resolver.assert_idle(1);
}

#[tokio::test]
async fn an_endless_body_is_aborted() {
    let server = Server::http(|_| {
        let (head, block) = entries();
        let mut reply = forever(&[], block);
        reply.insert(1, Action::Write(head));
        reply
    })
    .await;
    let limits = Limits {
        wire: 8 * MIB,
        ..LIMITS
    };
    let resolver = TestResolver::with_limits(limits, LONG_TIMEOUTS);
    let outcome = resolver.repository(&anonymous(), &server.url()).await;
    let expected = [&*server.url(), "larger than 8 MiB on the wire"];
    assert_fails(outcome, Reason::ResponseTooLarge, Class::Absent, &expected);
    server.wait_for_disconnects(1).await;
    // In addition to the limit, the buffers of both sockets are filled.
    assert!(server.written() < 32 * MIB, "{}", server.written());
    assert!(
        (8 * MIB..10 * MIB).contains(&resolver.bytes("index")),
        "{}",
        resolver.bytes("index")
    );
    assert_eq!(resolver.requests("index", "ResponseTooLarge"), 1);
    resolver.assert_idle(1);
}

#[tokio::test]
async fn a_body_shorter_than_a_large_content_length_is_an_error() {
    // The head announces more than the limit, but only received bytes count.
    let (resolver, _, outcome) = resolve(|| with_content_length(200, &[], 10 << 30, index(&["1.0.0"]))).await;
    assert_fails(
        outcome,
        Reason::ConnectionFailed,
        Class::TRANSIENT,
        &["was closed"],
    );
    assert_eq!(resolver.bytes("index"), index(&["1.0.0"]).len() as u64);
}

#[tokio::test]
async fn wrong_content_lengths_are_errors() {
    let text = index(&["1.0.0"]);
    let length = text.len() as u64;
    let longer = move || with_content_length(200, &[], length + 1, index(&["1.0.0"]));
    assert_fetch_fails(
        longer,
        Reason::ConnectionFailed,
        Class::TRANSIENT,
        "the connection was closed",
    )
    .await;
    // The body ends in the middle of the quoted time at the end.
    let shorter = move || with_content_length(200, &[], length - 10, index(&["1.0.0"]));
    assert_fetch_fails(
        shorter,
        Reason::InvalidIndex,
        Class::Absent,
        "the index is cut off",
    )
    .await;
    let two = move || {
        let length = length.to_string();
        response(
            200,
            &[("Content-Length", &length), ("Content-Length", "7")],
            index(&["1.0.0"]),
        )
    };
    assert_fetch_fails(
        two,
        Reason::ConnectionFailed,
        Class::TRANSIENT,
        "the connection was closed",
    )
    .await;
}

#[tokio::test]
async fn invalid_chunks_are_errors() {
    for chunks in [
        "5\r\nentri",
        "zz\r\nentries:\r\n",
        "ffffffffffffffffff\r\nentries:",
        "5\r\nentries: {}\r\n0\r\n\r\n",
    ] {
        let reply = move || chunked(chunks);
        assert_fetch_fails(
            reply,
            Reason::ConnectionFailed,
            Class::TRANSIENT,
            "the connection was closed",
        )
        .await;
    }
}

#[tokio::test]
async fn responses_that_are_not_an_index_are_reported_with_their_content() {
    let html = "<!DOCTYPE html>\n<html><body>Please sign in</body></html>\n";
    for (body, expected) in [
        (
            html,
            "it is a web page; check that `index.yaml` is what is at the URL",
        ),
        ("{\"message\": \"not found\"}", "\"not found\""),
        ("", "it is empty"),
        ("- a\n- b\n", "it is a list"),
        ("Not here.", "it is plain text, \"Not here.\""),
        ("apiVersion: v1\n", "it has no `entries`"),
    ] {
        assert_fetch_fails(
            move || response(200, &[], body),
            Reason::InvalidIndex,
            Class::Absent,
            expected,
        )
        .await;
    }
    let other = || response(200, &[], super::responses::index_of(&[("other", &["1.0.0"])]));
    let (_, server, outcome) = resolve(other).await;
    assert_fails(
        outcome,
        Reason::ChartNotFound,
        Class::Absent,
        &["the index has no chart \"web\"", &server.url()],
    );
}

#[tokio::test]
async fn error_statuses_are_reported() {
    for (code, reason, class, expected) in [
        (
            204,
            Reason::RepositoryError,
            Class::Absent,
            "error code: 204: not a response of a chart repository",
        ),
        (400, Reason::RepositoryError, Class::Absent, "error code: 400"),
        (
            401,
            Reason::Unauthorized,
            Class::Absent,
            "error code: 401: no login was sent",
        ),
        (
            403,
            Reason::Forbidden,
            Class::Absent,
            "error code: 403: no login was sent",
        ),
        (
            404,
            Reason::RepositoryNotFound,
            Class::Absent,
            "error code: 404: there is no chart repository at this URL",
        ),
        (410, Reason::RepositoryNotFound, Class::Absent, "error code: 410"),
        (407, Reason::RepositoryError, Class::Absent, "HTTPS_PROXY"),
        (
            500,
            Reason::RepositoryError,
            Class::TRANSIENT,
            "error code: 500: the server failed",
        ),
        (503, Reason::RepositoryError, Class::TRANSIENT, "error code: 503"),
        (599, Reason::RepositoryError, Class::TRANSIENT, "error code: 599"),
    ] {
        assert_fetch_fails(move || status(code, &[]), reason, class, expected).await;
        // A valid index in the body makes no difference.
        if code != 204 {
            assert_fetch_fails(
                move || response(code, &[], index(&["1.0.0"])),
                reason,
                class,
                expected,
            )
            .await;
        }
    }
}
