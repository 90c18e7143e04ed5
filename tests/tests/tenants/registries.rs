//! A registry with more tags than there is memory.

use std::fmt::Write;

use anyhow::Result;
use axum::body::Body;
use axum::http::{StatusCode, header};
use axum::response::Response;
use serde_json::json;

use crate::bed::Mode;
use crate::hostile::{ADDRESS, Hostile};
use crate::stage::{Stage, run, until_steady};

/// As many as a page may have.
const TAGS: usize = 100_000;
/// As many as are read.
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

async fn millions_of_tags(stage: &mut Stage<'_>) -> Result<()> {
    let registry = Hostile::serve(ADDRESS, |path| page(&path)).await?;
    let access = json!({ "metadata": { "name": "access" }, "stringData": { "basicHTTP": "true" } });
    stage.create_core("secrets", access).await?;
    let repo = format!("oci://{}/charts/web", registry.address);
    let spec = json!({ "helm": { "repo": repo, "version": ">=0.0.0" }, "helmSecretName": "access" });
    stage.create("helmops", "tags", spec).await?;
    // A killed controller asks for no more pages, and neither does one that has enough.
    stage
        .neighbour_works_during(until_steady(|| registry.requests()))
        .await;
    stage.check(registry.requests() > 0, "the registry was not asked");
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
