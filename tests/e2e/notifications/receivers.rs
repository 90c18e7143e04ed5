//! Receivers: a control plane with all of helmops, the notifier and the exposed process, with the permissions of the manifests.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bounded_text::hex;
use futures::future::join_all;
use helmops_bed::helmops::{self, NAMESPACE, ReceiverProcess, Running, Webhook};
use helmops_bed::kubectl::Kubectl;
use helmops_bed::metrics::Metrics;
use helmops_bed::namespace::TestNamespace;
use helmops_bed::oci_registry::OciRegistry;
use helmops_bed::random;
use helmops_bed::service_account::may;
use helmops_bed::test_bed::TestBed;
use helmops_bed::wait::eventually;
use reqwest::{Client, RequestBuilder, StatusCode};
use ring::hmac;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::OnceCell;

use super::google::KeyServer;
use crate::harness::{SOON, condition, helmop, until};

/// The namespace of HelmOps for the control plane itself.
const LOCAL: &str = "fleet-local";
pub const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// How fast a pushed chart runs on its cluster.
const FAST: Duration = Duration::from_secs(3);

/// The processes, two replicas of the exposed one.
pub struct Suite {
    pub bed: TestBed,
    pub receiver: ReceiverProcess,
    pub second: ReceiverProcess,
    pub notifier: Running,
    pub keys: KeyServer,
    _webhook: Webhook,
    _controller: Running,
    _agent: Running,
}

/// The suite; the first call starts it.
pub async fn suite() -> &'static Suite {
    static SUITE: OnceCell<Suite> = OnceCell::const_new();
    SUITE.get_or_try_init(Suite::start).await.unwrap()
}

impl Suite {
    async fn start() -> Result<Self> {
        let bed = helmops::local_control_plane(true).await?;
        helmops::apply_notifications(&bed.kubectl()).await?;
        let command = |program: &Path| bed.command(program);
        let webhook = helmops::start_webhook(&bed, "webhook", &command).await?;
        helmops::register_webhook(&bed.kubectl(), &webhook).await?;
        let keys = KeyServer::start().await?;
        let of_notifier = |program: &Path| {
            let mut command = bed.command(program);
            command.env("HELMOPS_GOOGLE_KEYS_URL", keys.url());
            command
        };
        Ok(Self {
            second: helmops::start_receiver(&bed, "receiver-2", &command).await?,
            receiver: helmops::start_receiver(&bed, "receiver", &command).await?,
            _controller: helmops::start_standalone_controller(&bed, "controller", &command).await?,
            _agent: helmops::start_local_agent(&bed, "agent", &command).await?,
            notifier: helmops::start_notifier(&bed, "notifier", &of_notifier).await?,
            _webhook: webhook,
            keys,
            bed,
        })
    }

    /// The number of requests with these labels.
    pub async fn count(&self, receiver_type: &str, result: &str) -> f64 {
        let metrics = Metrics::scrape(&format!("{}/metrics", self.receiver.running.admin))
            .await
            .unwrap();
        let labels = [("type", receiver_type), ("result", result)];
        metrics
            .sum("helmops_receiver_requests_total", &labels)
            .unwrap_or_default()
    }
}

/// A Receiver with a Secret.
pub fn receiver(name: &str, spec: &Value) -> String {
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": name },
        "stringData": { "token": TOKEN, "email": "pubsub@my-project.iam.gserviceaccount.com", "audience": "https://hooks.example/charts" },
    });
    let mut all = json!({ "secretRef": { "name": name } });
    json_patch::merge(&mut all, spec);
    let receiver = json!({
        "apiVersion": "helmops.fleet.cattle.io/v1alpha1", "kind": "Receiver", "metadata": { "name": name }, "spec": all,
    });
    format!("{secret}\n---\n{receiver}\n")
}

/// Creates a Receiver, and returns its URL.
pub async fn create(kubectl: &Kubectl, name: &str, spec: &Value) -> String {
    kubectl.apply(&receiver(name, spec)).await.unwrap().ok().unwrap();
    url(kubectl, name).await
}

/// The URL of a Receiver, when it accepts requests.
async fn url(kubectl: &Kubectl, name: &str) -> String {
    let receiver = until(kubectl, &format!("receiver/{name}"), |receiver| {
        let ready = condition(receiver, "Ready").context("no condition")?;
        ensure!(ready["status"] == "True", "it is {ready}");
        Ok(())
    })
    .await;
    served(&suite().await.receiver, &receiver).await
}

/// The URL of a Receiver at a replica, when it is served there.
pub async fn served(replica: &ReceiverProcess, receiver: &Value) -> String {
    let path = receiver["status"]["webhookPath"].as_str().unwrap();
    let url = format!("{}{path}", replica.url);
    // The Secret reaches the other process a moment later.
    eventually("the path to be served", SOON, async || {
        let status = Client::new().post(&url).send().await?.status();
        ensure!(status != StatusCode::NOT_FOUND, "it is not served yet");
        Ok(())
    })
    .await
    .unwrap();
    url
}

