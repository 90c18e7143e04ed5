//! A registry with more tags than fit into memory.

use std::fmt::Write;

use anyhow::Result;
use axum::body::Body;
use axum::http::{StatusCode, header};
use axum::response::Response;
use serde_json::json;

use crate::attack::{Attack, run, until_steady};
use crate::environment::Mode;
use crate::hostile_server::{ADDRESS, HostileServer};

/// The largest number on a page.
const TAGS: usize = 100_000;
/// The largest number of pages that are read.
const PAGES: usize = 100;
const REPOSITORY: &str = "/v2/charts/web/tags/list";

#[test]
fn millions_of_tags_beside_fleet() {
    run(Mode::BesideFleet, "registry of 10 million tags", millions_of_tags);
}

#[test]
fn millions_of_tags_standalone() {
    run(Mode::Standalone, "registry of 10 million tags", millions_of_tags);
}

async fn millions_of_tags(attack: &mut Attack<'_>) -> Result<()> {
    let registry = HostileServer::serve(ADDRESS, |path| page(&path)).await?;
    let access = json!({ "metadata": { "name": "access" }, "stringData": { "basicHTTP": "true" } });
    attack.create_core("secrets", access).await?;
    let repo = format!("oci://{}/charts/web", registry.address);
    let spec = json!({ "helm": { "repo": repo, "version": ">=0.0.0" }, "helmSecretName": "access" });
    attack.create("helmops", "tags", spec).await?;
    // A killed controller requests no more pages, and neither does one that has reached its limit.
    attack
        .neighbour_works_during(until_steady(|| registry.requests()))
        .await;
    attack.check(registry.requests() > 0, "no request to the registry");
    Ok(())
}

fn page(path: &str) -> Response {
    if !path.starts_with(REPOSITORY) {
        return Response::new(Body::empty());
    }
    let last = path.split("last=").nth(1).and_then(|rest| rest.split('&').next());
    let number: usize = last.and_then(|last| last.parse().ok()).unwrap_or_default();
    let mut body = String::with_capacity(TAGS * 16);
    body.push_str(r#"{"name":"charts/web","tags":["#);
    for tag in 0..TAGS {
        let comma = if tag == 0 { "" } else { "," };
        let _ = write!(body, "{comma}\"1.{number}.{tag}\"");
    }
    body.push_str("]}");
    let mut response = Response::builder()
        .status(StatusCode::OK)
        .header(header::CONTENT_TYPE, "application/json");
    if number + 1 < PAGES {
        let next = format!("<{REPOSITORY}?last={}>; rel=\"next\"", number + 1);
        response = response.header(header::LINK, next);
    }
    response.body(Body::from(body)).unwrap()
}
