//! Receivers: what a pushed chart does, which requests are accepted, and the errors of invalid ones.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bounded_text::hex;
use helmops_bed::git_server::GitServer;
use helmops_bed::helmops::NAMESPACE;
use helmops_bed::kubectl::Kubectl;
use helmops_bed::namespace::TestNamespace;
use helmops_bed::oci_registry::OciRegistry;
use helmops_bed::random;
use helmops_bed::service_account::may;
use helmops_bed::wait::eventually;
use reqwest::{Client, StatusCode};
use ring::hmac;
use serde_json::json;

use super::receiver_suite::{TOKEN, create, payload, receiver, served, status, suite, until_handled};
use crate::harness::{SOON, condition, helmop, until};

/// The namespace of HelmOps for the control plane itself.
const LOCAL: &str = "fleet-local";
/// Within what time a pushed chart runs on its cluster, also on a machine with other work: sooner than anything that is repeated.
const FAST: Duration = Duration::from_secs(10);

fn sign(algorithm: hmac::Algorithm, body: &[u8]) -> String {
    hex(hmac::sign(&hmac::Key::new(algorithm, TOKEN.as_bytes()), body).as_ref())
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
    // The median of three: a busy machine may delay one of them, but something that waits for a timer or a poll delays all.
    times.sort();
    assert!(times[1] < FAST, "{times:?}");
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
    let generic = br#"{"repository":"oci://registry.example/charts/web:1.2.3","tag":"1.2.3"}"#.to_vec();
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
            payload("harbor-replication.json"),
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

/// The same for Git servers.
fn documented_by_git_servers() -> Vec<Documented> {
    let (gitea, bitbucket) = (payload("gitea-push.json"), payload("bitbucket-server-push.json"));
    vec![
        Documented {
            receiver_type: "gitea",
            repo: "git@gitea.example:team/charts.git",
            chart: "",
            headers: vec![
                ("X-Gitea-Signature", sign(hmac::HMAC_SHA256, &gitea)),
                ("X-Gitea-Event", "push".into()),
            ],
            body: gitea,
        },
        Documented {
            receiver_type: "bitbucket",
            repo: "https://bitbucket.example/scm/team/charts.git",
            chart: "",
            headers: vec![
                (
                    "X-Hub-Signature",
                    format!("sha256={}", sign(hmac::HMAC_SHA256, &bitbucket)),
                ),
                ("X-Event-Key", "repo:refs_changed".into()),
            ],
            body: bitbucket,
        },
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
    } in documented().into_iter().chain(documented_by_git_servers())
    {
        let targets = json!([{ "clusterSelector": {} }]);
        let spec = if repo.strip_suffix(".git").is_some() {
            json!({ "chartSource": { "git": { "url": repo } }, "targets": targets })
        } else {
            json!({ "helm": { "repo": repo, "chart": chart, "version": "1.x" }, "targets": targets })
        };
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

/// A push to a Git repository runs on the cluster. Nothing polls, and the HelmOp of a Helm repository with the same path is not polled.
#[tokio::test]
async fn a_push_to_git_runs_seconds_later_with_polling_off() {
    let suite = suite().await;
    let kubectl = suite.bed.kubectl().in_namespace(LOCAL);
    let name = format!("git-{}", random::word());
    let url = create(&kubectl, &name, &json!({ "type": "github" })).await;
    let repository = GitServer::start().await.unwrap();
    let commit = |version: &str| {
        let chart = format!("apiVersion: v2\nname: web\nversion: {version}\n");
        let object = format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: web\n  labels:\n    helm.sh/chart: web-{version}\n"
        );
        let files = [
            ("charts/web/Chart.yaml", &*chart),
            ("charts/web/templates/web.yaml", &*object),
        ];
        repository.commit("main", &files).to_string()
    };
    commit("0.1.0");
    let targets = json!([{ "clusterSelector": {} }]);
    let spec = json!({
        "namespace": name,
        "pollingInterval": "0s",
        "chartSource": { "git": { "url": repository.url(), "path": "charts/web" } },
        "targets": targets,
    });
    kubectl.apply(&helmop(&name, &spec)).await.unwrap().ok().unwrap();
    let other = format!("{name}-helm");
    let spec =
        json!({ "helm": { "repo": repository.url(), "chart": "web", "version": "1.x" }, "targets": targets });
    kubectl.apply(&helmop(&other, &spec)).await.unwrap().ok().unwrap();
    let workload = suite.bed.kubectl().in_namespace(&name);
    until_runs(&workload, "0.1.0").await;

    let body = json!({
        "ref": "refs/heads/main",
        "after": commit("0.2.0"),
        "repository": { "full_name": "Team/charts" },
    })
    .to_string()
    .into_bytes();
    let request = Client::new()
        .post(&url)
        .header("X-GitHub-Event", "push")
        .header(
            "X-Hub-Signature-256",
            format!("sha256={}", sign(hmac::HMAC_SHA256, &body)),
        )
        .body(body);
    assert_eq!(status(request).await, 202);
    until_runs(&workload, "0.2.0").await;
    assert_eq!(until_handled(&kubectl, &name, 1).await, 1);
    let other = kubectl.get(&format!("helmop/{other}")).await.unwrap().unwrap();
    let requested = &other["metadata"]["annotations"]["helmops.fleet.cattle.io/poll-requested-at"];
    assert_eq!(requested, &serde_json::Value::Null, "{other}");
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
    // The status follows a moment after the path.
    let receiver = until(kubectl, "receiver/rotated", |receiver| {
        let shown = receiver["status"]["webhookPath"].as_str().unwrap_or_default();
        ensure!(!shown.is_empty() && !old.ends_with(shown), "it has {shown:?}");
        Ok(())
    })
    .await;
    let new = served(&suite.receiver, &receiver).await;
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
