//! Bodies that are not what their heads promise, or that never end.

use std::{
    io::Write,
    time::{Duration, Instant},
};

use flate2::{Compression, write::GzEncoder};
use helmops_shared::reason::Reason;

use super::{
    answers::{entry, index, indexed},
    asking::{Asking, Outcome, PATIENT, anonymous, assert_fails, version},
    rig::{Act, Reply, Server, answer, chunked, forever, promising, status},
};
use crate::{
    backoff::Pace,
    resolve::{
        http::{Limits, Timeouts},
        repository::LIMITS,
    },
};

const GZIP: (&str, &str) = ("Content-Encoding", "gzip");
const MIB: u64 = 1 << 20;

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Asks a server that always answers the same; no other request is ever needed.
async fn asked(reply: impl Fn() -> Reply + Send + Sync + 'static) -> (Asking, Server, Outcome) {
    let server = Server::http(move |_| reply()).await;
    let asking = Asking::new();
    let outcome = asking.repository(&anonymous(), &server.url()).await;
    assert_eq!(server.lines(), ["GET /index.yaml"]);
    asking.assert_idle(1);
    (asking, server, outcome)
}

async fn fails(reply: impl Fn() -> Reply + Send + Sync + 'static, reason: Reason, pace: Pace, words: &str) {
    let (asking, server, outcome) = asked(reply).await;
    let url = format!("{}/index.yaml", server.url());
    assert_fails(outcome, reason, pace, &[&url, words]);
    // Where the answer arrived in good order, the request was a success and only its content is none.
    let counted = if reason == Reason::InvalidIndex {
        "success"
    } else {
        reason.as_str()
    };
    assert_eq!(asking.requests("index", counted), 1);
}

#[tokio::test]
async fn what_is_good_is_taken() {
    let text = index(&["1.0.0", "1.1.0"]);
    let (asking, server, outcome) = asked(|| indexed(&[], &["1.0.0", "1.1.0"])).await;
    let found = outcome.unwrap();
    assert_eq!((found.version.as_str(), found.digest.as_str()), ("1.1.0", "5f3b"));
    assert_eq!(found.url, format!("{}/web-1.1.0.tgz", server.url()));
    assert_eq!(asking.bytes("index"), text.len() as u64);
    assert_eq!(server.heads()[0].text("Accept-Encoding"), "gzip");
    assert_eq!(server.heads()[0].header("Authorization"), None);
}

#[tokio::test]
async fn compressed_bodies() {
    let text = index(&["1.0.0"]);
    let (head, tail) = text.split_at(40);
    let two_members = [gzip(head.as_bytes()), gzip(tail.as_bytes())].concat();
    for (name, body) in [
        ("gzip", gzip(text.as_bytes())),
        ("GZip", two_members),
        ("x-gzip", gzip(text.as_bytes())),
    ] {
        let length = body.len() as u64;
        let (asking, _, outcome) =
            asked(move || answer(200, &[("Content-Encoding", name)], body.clone())).await;
        assert_eq!(version(outcome), "1.0.0", "{name}");
        assert_eq!(
            asking.bytes("index"),
            length,
            "counted as they come over the wire"
        );
    }
    let plain = || answer(200, &[("Content-Encoding", "identity")], index(&["1.0.0"]));
    assert_eq!(version(asked(plain).await.2), "1.0.0");
}

#[tokio::test]
async fn compressed_bodies_that_are_broken() {
    let whole = gzip(index(&["1.0.0"; 50]).as_bytes());
    let half = whole[..whole.len() / 2].to_vec();
    let reply = move || answer(200, &[GZIP], half.clone());
    fails(
        reply,
        Reason::RepositoryError,
        Pace::TRANSIENT,
        "cannot be decompressed: it ends too early",
    )
    .await;

    // All of the index is there, but for the checksum behind it.
    let without_checksum = whole[..whole.len() - 8].to_vec();
    let reply = move || answer(200, &[GZIP], without_checksum.clone());
    fails(
        reply,
        Reason::RepositoryError,
        Pace::TRANSIENT,
        "it ends too early",
    )
    .await;

    let mut flipped = whole;
    let last = flipped.len() - 5;
    flipped[last] ^= 1;
    let reply = move || answer(200, &[GZIP], flipped.clone());
    fails(
        reply,
        Reason::RepositoryError,
        Pace::TRANSIENT,
        "cannot be decompressed",
    )
    .await;

    let reply = || answer(200, &[GZIP], index(&["1.0.0"]));
    fails(
        reply,
        Reason::RepositoryError,
        Pace::TRANSIENT,
        "cannot be decompressed",
    )
    .await;
    let reply = || answer(200, &[("Content-Encoding", "br")], "\x0b\x02\u{0}");
    fails(
        reply,
        Reason::RepositoryError,
        Pace::TRANSIENT,
        "Content-Encoding \"br\" was not asked for",
    )
    .await;
}

