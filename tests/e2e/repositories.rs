//! Access to repositories: certificates, logins, outages.

use anyhow::{Context, ensure};
use axum::http::StatusCode;
use base64::{Engine, prelude::BASE64_STANDARD as STANDARD};
use helmops_bed::chart_server::{ChartServer, FixedResponse};
use helmops_bed::charts::ChartRepo;
use helmops_bed::metrics::Metrics;
use helmops_bed::namespace::TestNamespace;
use helmops_bed::wait::eventually;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpListener;

use crate::harness::beside_fleet::{apply, assert_no_bundle, secret, suite, until_accepted, until_refused};
use crate::harness::{SOON, helmop, until_version};

async fn fixture(tls: bool) -> (TestNamespace, ChartServer) {
    let suite = suite().await;
    let namespace = TestNamespace::create(&suite.bed, "resolve").await.unwrap();
    let folder = suite.charts.folder();
    let server = if tls {
        ChartServer::https(folder).await
    } else {
        ChartServer::http(folder).await
    };
    (namespace, server.unwrap())
}

async fn apply_web(namespace: &TestNamespace, server: &ChartServer, over: &Value) {
    let mut spec = json!({ "helm": { "repo": server.url(), "chart": "alpine", "version": "0.x" } });
    spec.as_object_mut()
        .unwrap()
        .extend(over.as_object().unwrap().clone());
    apply(namespace, "web", &spec).await;
}

#[tokio::test]
async fn an_unknown_ca_is_reported_and_verification_can_be_skipped() {
    let (namespace, server) = fixture(true).await;
    apply_web(&namespace, &server, &json!({})).await;
    let message = until_refused(&namespace, "web", "CertificateError").await;
    assert!(
        message.contains("x509: certificate signed by unknown authority") && message.contains("cacerts"),
        "{message}"
    );
    assert_no_bundle(&namespace, "web").await;
    apply_web(&namespace, &server, &json!({ "insecureSkipTLSVerify": true })).await;
    let bundle = until_version(&namespace, "web", "0.2.0").await;
    assert_eq!(
        bundle["spec"]["helmOpOptions"],
        json!({ "helmOpInsecureSkipTLSVerify": true })
    );
}

#[tokio::test]
async fn a_login_is_required_and_used() {
    let (namespace, server) = fixture(false).await;
    server.require_login("reader", "geheim");
    apply_web(&namespace, &server, &json!({})).await;
    let message = until_refused(&namespace, "web", "Unauthorized").await;
    assert!(
        message.contains("error code: 401") && message.contains("helmSecretName"),
        "{message}"
    );
    assert_no_bundle(&namespace, "web").await;

    apply_web(&namespace, &server, &json!({ "helmSecretName": "access" })).await;
    let message = until_refused(&namespace, "web", "SecretNotFound").await;
    assert!(
        message.contains("Secret access does not exist in namespace"),
        "{message}"
    );

    secret(&namespace, json!({ "username": "reader", "password": "wrong" })).await;
    let message = until_refused(&namespace, "web", "Unauthorized").await;
    assert!(!message.contains("wrong"), "{message}");

    // As `--from-file` and `echo` leave it.
    secret(
        &namespace,
        json!({ "username": "reader", "password": "geheim\n" }),
    )
    .await;
    let spec = json!({ "helmSecretName": "access", "labels": { "attempt": "2" } });
    apply_web(&namespace, &server, &spec).await;
    let message = until_refused(&namespace, "web", "Unauthorized").await;
    assert!(
        message.contains("Secret access, and the password ends with a line break")
            && !message.contains("geheim"),
        "{message}"
    );

    secret(&namespace, json!({ "username": "reader", "password": "geheim" })).await;
    apply_web(
        &namespace,
        &server,
        &json!({ "helmSecretName": "access", "paused": true }),
    )
    .await;
    let bundle = until_version(&namespace, "web", "0.2.0").await;
    assert_eq!(
        bundle["spec"]["helmOpOptions"],
        json!({ "helmOpSecretName": "access" })
    );
    let helmop = until_accepted(&namespace, "web").await;
    assert!(!helmop.to_string().contains("geheim"));
}

#[tokio::test]
async fn a_login_and_a_private_ca_are_used() {
    let (namespace, server) = fixture(true).await;
    server.require_login("reader", "geheim");
    let ca = server.ca().unwrap();
    secret(
        &namespace,
        json!({ "username": "reader", "password": "geheim", "cacerts": ca }),
    )
    .await;
    apply_web(&namespace, &server, &json!({ "helmSecretName": "access" })).await;
    until_version(&namespace, "web", "0.2.0").await;
}

