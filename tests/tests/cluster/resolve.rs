//! The way to repositories: certificates, logins, outages.

use axum::http::StatusCode;
use helmops_tests::chart_server::{ChartServer, Fixed};
use helmops_tests::namespace::TestNamespace;
use serde_json::{Value, json};

use crate::suite::{assert_no_bundle, helmop, suite, until_accepted, until_refused, until_version};

async fn setting(tls: bool) -> (TestNamespace, ChartServer) {
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

async fn apply(namespace: &TestNamespace, server: &ChartServer, over: &Value) {
    let mut spec = json!({ "helm": { "repo": server.url(), "chart": "alpine", "version": "0.x" } });
    spec.as_object_mut()
        .unwrap()
        .extend(over.as_object().unwrap().clone());
    namespace
        .kubectl()
        .apply(&helmop("web", &spec))
        .await
        .unwrap()
        .ok()
        .unwrap();
}

async fn secret(namespace: &TestNamespace, data: Value) {
    let secret =
        json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "access" }, "stringData": data });
    namespace
        .kubectl()
        .apply(&secret.to_string())
        .await
        .unwrap()
        .ok()
        .unwrap();
}

/// Facts I19 and I20.
#[tokio::test]
async fn an_unknown_authority_is_told_and_can_be_waived() {
    let (namespace, server) = setting(true).await;
    apply(&namespace, &server, &json!({})).await;
    let message = until_refused(&namespace, "web", "CertificateError").await;
    assert!(
        message.contains("x509: certificate signed by unknown authority") && message.contains("cacerts"),
        "{message}"
    );
    assert_no_bundle(&namespace, "web").await;
    apply(&namespace, &server, &json!({ "insecureSkipTLSVerify": true })).await;
    let bundle = until_version(&namespace, "web", "0.2.0").await;
    assert_eq!(
        bundle["spec"]["helmOpOptions"],
        json!({ "helmOpInsecureSkipTLSVerify": true })
    );
}

/// Facts I21, I22 and I23.
#[tokio::test]
async fn a_repository_with_a_login() {
    let (namespace, server) = setting(false).await;
    server.require_login("reader", "geheim");
    apply(&namespace, &server, &json!({})).await;
    let message = until_refused(&namespace, "web", "Unauthorized").await;
    assert!(
        message.contains("error code: 401") && message.contains("helmSecretName"),
        "{message}"
    );
    assert_no_bundle(&namespace, "web").await;

    apply(&namespace, &server, &json!({ "helmSecretName": "access" })).await;
    let message = until_refused(&namespace, "web", "SecretNotFound").await;
    assert!(
        message.contains("Secret access does not exist in namespace"),
        "{message}"
    );

    secret(&namespace, json!({ "username": "reader", "password": "wrong" })).await;
    let message = until_refused(&namespace, "web", "Unauthorized").await;
    assert!(!message.contains("wrong"), "{message}");

    secret(&namespace, json!({ "username": "reader", "password": "geheim" })).await;
    apply(
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

/// Facts I24.
#[tokio::test]
async fn a_login_and_a_private_authority() {
    let (namespace, server) = setting(true).await;
    server.require_login("reader", "geheim");
    let ca = server.ca().unwrap();
    secret(
        &namespace,
        json!({ "username": "reader", "password": "geheim", "cacerts": ca }),
    )
    .await;
    apply(&namespace, &server, &json!({ "helmSecretName": "access" })).await;
    until_version(&namespace, "web", "0.2.0").await;
}

#[tokio::test]
async fn a_secret_of_no_use_is_told() {
    let (namespace, server) = setting(true).await;
    secret(&namespace, json!({ "username": "reader" })).await;
    apply(&namespace, &server, &json!({ "helmSecretName": "access" })).await;
    let message = until_refused(&namespace, "web", "InvalidSecret").await;
    assert!(
        message.contains("username is set, but password isn't"),
        "{message}"
    );
    secret(&namespace, json!({ "password": "p", "cacerts": "no PEM" })).await;
    apply(
        &namespace,
        &server,
        &json!({ "helmSecretName": "access", "paused": true }),
    )
    .await;
    let message = until_refused(&namespace, "web", "InvalidSecret").await;
    assert!(message.contains("cacerts"), "{message}");
}

#[tokio::test]
async fn answers_that_are_no_index_are_told() {
    let (namespace, server) = setting(false).await;
    let page = |status, body: &str| Fixed {
        status,
        content_type: "text/html",
        body: body.to_owned(),
    };
    let answers = [
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
            "not valid YAML",
        ),
        (
            page(StatusCode::SERVICE_UNAVAILABLE, ""),
            "RepositoryError",
            "error code: 503",
        ),
    ];
    for (number, (answer, reason, words)) in answers.into_iter().enumerate() {
        server.fix("/index.yaml", answer);
        // A change, so that it is tried at once.
        apply(
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
    server.unfix("/index.yaml");
    until_version(&namespace, "web", "0.2.0").await;
}

#[tokio::test]
async fn a_repository_that_is_down_is_tried_again() {
    let (namespace, mut server) = setting(false).await;
    server.close().await;
    apply(&namespace, &server, &json!({})).await;
    let message = until_refused(&namespace, "web", "ConnectionFailed").await;
    assert!(message.contains("refused"), "{message}");
    server.reopen().await.unwrap();
    until_version(&namespace, "web", "0.2.0").await;
}

#[tokio::test]
async fn a_chart_that_is_not_there_is_told() {
    let (namespace, server) = setting(false).await;
    apply(
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
    let (namespace, server) = setting(false).await;
    server.require_login("reader", "geheim");
    let repo = server.url().replace("http://", "http://reader:geheim@");
    apply(
        &namespace,
        &server,
        &json!({ "helm": { "repo": repo, "chart": "alpine", "version": "7.x" } }),
    )
    .await;
    let message = until_refused(&namespace, "web", "NoMatchingVersion").await;
    assert!(!message.contains("geheim"), "{message}");
    apply(
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
async fn registries_take_exact_versions() {
    let (namespace, server) = setting(false).await;
    apply(
        &namespace,
        &server,
        &json!({ "helm": { "repo": "oci://127.0.0.1:1/charts/web", "version": "1.2.3" } }),
    )
    .await;
    until_version(&namespace, "web", "1.2.3").await;
    apply(
        &namespace,
        &server,
        &json!({ "helm": { "repo": "oci://127.0.0.1:1/charts/web", "version": "1.x" } }),
    )
    .await;
    let message = until_refused(&namespace, "web", "UnsupportedSource").await;
    assert!(message.contains("give an exact version"), "{message}");
    until_version(&namespace, "web", "1.2.3").await;
}

#[tokio::test]
async fn an_archive_needs_no_repository() {
    let (namespace, server) = setting(false).await;
    let archive = format!("{}/alpine-0.1.0.tgz", server.url());
    apply(&namespace, &server, &json!({ "helm": { "chart": archive } })).await;
    let helmop = until_accepted(&namespace, "web").await;
    assert_eq!(helmop["status"].get("version"), None);
    assert_eq!(server.requests("/index.yaml"), 0);
}
