//! Hostile requests to the receiver.

use std::time::{Duration, Instant};

use futures::future::join_all;
use helmops_bed::kubectl::Kubectl;
use helmops_bed::namespace::TestNamespace;
use reqwest::{Client, RequestBuilder};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::receiver_suite::{TOKEN, create, payload, status, suite};
use crate::harness::helmop;

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

/// How fast a genuine push is handled, whatever else arrives.
const SOON: Duration = Duration::from_secs(1);

/// A hundred requests that must not be accepted, while a genuine push leads to a poll as fast as without them; and a burst of genuine ones.
#[tokio::test]
async fn hostile_requests_are_refused_and_counted_and_slow_down_no_push() {
    let suite = suite().await;
    let namespace = TestNamespace::create(&suite.bed, "hostile").await.unwrap();
    let kubectl = namespace.kubectl();
    // A type that no other test uses in this number.
    let victim = create(kubectl, "victim", &json!({ "type": "acr" })).await;
    let honest = create(kubectl, "honest", &json!({ "type": "quay" })).await;
    // The chart of the genuine pushes, and one that no push names.
    for (name, repo) in [("web", "quay.io/charts/web"), ("db", "other.example/charts/db")] {
        let spec = json!({
            "helm": { "repo": format!("oci://{repo}"), "version": "1.x" }, "pollingInterval": "0s",
            "targets": [{ "clusterSelector": {} }],
        });
        kubectl.apply(&helmop(name, &spec)).await.unwrap().ok().unwrap();
    }
    let push = async |number: i64| {
        let before = poll_of(kubectl, "web").await;
        let started = Instant::now();
        let body = String::from_utf8(payload("quay.json")).unwrap();
        let body = body.replace("1.2.3", &format!("1.0.{number}"));
        let sent = Client::new().post(&honest).bearer_auth(TOKEN).body(body);
        assert_eq!(status(sent).await, 202, "push {number}");
        until_polled(kubectl, "web", before.as_deref()).await;
        started.elapsed()
    };
    let before = push(1).await;
    let results = ["unauthorized", "replayed", "too_large", "slow", "malformed"];
    let counted_before = join_all(results.map(|result| suite.count("acr", result))).await;
    assert_eq!(
        status(Client::new().post(&victim).bearer_auth(TOKEN).body(acr(0))).await,
        202
    );
    let ((), during) = tokio::join!(attack(&suite.receiver.url, &victim), push(2));
    let after = push(3).await;
    let mut counted = Vec::new();
    for (result, before) in results.into_iter().zip(counted_before) {
        counted.push((result, suite.count("acr", result).await - before));
    }
    println!(
        "a push led to a poll after {before:?}, beside 100 hostile requests after {during:?}, after them after {after:?}; counted: {counted:?}"
    );
    for (result, count) in &counted {
        assert!(*count >= 20.0, "{result}: {count}");
    }
    assert!(during < SOON, "{before:?} {during:?}");
    assert_eq!(poll_of(kubectl, "db").await, None, "no push has named its chart");
}

/// A registry that does not repeat its requests, and pushes more than the rate: none is refused, and those above the rate poll all.
#[tokio::test]
async fn a_burst_of_genuine_pushes_is_not_refused_and_polls_all_once() {
    let suite = suite().await;
    let namespace = TestNamespace::create(&suite.bed, "burst").await.unwrap();
    let kubectl = namespace.kubectl();
    // A type that no other test uses.
    let url = create(kubectl, "burst", &json!({ "type": "harbor" })).await;
    let spec = json!({
        "helm": { "repo": "oci://never.named.example/charts/web", "version": "1.x" }, "pollingInterval": "0s",
        "targets": [{ "clusterSelector": {} }],
    });
    kubectl.apply(&helmop("web", &spec)).await.unwrap().ok().unwrap();
    let collapsed_before = suite.count("harbor", "collapsed").await;
    let body = String::from_utf8(payload("harbor.json")).unwrap();
    let client = Client::new();
    let flood = (0..100).map(|number| {
        let body = body.replace("1.2.3", &format!("2.0.{number}"));
        status(client.post(&url).bearer_auth(TOKEN).body(body))
    });
    let started = Instant::now();
    assert_eq!(join_all(flood).await, vec![202; 100]);
    until_polled(kubectl, "web", None).await;
    let polled = started.elapsed();
    let collapsed = suite.count("harbor", "collapsed").await - collapsed_before;
    let receiver = kubectl.get("receiver/burst").await.unwrap().unwrap();
    let writes = receiver["status"]["handledPush"].as_i64().unwrap();
    println!(
        "{collapsed} of 100 pushes were collapsed into a poll of all after {polled:?}; {writes} pushes were recorded"
    );
    assert!(collapsed >= 70.0, "{collapsed}");
    assert!(polled < Duration::from_secs(3), "{polled:?}");
    // One of its repository and one of all, for each second.
    let bound = 2 * i64::try_from(started.elapsed().as_secs() + 2).unwrap();
    assert!(writes <= bound, "{receiver}");
}

/// The annotation with which a HelmOp was polled last.
async fn poll_of(kubectl: &Kubectl, name: &str) -> Option<String> {
    let helmop = kubectl.get(&format!("helmop/{name}")).await.unwrap().unwrap();
    let annotation = &helmop["metadata"]["annotations"]["helmops.fleet.cattle.io/poll-requested-at"];
    annotation.as_str().map(str::to_owned)
}

/// Waits until a HelmOp is polled again. Tight, because a time is measured.
async fn until_polled(kubectl: &Kubectl, name: &str, before: Option<&str>) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while poll_of(kubectl, name).await.as_deref() == before {
        assert!(Instant::now() < deadline, "{name} is not polled");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