#[tokio::test]
async fn certificates_of_the_helmop_are_used_and_passed_on() {
    let (namespace, server) = fixture(true).await;
    let ca_bundle = STANDARD.encode(server.ca().unwrap());
    apply_web(&namespace, &server, &json!({ "caBundle": ca_bundle })).await;
    let bundle = until_version(&namespace, "web", "0.2.0").await;
    assert_eq!(
        bundle["spec"]["helmOpOptions"],
        json!({ "helmOpCABundle": ca_bundle })
    );
}

/// The host of the repository has no address.
#[tokio::test]
async fn a_proxy_of_the_secret_is_used() {
    let (namespace, server) = fixture(false).await;
    secret(&namespace, json!({ "proxyAddress": server.url() })).await;
    let repo = json!({ "helm": { "repo": "http://charts.invalid", "chart": "alpine", "version": "0.x" } });
    apply_web(&namespace, &server, &repo).await;
    until_refused(&namespace, "web", "DNSLookupFailed").await;
    let mut proxied = repo;
    proxied["helmSecretName"] = json!("access");
    apply_web(&namespace, &server, &proxied).await;
    until_version(&namespace, "web", "0.2.0").await;
}

#[tokio::test]
async fn an_invalid_secret_is_reported() {
    let (namespace, server) = fixture(true).await;
    secret(&namespace, json!({ "username": "reader" })).await;
    apply_web(&namespace, &server, &json!({ "helmSecretName": "access" })).await;
    let message = until_refused(&namespace, "web", "InvalidSecret").await;
    assert!(
        message.contains("username is set, but password isn't"),
        "{message}"
    );
    secret(&namespace, json!({ "password": "p", "cacerts": "no PEM" })).await;
    apply_web(
        &namespace,
        &server,
        &json!({ "helmSecretName": "access", "paused": true }),
    )
    .await;
    let message = until_refused(&namespace, "web", "InvalidSecret").await;
    assert!(message.contains("cacerts"), "{message}");
}

#[tokio::test]
async fn responses_without_a_valid_index_are_reported() {
    let (namespace, server) = fixture(false).await;
    let page = |status, body: &str| FixedResponse {
        status,
        content_type: "text/html",
        body: body.to_owned(),
    };
    let responses = [
        (
            page(StatusCode::NOT_FOUND, "<html>gone"),
            "RepositoryNotFound",
            "error code: 404",
        ),
        (
            page(StatusCode::OK, "<!DOCTYPE html><html>Sign in"),
            "InvalidIndex",
            "not a Helm repository index",
        ),
        (
            page(StatusCode::OK, "entries: {"),
            "InvalidIndex",
            "the index is cut off",
        ),
        (
            page(StatusCode::SERVICE_UNAVAILABLE, ""),
            "RepositoryError",
            "error code: 503",
        ),
    ];
    for (number, (response, reason, words)) in responses.into_iter().enumerate() {
        server.set_response("/index.yaml", response);
        // A change, so that it is tried immediately.
        apply_web(
            &namespace,
            &server,
            &json!({ "defaultNamespace": format!("try{number}") }),
        )
        .await;
        let message = until_refused(&namespace, "web", reason).await;
        assert!(
            message.contains(words) && !message.contains("<html>"),
            "{message}"
        );
    }
    server.reset_response("/index.yaml");
    until_version(&namespace, "web", "0.2.0").await;
}

#[tokio::test]
async fn a_repository_that_is_down_is_retried() {
    let (namespace, mut server) = fixture(false).await;
    server.close().await;
    apply_web(&namespace, &server, &json!({})).await;
    let message = until_refused(&namespace, "web", "ConnectionFailed").await;
    assert!(message.contains("refused"), "{message}");
    server.reopen().await.unwrap();
    until_version(&namespace, "web", "0.2.0").await;
}

#[tokio::test]
async fn a_missing_chart_is_reported() {
    let (namespace, server) = fixture(false).await;
    apply_web(
        &namespace,
        &server,
        &json!({ "helm": { "repo": server.url(), "chart": "redis" } }),
    )
    .await;
    let message = until_refused(&namespace, "web", "ChartNotFound").await;
    assert!(
        message.contains("no chart name found") && message.contains("redis"),
        "{message}"
    );
}