/// An index that is read for as long as somebody likes: entries that nobody asks for, a quarter of a MiB at a time.
fn entries() -> (Vec<u8>, Vec<u8>) {
    let entry = entry("other", "1.0.0");
    let head = b"apiVersion: v1\nentries:\n  other:\n".to_vec();
    (head, entry.repeat((256 << 10) / entry.len()).into_bytes())
}

/// A few MiB that unfold to half a GiB.
fn bomb() -> Vec<u8> {
    let (head, block) = entries();
    [gzip(&head), gzip(&block).repeat(2048)].concat()
}

#[tokio::test]
async fn a_little_that_unfolds_to_a_lot() {
    let bomb = bomb();
    let length = bomb.len() as u64;
    assert!(length < 4 * MIB, "{length}");
    let server = Server::http(move |_| answer(200, &[GZIP], bomb.clone())).await;
    let limits = Limits {
        decoded: 4 * MIB,
        ..LIMITS
    };
    let asking = Asking::reading(limits, PATIENT);
    let outcome = asking.repository(&anonymous(), &server.url()).await;
    let words = [&*server.url(), "larger than 4 MiB after decompression"];
    assert_fails(outcome, Reason::ResponseTooLarge, Pace::SLOW, &words);
    assert_eq!(asking.requests("index", "ResponseTooLarge"), 1);
    // It could not have unfolded so far without having arrived so far; the rest was not waited for.
    assert!(asking.bytes("index") < length, "{}", asking.bytes("index"));
    asking.assert_idle(1);
}

#[tokio::test]
async fn a_little_that_is_long_to_read() {
    // It has arrived at once, so that no timeout of the connection ends it.
    let bomb = bomb();
    let server = Server::http(move |_| answer(200, &[GZIP], bomb.clone())).await;
    let limits = Limits {
        decoded: u64::MAX,
        ..LIMITS
    };
    let timeouts = Timeouts {
        total: Duration::from_millis(500),
        ..PATIENT
    };
    let asking = Asking::reading(limits, timeouts);
    let started = Instant::now();
    let outcome = asking.repository(&anonymous(), &server.url()).await;
    assert!(
        started.elapsed() < Duration::from_secs(10),
        "{:?}",
        started.elapsed()
    );
    assert_fails(
        outcome,
        Reason::Timeout,
        Pace::TRANSIENT,
        &[&server.url(), "timeout: the "],
    );
    assert_eq!(asking.requests("index", "Timeout"), 1);
    asking.assert_idle(1);
}

#[tokio::test]
async fn a_body_without_end() {
    let server = Server::http(|_| {
        let (head, block) = entries();
        let mut reply = forever(&[], block);
        reply.insert(1, Act::Write(head));
        reply
    })
    .await;
    let limits = Limits {
        wire: 8 * MIB,
        ..LIMITS
    };
    let asking = Asking::reading(limits, PATIENT);
    let outcome = asking.repository(&anonymous(), &server.url()).await;
    let words = [&*server.url(), "larger than 8 MiB on the wire"];
    assert_fails(outcome, Reason::ResponseTooLarge, Pace::SLOW, &words);
    server.has_been_left(1).await;
    // What is in the buffers of both sockets comes on top.
    assert!(server.written() < 32 * MIB, "{}", server.written());
    assert!(
        (8 * MIB..10 * MIB).contains(&asking.bytes("index")),
        "{}",
        asking.bytes("index")
    );
    assert_eq!(asking.requests("index", "ResponseTooLarge"), 1);
    asking.assert_idle(1);
}

