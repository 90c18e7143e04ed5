//! Hostile requests to the receiver.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::ensure;
use futures::future::join_all;
use helmops_bed::kubectl::Kubectl;
use helmops_bed::namespace::TestNamespace;
use helmops_bed::wait::eventually;
use reqwest::{Client, RequestBuilder};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::receiver_suite::{TOKEN, create, payload, status, suite};
use crate::harness::{helmop, until};

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

/// How fast a genuine push is handled whatever else arrives, by the time without it. The machine does the work of both sides.
fn bound(before: Duration) -> Duration {
    10 * before.max(Duration::from_millis(200))
}

/// A push to `quay.io/charts/web`.
fn quay(number: usize) -> String {
    let body = String::from_utf8(payload("quay.json")).unwrap();
    body.replace("1.2.3", &format!("1.0.{number}"))
}

/// A hundred requests that must not be accepted, while a genuine push leads to a poll nearly as fast as without them.
#[tokio::test]
async fn hostile_requests_are_refused_and_counted_and_slow_down_no_push() {
    let suite = suite().await;
    let namespace = TestNamespace::create(&suite.bed, "hostile").await.unwrap();
    let kubectl = namespace.kubectl();
    // A type that no other test uses in this number.
    let victim = create(kubectl, "victim", &json!({ "type": "acr" })).await;
    let honest = create(kubectl, "honest", &json!({ "type": "quay" })).await;
    // The chart of the genuine pushes, and one that no push names.
    create_helmop(kubectl, "web", "quay.io/charts/web").await;
    create_helmop(kubectl, "db", "other.example/charts/db").await;
    let push = async |number: usize| {
        let before = poll_of(kubectl, "web").await;
        let started = Instant::now();
        let sent = Client::new().post(&honest).bearer_auth(TOKEN).body(quay(number));
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
    assert!(during < bound(before), "{before:?} {during:?}");
    assert_eq!(poll_of(kubectl, "db").await, None, "no push has named its chart");
}

/// A HelmOp of a chart that is never polled for another reason than a push.
async fn create_helmop(kubectl: &Kubectl, name: &str, repo: &str) {
    let spec = json!({
        "helm": { "repo": format!("oci://{repo}"), "version": "1.x" }, "pollingInterval": "0s",
        "targets": [{ "clusterSelector": {} }],
    });
    kubectl.apply(&helmop(name, &spec)).await.unwrap().ok().unwrap();
}

/// A registry that does not repeat its requests, with a burst of pushes to one chart: none is refused, and no other chart is polled.
#[tokio::test]
async fn a_burst_of_genuine_pushes_is_not_refused_and_polls_its_chart_only() {
    const PUSHES: usize = 60;
    let suite = suite().await;
    let namespace = TestNamespace::create(&suite.bed, "burst").await.unwrap();
    let kubectl = namespace.kubectl();
    let url = create(kubectl, "burst", &json!({ "type": "harbor" })).await;
    create_helmop(kubectl, "web", "harbor.example/charts/web").await;
    create_helmop(kubectl, "db", "never.named.example/charts/db").await;
    let body = String::from_utf8(payload("harbor.json")).unwrap();
    let client = Client::new();
    let flood = (0..PUSHES).map(|number| {
        let body = body.replace("1.2.3", &format!("2.0.{number}"));
        status(client.post(&url).bearer_auth(TOKEN).body(body))
    });
    let started = Instant::now();
    assert_eq!(join_all(flood).await, vec![202; PUSHES]);
    until_polled(kubectl, "web", None).await;
    let polled = started.elapsed();
    let receiver = until(kubectl, "receiver/burst", |receiver| {
        let pushes = &receiver["status"]["pushes"];
        ensure!(pushes.as_array().is_none_or(Vec::is_empty), "{pushes} wait");
        Ok(())
    })
    .await;
    let writes = receiver["status"]["handledPush"].as_i64().unwrap();
    println!("{PUSHES} pushes polled their chart after {polled:?}; {writes} were recorded");
    // The first write is immediate, and then there is one in a second.
    let most = i64::try_from(started.elapsed().as_secs()).unwrap() + 2;
    assert!((1..=most).contains(&writes), "{receiver}");
    assert_eq!(poll_of(kubectl, "db").await, None, "no push has named its chart");
}

/// Sends valid requests one after the other, until `stop`. Returns their statuses.
async fn flood(client: Client, url: String, next: Arc<AtomicUsize>, stop: CancellationToken) -> Vec<u16> {
    let body = String::from_utf8(payload("dockerhub.json")).unwrap();
    let mut statuses = Vec::new();
    while !stop.is_cancelled() {
        let number = next.fetch_add(1, Ordering::Relaxed);
        let body = body.replace("1.2.3", &format!("3.0.{number}"));
        // Of 300 connections, the server closes some.
        let sent = client.post(&url).bearer_auth(TOKEN).body(body).send().await;
        let status = sent.map_or(0, |response| response.status().as_u16());
        statuses.push(status);
        if status != 202 {
            // Without a pause, the machine would do nothing else.
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }
    statuses
}

/// A client at the address of an Ingress. It is not that of other tests: where one address fills the port, its own connections are closed.
fn behind_an_ingress() -> Client {
    let ingress = IpAddr::from([127, 0, 7, 1]);
    Client::builder().local_address(ingress).build().unwrap()
}

/// More valid requests to one Receiver than there are connections, from the same address as genuine ones, as through an Ingress.
#[tokio::test]
async fn a_flood_to_one_receiver_delays_no_push_of_another() {
    const FLOOD: usize = 300;
    const PUSHES: usize = 5;
    let suite = suite().await;
    let namespace = TestNamespace::create(&suite.bed, "flood").await.unwrap();
    let kubectl = namespace.kubectl();
    // A type that no other test uses in this number.
    let flooded = create(kubectl, "flooded", &json!({ "type": "dockerhub" })).await;
    let honest = create(kubectl, "honest", &json!({ "type": "quay" })).await;
    create_helmop(kubectl, "flooded", "docker.io/example/web").await;
    create_helmop(kubectl, "web", "quay.io/charts/web").await;
    create_helmop(kubectl, "db", "other.example/charts/db").await;
    let push = async |number: usize| {
        let before = poll_of(kubectl, "web").await;
        let started = Instant::now();
        let send = || {
            behind_an_ingress()
                .post(&honest)
                .bearer_auth(TOKEN)
                .body(quay(number))
                .send()
        };
        // A proxy connects again if the server has closed the connection before it has read the request.
        eventually("the push to be accepted", Duration::from_secs(30), async || {
            let status = send().await?.status();
            ensure!([200, 202].contains(&status.as_u16()), "it is {status}");
            Ok(())
        })
        .await
        .unwrap();
        until_polled(kubectl, "web", before.as_deref()).await;
        started.elapsed()
    };
    let mut before = Duration::ZERO;
    for number in 0..PUSHES {
        before = before.max(push(number).await);
    }
    let (client, next, stop) = (behind_an_ingress(), Arc::default(), CancellationToken::new());
    let mut requests = JoinSet::new();
    let started = Instant::now();
    for _ in 0..FLOOD {
        requests.spawn(flood(
            client.clone(),
            flooded.clone(),
            Arc::clone(&next),
            stop.clone(),
        ));
    }
    eventually(
        "more requests than may wait",
        Duration::from_secs(30),
        async || {
            let busy = suite.count("dockerhub", "busy").await;
            ensure!(busy >= 100.0, "{busy} do not wait");
            Ok(())
        },
    )
    .await
    .unwrap();
    let mut during = Duration::ZERO;
    for number in PUSHES..2 * PUSHES {
        during = during.max(push(number).await);
    }
    stop.cancel();
    let statuses = requests.join_all().await.concat();
    let elapsed = started.elapsed();
    let count = |status: u16| statuses.iter().filter(|one| **one == status).count();
    println!(
        "a push led to a poll after {before:?}, beside {FLOOD} valid requests at a time after {during:?}; of {} within {elapsed:?}, {} were \
         accepted, {} did not wait and {} had no connection",
        statuses.len(),
        count(202),
        count(503),
        count(0)
    );
    assert!(during < bound(before), "{before:?} {during:?}");
    assert!(statuses.iter().all(|status| [0, 202, 503].contains(status)));
    // A quarter of the connections, for each write.
    let seconds = usize::try_from(elapsed.as_secs()).unwrap() + 2;
    assert!(count(202) <= 64 * seconds, "{}", count(202));
    assert!(count(503) >= 100, "{}", count(503));
    until_polled(kubectl, "flooded", None).await;
    assert_eq!(poll_of(kubectl, "db").await, None, "no push has named its chart");
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