#[tokio::test]
async fn credentials_in_a_url_are_used_and_never_shown() {
    let (namespace, server) = fixture(false).await;
    server.require_login("reader", "geheim");
    let repo = server.url().replace("http://", "http://reader:geheim@");
    apply_web(
        &namespace,
        &server,
        &json!({ "helm": { "repo": repo, "chart": "alpine", "version": "7.x" } }),
    )
    .await;
    let message = until_refused(&namespace, "web", "NoMatchingVersion").await;
    assert!(!message.contains("geheim"), "{message}");
    apply_web(
        &namespace,
        &server,
        &json!({ "helm": { "repo": repo, "chart": "alpine", "version": "0.x" } }),
    )
    .await;
    let bundle = until_version(&namespace, "web", "0.2.0").await;
    assert!(!bundle["metadata"]["annotations"].to_string().contains("geheim"));
    let status = until_accepted(&namespace, "web").await["status"].to_string();
    assert!(!status.contains("geheim"), "{status}");
    assert!(!suite().await.controller.process.log().contains("geheim"));
}

#[tokio::test]
async fn an_archive_needs_no_repository() {
    let (namespace, server) = fixture(false).await;
    let archive = format!("{}/alpine-0.1.0.tgz", server.url());
    apply_web(&namespace, &server, &json!({ "helm": { "chart": archive } })).await;
    let helmop = until_accepted(&namespace, "web").await;
    assert_eq!(helmop["status"].get("version"), None);
    assert_eq!(server.requests("/index.yaml"), 0);
}

#[tokio::test]
async fn versions_resolve_as_in_helm() {
    let suite = suite().await;
    let namespace = TestNamespace::create(&suite.bed, "resolve").await.unwrap();
    let folder = TempDir::new().unwrap();
    let available = ["0.1.0", "0.2.0", "0.10.0", "1.0.0", "1.1.0+build.5", "1.2.0-rc.1"];
    let charts = ChartRepo::build(&suite.bed.tools, folder.path(), &[("web", &available)])
        .await
        .unwrap();
    let server = ChartServer::http(folder.path()).await.unwrap();
    let versions = [
        "",
        "*",
        "0.x",
        "~0.1",
        "^1.0",
        ">=0.2 <1",
        "0.1.0",
        "v0.1.0",
        "1.1.0",
        ">=1.2.0-0",
        "0.1 - 0.2",
        "<1 || >1.0",
    ];
    for (number, version) in versions.into_iter().enumerate() {
        let spec = json!({ "helm": { "repo": server.url(), "chart": "web", "version": version } });
        let object = helmop(&format!("web{number}"), &spec);
        namespace.kubectl().apply(&object).await.unwrap().ok().unwrap();
    }
    for (number, version) in versions.into_iter().enumerate() {
        let helms = charts
            .resolve_with_helm(&server.url(), "web", version)
            .await
            .unwrap();
        until_version(&namespace, &format!("web{number}"), &helms).await;
        let helmop = until_accepted(&namespace, &format!("web{number}")).await;
        let record = &helmop["status"]["resolved"][0];
        assert_eq!(record["digest"].as_str().unwrap().len(), 64, "{record}");
        assert_eq!(record["url"], format!("{}/web-{helms}.tgz", server.url()));
    }
}

/// More HelmOps than there are workers wait for a server that never responds: the kernel accepts the connections, and no
/// process reads from them.
#[tokio::test]
async fn a_slow_repository_delays_no_other_helmop() {
    let (namespace, server) = fixture(false).await;
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let silent_url = format!("http://{}", silent.local_addr().unwrap());
    let spec = json!({ "helm": { "repo": silent_url, "chart": "web" } });
    let objects: Vec<String> = (0..60)
        .map(|number| helmop(&format!("slow{number}"), &spec))
        .collect();
    namespace
        .kubectl()
        .apply(&objects.join("\n---\n"))
        .await
        .unwrap()
        .ok()
        .unwrap();
    eventually("a request to wait for it", SOON, async || {
        let metrics = Metrics::scrape(&format!("{}/metrics", suite().await.controller.admin)).await?;
        let waiting = metrics
            .sum("helmops_fetch_in_flight", &[])
            .context("no such metric")?;
        ensure!(waiting >= 1.0, "no request waits");
        Ok(())
    })
    .await
    .unwrap();
    apply_web(&namespace, &server, &json!({})).await;
    until_version(&namespace, "web", "0.2.0").await;
    drop(silent);
}