#[tokio::test]
async fn ten_gigabytes_that_are_promised() {
    // The head alone says that it is too much, but nobody believes heads.
    let (asking, _, outcome) = asked(|| promising(200, &[], 10 << 30, index(&["1.0.0"]))).await;
    assert_fails(
        outcome,
        Reason::ConnectionFailed,
        Pace::TRANSIENT,
        &["was closed"],
    );
    assert_eq!(asking.bytes("index"), index(&["1.0.0"]).len() as u64);
}

#[tokio::test]
async fn content_lengths_that_are_wrong() {
    let text = index(&["1.0.0"]);
    let length = text.len() as u64;
    let longer = move || promising(200, &[], length + 1, index(&["1.0.0"]));
    fails(
        longer,
        Reason::ConnectionFailed,
        Pace::TRANSIENT,
        "the connection was closed",
    )
    .await;
    // Ends in the middle of the quoted time at the end.
    let shorter = move || promising(200, &[], length - 10, index(&["1.0.0"]));
    fails(shorter, Reason::InvalidIndex, Pace::SLOW, "the index is cut off").await;
    let two = move || {
        let length = length.to_string();
        answer(
            200,
            &[("Content-Length", &length), ("Content-Length", "7")],
            index(&["1.0.0"]),
        )
    };
    fails(
        two,
        Reason::ConnectionFailed,
        Pace::TRANSIENT,
        "the connection was closed",
    )
    .await;
}

#[tokio::test]
async fn chunks_that_are_broken() {
    for chunks in [
        "5\r\nentri",
        "zz\r\nentries:\r\n",
        "ffffffffffffffffff\r\nentries:",
        "5\r\nentries: {}\r\n0\r\n\r\n",
    ] {
        let reply = move || chunked(chunks);
        fails(
            reply,
            Reason::ConnectionFailed,
            Pace::TRANSIENT,
            "the connection was closed",
        )
        .await;
    }
}

#[tokio::test]
async fn something_else_with_200() {
    let html = "<!DOCTYPE html>\n<html><body>Please sign in</body></html>\n";
    for (body, words) in [
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
        fails(
            move || answer(200, &[], body),
            Reason::InvalidIndex,
            Pace::SLOW,
            words,
        )
        .await;
    }
    let other = || answer(200, &[], super::answers::index_of(&[("other", &["1.0.0"])]));
    let (_, server, outcome) = asked(other).await;
    assert_fails(
        outcome,
        Reason::ChartNotFound,
        Pace::SLOW,
        &["the index has no chart \"web\"", &server.url()],
    );
}

#[tokio::test]
async fn other_statuses() {
    for (code, reason, pace, words) in [
        (
            204,
            Reason::RepositoryError,
            Pace::SLOW,
            "error code: 204: not an answer that a chart repository",
        ),
        (400, Reason::RepositoryError, Pace::SLOW, "error code: 400"),
        (
            401,
            Reason::Unauthorized,
            Pace::SLOW,
            "error code: 401: the server requires",
        ),
        (
            403,
            Reason::Forbidden,
            Pace::SLOW,
            "error code: 403: the login is known but may not read this",
        ),
        (
            404,
            Reason::RepositoryNotFound,
            Pace::SLOW,
            "error code: 404: there is no chart repository at this URL",
        ),
        (410, Reason::RepositoryNotFound, Pace::SLOW, "error code: 410"),
        (407, Reason::RepositoryError, Pace::SLOW, "HTTPS_PROXY"),
        (
            500,
            Reason::RepositoryError,
            Pace::TRANSIENT,
            "error code: 500: the server is in trouble",
        ),
        (503, Reason::RepositoryError, Pace::TRANSIENT, "error code: 503"),
        (599, Reason::RepositoryError, Pace::TRANSIENT, "error code: 599"),
    ] {
        fails(move || status(code, &[]), reason, pace, words).await;
        // An index makes no success of it.
        if code != 204 {
            fails(move || answer(code, &[], index(&["1.0.0"])), reason, pace, words).await;
        }
    }
}
