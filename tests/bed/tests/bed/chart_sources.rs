//! Chart repositories, and the test server for them.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use helmops_bed::chart_server::{ChartServer, FixedResponse};
use helmops_bed::charts::ChartRepo;
use helmops_bed::probe;
use helmops_bed::tools::Tools;
use helmops_bed::wait::eventually;
use reqwest::StatusCode;
use reqwest::header::{ETAG, IF_NONE_MATCH};
use tempfile::TempDir;

const INDEX: &str = "/index.yaml";

fn folder() -> Result<TempDir> {
    let folder = TempDir::new()?;
    std::fs::write(folder.path().join("index.yaml"), "entries: {}\n")?;
    Ok(folder)
}

#[tokio::test]
async fn helm_creates_the_repository_and_new_versions() {
    let tools = Tools::prepare().await.unwrap();
    let folder = TempDir::new().unwrap();
    let charts = [("alpine", ["0.1.0", "0.2.0"].as_slice()), ("nginx", &["1.1.0"])];
    let repo = ChartRepo::build(&tools, folder.path(), &charts).await.unwrap();
    let files = || {
        let mut names: Vec<_> = std::fs::read_dir(repo.folder())
            .unwrap()
            .flatten()
            .map(|file| file.file_name())
            .collect();
        names.sort();
        names
    };
    let index = || std::fs::read_to_string(folder.path().join("index.yaml")).unwrap();
    assert_eq!(
        files(),
        [
            "alpine-0.1.0.tgz",
            "alpine-0.2.0.tgz",
            "index.yaml",
            "nginx-1.1.0.tgz"
        ]
    );
    assert!(
        index().contains("  nginx:") && index().contains("    version: 0.2.0\n"),
        "{}",
        index()
    );

    repo.add_version("nginx", "1.2.0-rc.1").await.unwrap();
    assert!(files().contains(&"nginx-1.2.0-rc.1.tgz".into()));
    assert!(index().contains("    version: 1.2.0-rc.1\n") && index().contains("    version: 1.1.0\n"));
}

#[tokio::test]
async fn requests_are_counted_by_path_and_status() {
    let folder = folder().unwrap();
    let server = ChartServer::http(folder.path()).await.unwrap();
    let client = probe::client(None).unwrap();
    let url = format!("{}{INDEX}", server.url());
    let first = client.get(&url).send().await.unwrap();
    let tag = first.headers()[ETAG].clone();
    assert_eq!(first.text().await.unwrap(), "entries: {}\n");
    let again = client.get(&url).header(IF_NONE_MATCH, tag).send().await.unwrap();
    assert_eq!(again.status(), StatusCode::NOT_MODIFIED);
    let missing = client
        .get(format!("{}/x.tgz", server.url()))
        .send()
        .await
        .unwrap();
    assert_eq!(missing.status(), StatusCode::NOT_FOUND);

    assert_eq!(server.requests(INDEX), 2);
    assert_eq!(server.responses(INDEX, StatusCode::OK), 1);
    assert_eq!(server.responses(INDEX, StatusCode::NOT_MODIFIED), 1);
    assert_eq!(server.requests("/x.tgz"), 1);
    assert_eq!(server.requests("/never"), 0);
}

#[tokio::test]
async fn a_login_is_required_and_checked() {
    let folder = folder().unwrap();
    let server = ChartServer::http(folder.path()).await.unwrap();
    server.require_login("robot", "s3cret");
    let client = probe::client(None).unwrap();
    let get = || client.get(format!("{}{INDEX}", server.url()));
    let status = async |request: reqwest::RequestBuilder| request.send().await.unwrap().status();
    assert_eq!(status(get()).await, StatusCode::UNAUTHORIZED);
    assert_eq!(
        status(get().basic_auth("robot", Some("other"))).await,
        StatusCode::UNAUTHORIZED
    );
    assert_eq!(
        status(get().basic_auth("robot", Some("s3cret"))).await,
        StatusCode::OK
    );
    assert_eq!(server.responses(INDEX, StatusCode::UNAUTHORIZED), 2);
}

#[tokio::test]
async fn only_clients_with_the_ca_trust_the_https_server() {
    let folder = folder().unwrap();
    let server = ChartServer::https(folder.path()).await.unwrap();
    let url = format!("{}{INDEX}", server.url());
    let trusting = probe::client(server.ca()).unwrap();
    assert_eq!(probe::get(&trusting, &url).await.unwrap(), "entries: {}\n");

    let other = ChartServer::https(folder.path()).await.unwrap();
    let mistrusting = probe::client(other.ca()).unwrap();
    assert!(probe::get(&mistrusting, &url).await.is_err());
    assert_eq!(server.requests(INDEX), 1);
}

#[tokio::test]
async fn a_fixed_response_can_be_set_and_removed() {
    let folder = folder().unwrap();
    let server = ChartServer::http(folder.path()).await.unwrap();
    let client = probe::client(None).unwrap();
    let url = format!("{}{INDEX}", server.url());
    server.set_response(INDEX, unavailable());
    let response = client.get(&url).send().await.unwrap();
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(response.headers()["content-type"], "text/html");
    assert_eq!(response.text().await.unwrap(), "<h1>later</h1>");
    server.reset_response(INDEX);
    assert_eq!(probe::get(&client, &url).await.unwrap(), "entries: {}\n");
}

#[tokio::test]
async fn a_closed_server_refuses_connections_until_it_is_reopened() {
    let folder = folder().unwrap();
    let mut server = ChartServer::http(folder.path()).await.unwrap();
    let client = probe::client(None).unwrap();
    let url = format!("{}{INDEX}", server.url());
    probe::get(&client, &url).await.unwrap();
    server.close().await;
    // A process that another test starts inherits the listener until it executes its program, so the first connections can be
    // reset instead. A client without a connection: the other one could get an error from its closed connection.
    eventually("connections to be refused", Duration::from_secs(10), async || {
        let fresh = probe::client(None)?;
        let error = fresh
            .get(&url)
            .send()
            .await
            .err()
            .context("the server responds")?;
        ensure!(error.is_connect(), "{error}");
        Ok(())
    })
    .await
    .unwrap();
    server.reopen().await.unwrap();
    probe::get(&client, &url).await.unwrap();
    assert_eq!(server.requests(INDEX), 2);
}

fn unavailable() -> FixedResponse {
    FixedResponse {
        status: StatusCode::SERVICE_UNAVAILABLE,
        content_type: "text/html",
        body: "<h1>later</h1>".into(),
    }
}