fn sign(algorithm: hmac::Algorithm, body: &[u8]) -> String {
    hex(hmac::sign(&hmac::Key::new(algorithm, TOKEN.as_bytes()), body).as_ref())
}

pub async fn status(request: RequestBuilder) -> u16 {
    request.send().await.unwrap().status().as_u16()
}

pub fn payload(file: &str) -> Vec<u8> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../shared/notify/src/push/body/testdata");
    std::fs::read(folder.join(file)).unwrap()
}

/// Waits until a push was handled, and returns how many HelmOps it has polled.
pub async fn until_handled(kubectl: &Kubectl, name: &str, push: i64) -> i64 {
    let receiver = until(kubectl, &format!("receiver/{name}"), |receiver| {
        let handled = receiver["status"]["handledPush"].as_i64().unwrap_or_default();
        ensure!(handled >= push, "{handled} is handled");
        Ok(())
    })
    .await;
    receiver["status"]["polled"].as_i64().unwrap_or_default()
}

/// Helm pushes a chart to a registry, the registry announces it, and the new version runs on the cluster. Nothing polls.
#[tokio::test]
async fn a_pushed_chart_runs_seconds_later_with_polling_off() {
    let suite = suite().await;
    let kubectl = suite.bed.kubectl().in_namespace(LOCAL);
    let name = format!("pushed-{}", random::word());
    let spec = json!({ "type": "distribution", "resources": [{ "name": name }] });
    let url = create(&kubectl, &name, &spec).await;
    let registry = OciRegistry::notifying(&suite.bed, &url, TOKEN).await.unwrap();
    registry.push("web", "0.1.0").await.unwrap();
    let access = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": format!("{name}-access") }, "stringData": { "basicHTTP": "true" },
    });
    kubectl.apply(&access.to_string()).await.unwrap().ok().unwrap();
    let spec = json!({
        "namespace": name,
        "pollingInterval": "0s",
        "helmSecretName": format!("{name}-access"),
        "helm": { "repo": format!("oci://{}/charts/web", registry.host), "version": "0.x" },
        "targets": [{ "clusterSelector": {} }],
    });
    kubectl.apply(&helmop(&name, &spec)).await.unwrap().ok().unwrap();
    let workload = suite.bed.kubectl().in_namespace(&name);
    until_runs(&workload, "0.1.0").await;

    let mut times = Vec::new();
    for version in ["0.2.0", "0.3.0", "0.4.0"] {
        registry.push("web", version).await.unwrap();
        let pushed = Instant::now();
        until_runs(&workload, version).await;
        times.push(pushed.elapsed());
    }
    println!("from the end of helm push to the objects of the new version: {times:?}");
    // The best of three: a busy machine delays one or two of them, and `until_runs` bounds those, but something that waits for a
    // timer or a poll delays all.
    let best = times.iter().min().unwrap();
    assert!(*best < FAST, "{times:?}");
    let receiver = kubectl.get(&format!("receiver/{name}")).await.unwrap().unwrap();
    assert_eq!(receiver["status"]["polled"], 1, "{receiver}");
}

