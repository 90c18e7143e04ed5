//! Hostile requests to the receiver.

use std::time::{Duration, Instant};

use futures::future::join_all;
use helmops_bed::namespace::TestNamespace;
use reqwest::{Client, RequestBuilder};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::receiver_suite::{TOKEN, create, payload, status, suite, until_handled};

/// A push to an `acr` Receiver; equal numbers are the same request.
fn acr(number: usize) -> String {
    let body = String::from_utf8(payload("acr-push.json")).unwrap();
    body.replace("1.2.3", &format!("2.0.{number}"))
}

/// Eighty requests with a wrong proof, repeated ones, large ones and malformed ones, and twenty that never end, at the same time.
async fn attack(server: &str, url: &str) {
    let mut hostile = Vec::new();
    for number in 0..20 {
        let client = Client::new();
        hostile.push(
            client
                .post(url)
                .bearer_auth(format!("wrong-{number}-0123456789"))
                .body(acr(number)),
        );
        hostile.push(client.post(url).bearer_auth(TOKEN).body(acr(0)));
        hostile.push(client.post(url).bearer_auth(TOKEN).body(vec![b'x'; 2 << 20]));
        hostile.push(client.post(url).bearer_auth(TOKEN).body("{"));
    }
    let host = server.strip_prefix("http://").unwrap();
    let path = url.strip_prefix(server).unwrap();
    let slow = (0..20).map(async |_| {
        let mut stream = TcpStream::connect(host).await.unwrap();
        let head = format!("POST {path} HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {TOKEN}\r\ncontent-length: 100\r\n\r\n{{");
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).await.unwrap();
        response
    });
    let (sent, slow) = tokio::join!(
        join_all(hostile.into_iter().map(RequestBuilder::send)),
        join_all(slow)
    );
    // The server may close the connection before a body of 2 MiB is sent.
    let refused = sent
        .into_iter()
        .filter_map(Result::ok)
        .map(|response| response.status().as_u16());
    let refused: Vec<_> = refused.collect();
    assert!(
        refused.iter().all(|status| [200, 400, 401, 413].contains(status)),
        "{refused:?}"
    );
    assert!(
        slow.iter().all(|response| response.starts_with("HTTP/1.1 408 ")),
        "{slow:?}"
    );
}

/// A hundred requests that must not be accepted, while legitimate pushes are handled as fast as without them.
#[tokio::test]
async fn hostile_requests_are_refused_and_counted_and_slow_down_no_push() {
    let suite = suite().await;
    let namespace = TestNamespace::create(&suite.bed, "hostile").await.unwrap();
    let kubectl = namespace.kubectl();
    // A type that no other test uses in this number.
    let victim = create(kubectl, "victim", &json!({ "type": "acr" })).await;
    let honest = create(kubectl, "honest", &json!({ "type": "quay" })).await;
    let push = async |number: usize| {
        let started = Instant::now();
        let body = String::from_utf8(payload("quay.json")).unwrap();
        let body = body.replace("1.2.3", &format!("1.0.{number}"));
        let sent = Client::new().post(&honest).bearer_auth(TOKEN).body(body);
        assert_eq!(status(sent).await, 202, "push {number}");
        until_handled(kubectl, "honest", i64::try_from(number).unwrap()).await;
        started.elapsed()
    };
    let before = push(1).await;
    let results = [
        "unauthorized",
        "replayed",
        "too_large",
        "slow",
        "malformed",
        "rate_limited",
    ];
    let counted_before = join_all(results.map(|result| suite.count("acr", result))).await;
    assert_eq!(
        status(Client::new().post(&victim).bearer_auth(TOKEN).body(acr(0))).await,
        202
    );
    let ((), during) = tokio::join!(attack(&suite.receiver.url, &victim), push(2));
    // A flood with the right proof: what is above the rate is refused with the time to repeat.
    let flood = (100..140).map(|number| {
        Client::new()
            .post(&victim)
            .bearer_auth(TOKEN)
            .body(acr(number))
            .send()
    });
    let flood = join_all(flood).await.into_iter().map(Result::unwrap);
    let limited: Vec<_> = flood.filter(|response| response.status() == 429).collect();
    assert!(limited.len() >= 15, "{}", limited.len());
    assert!(
        limited
            .iter()
            .all(|response| response.headers().contains_key("retry-after"))
    );
    let after = push(3).await;

    let mut counted = Vec::new();
    for (result, before) in results.into_iter().zip(counted_before) {
        counted.push((result, suite.count("acr", result).await - before));
    }
    println!(
        "a push was handled after {before:?}, beside 100 hostile requests after {during:?}, after them after {after:?}; counted: {counted:?}"
    );
    for (result, count) in &counted {
        let expected = if *result == "rate_limited" { 15.0 } else { 20.0 };
        assert!(*count >= expected, "{result}: {count}");
    }
    assert!(during < before + Duration::from_secs(2), "{before:?} {during:?}");
}