/// Waits until the objects of a version of the chart are on the cluster. Tight, because a time is measured.
async fn until_runs(kubectl: &Kubectl, version: &str) {
    let deadline = Instant::now() + SOON;
    loop {
        let selector = format!("--selector=helm.sh/chart=web-{version}");
        let found = kubectl
            .run(&["get", "configmaps,deployments", &selector, "--output=name"])
            .await
            .unwrap();
        if found.ok().is_ok_and(|names| !names.trim().is_empty()) {
            return;
        }
        assert!(Instant::now() < deadline, "version {version} does not run");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A request as its registry documents it, and the chart that it is about.
struct Documented {
    receiver_type: &'static str,
    repo: &'static str,
    chart: &'static str,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
}

/// The documented requests of all types, with the proof of each.
fn documented() -> Vec<Documented> {
    let sha256 = |body: &[u8]| format!("sha256={}", sign(hmac::HMAC_SHA256, body));
    let sha1 = |body: &[u8]| sign(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, body);
    let bearer = || vec![("Authorization", format!("Bearer {TOKEN}"))];
    let basic = || {
        vec![(
            "Authorization",
            format!("Basic {}", BASE64_STANDARD.encode(format!("any:{TOKEN}"))),
        )]
    };
    let web = "oci://registry.example/charts/web";
    let generic = br#"{"repository":"registry.example/charts/web","tag":"1.2.3"}"#.to_vec();
    let (github, nexus) = (payload("github-package.json"), payload("nexus-component.json"));
    let of = |receiver_type, repo, headers, body| Documented {
        receiver_type,
        repo,
        chart: "",
        headers,
        body,
    };
    vec![
        of(
            "harbor",
            "oci://harbor.example/charts/web",
            vec![("Authorization", TOKEN.into())],
            payload("harbor.json"),
        ),
        of(
            "dockerhub",
            "oci://registry-1.docker.io/example/web",
            basic(),
            payload("dockerhub.json"),
        ),
        of("quay", "oci://quay.io/charts/web", basic(), payload("quay.json")),
        of(
            "github",
            "oci://ghcr.io/example/charts/web",
            vec![
                ("X-Hub-Signature-256", sha256(&github)),
                ("X-GitHub-Event", "package".into()),
            ],
            github,
        ),
        of(
            "gitlab",
            "oci://registry.gitlab.example/group/charts/web",
            vec![
                ("X-Gitlab-Token", TOKEN.into()),
                ("X-Gitlab-Event", "Pipeline Hook".into()),
            ],
            payload("gitlab-pipeline.json"),
        ),
        Documented {
            receiver_type: "nexus",
            repo: "https://nexus.example/repository/helm-hosted/",
            chart: "web",
            headers: vec![("X-Nexus-Webhook-Signature", sha1(&nexus))],
            body: nexus,
        },
        of(
            "acr",
            "oci://myregistry.azurecr.io/charts/web",
            bearer(),
            payload("acr-push.json"),
        ),
        of("cdevents", web, bearer(), payload("cdevents.json")),
        of(
            "distribution",
            "oci://registry.example:5000/charts/web",
            bearer(),
            payload("distribution.json"),
        ),
        of(
            "generic",
            web,
            vec![("X-Helmops-Token", TOKEN.into())],
            generic.clone(),
        ),
        of(
            "generic-hmac",
            web,
            vec![("X-Signature", sha256(&generic))],
            generic,
        ),
    ]
}

/// Each type accepts what its registry documents, with the proof of the type, and polls the HelmOp of the chart once.
#[tokio::test]
async fn documented_requests_of_each_type_poll_the_chart() {
    let suite = suite().await;
    let namespace = TestNamespace::create(&suite.bed, "types").await.unwrap();
    let kubectl = namespace.kubectl();
    for Documented {
        receiver_type,
        repo,
        chart,
        headers,
        body,
    } in documented()
    {
        let spec = json!({ "helm": { "repo": repo, "chart": chart, "version": "1.x" }, "targets": [{ "clusterSelector": {} }] });
        kubectl
            .apply(&helmop(receiver_type, &spec))
            .await
            .unwrap()
            .ok()
            .unwrap();
        let spec = json!({ "type": receiver_type, "resources": [{ "name": receiver_type }] });
        let url = create(kubectl, receiver_type, &spec).await;
        let without_proof = || Client::new().post(&url).body(body.clone());
        let send = || {
            headers.iter().fold(without_proof(), |request, (name, value)| {
                request.header(*name, value)
            })
        };
        assert_eq!(
            status(without_proof()).await,
            401,
            "{receiver_type} without a proof"
        );
        assert_eq!(status(send()).await, 202, "{receiver_type}");
        assert_eq!(
            until_handled(kubectl, receiver_type, 1).await,
            1,
            "{receiver_type}"
        );
        let helmop = kubectl
            .get(&format!("helmop/{receiver_type}"))
            .await
            .unwrap()
            .unwrap();
        let requested =
            helmop["metadata"]["annotations"]["helmops.fleet.cattle.io/poll-requested-at"].as_str();
        assert!(
            requested.is_some_and(|token| token.starts_with("push-")),
            "{receiver_type}: {helmop}"
        );
        assert_eq!(status(send()).await, 200, "{receiver_type}: a replay");
    }
}

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

/// What admission says about invalid Receivers, and what the status says about those whose Secret is wrong.
#[tokio::test]
async fn invalid_receivers_get_exact_errors() {
    let suite = suite().await;
    let namespace = TestNamespace::create(&suite.bed, "invalid").await.unwrap();
    let kubectl = namespace.kubectl();
    for (spec, expected) in [
        (
            json!({ "type": "harbour" }),
            "spec.type: Unsupported value: \"harbour\": supported types: harbor, dockerhub, quay",
        ),
        (
            json!({ "type": "harbor", "secretRef": { "name": "" } }),
            "spec.secretRef.name: Required value",
        ),
        (
            json!({ "type": "harbor", "events": ["push"] }),
            "spec.events: Forbidden: \"push\": requests of type harbor do not name their event",
        ),
        (
            json!({ "type": "generic", "resources": [{ "name": "" }] }),
            "spec.resources[0].name: Required value",
        ),
        (
            json!({ "type": "generic", "resources": [{ "name": "a_b" }] }),
            "spec.resources[0].name: Invalid value: \"a_b\"",
        ),
    ] {
        let output = kubectl.apply(&receiver("invalid", &spec)).await.unwrap();
        assert!(
            !output.status.success() && output.stderr.contains(expected),
            "{spec}: {}",
            output.stderr
        );
    }
    let ready = async |name: &str, reason: &str| {
        let receiver = until(kubectl, &format!("receiver/{name}"), |receiver| {
            let ready = condition(receiver, "Ready").context("no condition")?;
            ensure!(ready["reason"] == reason, "it is {ready}");
            Ok(())
        })
        .await;
        condition(&receiver, "Ready").unwrap()["message"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    let spec = json!({ "type": "generic", "secretRef": { "name": "other" } });
    kubectl
        .apply(&receiver("secretless", &spec))
        .await
        .unwrap()
        .ok()
        .unwrap();
    let message = ready("secretless", "SecretNotFound").await;
    assert!(
        message.contains("\"other\" does not exist; create it with the key \"token\""),
        "{message}"
    );
    let secret = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "other" }, "stringData": { "token": "short" } });
    kubectl.apply(&secret.to_string()).await.unwrap().ok().unwrap();
    let message = ready("secretless", "InvalidSecret").await;
    assert!(message.contains("has 5 bytes; use at least 16"), "{message}");
    let spec = json!({ "type": "generic", "resources": [{ "name": "*", "namespace": "default" }] });
    kubectl
        .apply(&receiver("elsewhere", &spec))
        .await
        .unwrap()
        .ok()
        .unwrap();
    let message = ready("elsewhere", "NamespaceForbidden").await;
    assert!(
        message.contains("spec.resources[0].namespace") && message.contains("--privileged-namespaces"),
        "{message}"
    );
    let spec = json!({ "type": "generic", "suspend": true });
    kubectl
        .apply(&receiver("suspended", &spec))
        .await
        .unwrap()
        .ok()
        .unwrap();
    ready("suspended", "Suspended").await;
}

/// A new token has a new path, and the old path is gone; so is that of a deleted Receiver.
#[tokio::test]
async fn a_new_token_changes_the_path_immediately() {
    let suite = suite().await;
    let namespace = TestNamespace::create(&suite.bed, "rotated").await.unwrap();
    let kubectl = namespace.kubectl();
    let old = create(kubectl, "rotated", &json!({ "type": "generic" })).await;
    let rotated = Instant::now();
    let patch = json!({ "stringData": { "token": "another token with more than 16 bytes" } }).to_string();
    kubectl
        .run(&["patch", "secret", "rotated", "--patch", &patch])
        .await
        .unwrap()
        .ok()
        .unwrap();
    let gone = async |url: &str| {
        eventually("the path to be gone", SOON, async || {
            let status = Client::new().post(url).bearer_auth(TOKEN).send().await?.status();
            ensure!(status == StatusCode::NOT_FOUND, "{status}");
            Ok(())
        })
        .await
        .unwrap();
    };
    gone(&old).await;
    println!(
        "the old path was gone {:?} after the change of the token",
        rotated.elapsed()
    );
    let new = url(kubectl, "rotated").await;
    assert_ne!(new, old);
    assert_eq!(
        status(Client::new().post(&new).bearer_auth(TOKEN)).await,
        401,
        "the old token"
    );
    let token = "another token with more than 16 bytes";
    assert_eq!(status(Client::new().post(&new).bearer_auth(token)).await, 202);
    kubectl
        .run(&["delete", "receiver", "rotated"])
        .await
        .unwrap()
        .ok()
        .unwrap();
    gone(&new).await;
}

/// What an attacker could do who controls the exposed process.
#[tokio::test]
async fn the_exposed_process_may_only_record_pushes() {
    let suite = suite().await;
    let everywhere = suite.bed.kubectl().in_namespace("default");
    let own = suite.bed.kubectl().in_namespace(NAMESPACE);
    for (kubectl, action, expected) in [
        (&everywhere, "get receivers.helmops.fleet.cattle.io", true),
        (
            &everywhere,
            "patch receivers.helmops.fleet.cattle.io --subresource=status",
            true,
        ),
        (&everywhere, "patch receivers.helmops.fleet.cattle.io", false),
        (&everywhere, "patch helmops.fleet.cattle.io", false),
        (&everywhere, "get helmops.fleet.cattle.io", false),
        (&everywhere, "get secrets", false),
        (&own, "list secrets", false),
        (&own, "get secrets/helmops-webhook-tls", false),
        (&own, "watch secrets/helmops-receivers", true),
        (&own, "update secrets/helmops-receivers", false),
        (&own, "create pods", false),
    ] {
        assert_eq!(
            may(kubectl, "helmops-receiver", action).await.unwrap(),
            expected,
            "{action}"
        );
    }
}
