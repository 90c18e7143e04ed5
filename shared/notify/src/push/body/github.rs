//! GitHub: packages, pushes to Git repositories, and other events that the Receiver names.

use serde::Deserialize;

use super::{BodyError, json};
use crate::push::{headers::Headers, repository::Announcement};

const EVENT: &str = "X-GitHub-Event";

#[derive(Deserialize)]
struct Body {
    #[serde(default)]
    action: String,
    #[serde(alias = "registry_package")]
    package: Option<Package>,
}

#[derive(Deserialize)]
struct Package {
    #[serde(default)]
    name: String,
    #[serde(default)]
    namespace: String,
    #[serde(rename = "package_version")]
    version: Option<Version>,
}

#[derive(Deserialize)]
struct Version {
    #[serde(default)]
    package_url: String,
    container_metadata: Option<Container>,
}

#[derive(Deserialize)]
struct Container {
    tag: Option<Tag>,
}

#[derive(Deserialize)]
struct Tag {
    #[serde(default)]
    name: String,
}

#[derive(Deserialize)]
struct Push {
    #[serde(default, rename = "ref")]
    reference: String,
    #[serde(default)]
    deleted: bool,
    repository: Repository,
}

#[derive(Deserialize)]
struct Repository {
    full_name: String,
}

pub(super) fn read(
    events: &[String],
    headers: &Headers<'_>,
    body: &[u8],
) -> Result<Vec<Announcement>, BodyError> {
    let event = headers.text(EVENT).ok_or(BodyError::Header(EVENT))?;
    let is_listed = events.iter().any(|listed| listed == event);
    match event {
        // GitHub sends it when a hook is created.
        "ping" => Ok(Vec::new()),
        "package" | "registry_package" if is_listed || events.is_empty() => package(body),
        "push" if events.is_empty() => push(body),
        // A push or a release, such as of the branch that GitHub serves as chart repository: it names no repository of charts.
        _ if is_listed => Ok(vec![Announcement::of_all()]),
        _ => Ok(Vec::new()),
    }
}

/// What runs from charts of a registry does not change by a push to Git, so only charts in Git are polled for it.
fn push(body: &[u8]) -> Result<Vec<Announcement>, BodyError> {
    let body: Push = json(body)?;
    if body.deleted {
        return Ok(Vec::new());
    }
    let pushed = Announcement::of_git(&body.repository.full_name, &body.reference);
    super::one(pushed, "repository.full_name")
}

fn package(body: &[u8]) -> Result<Vec<Announcement>, BodyError> {
    let body: Body = json(body)?;
    if !matches!(&*body.action, "published" | "updated") {
        return Ok(Vec::new());
    }
    let package = body.package.ok_or(BodyError::Missing("package"))?;
    let version = package.version.as_ref();
    let container = version.and_then(|version| version.container_metadata.as_ref());
    let tag = container.and_then(|container| container.tag.as_ref());
    let tag = tag.map_or("", |tag| &tag.name);
    let url = version.map_or("", |version| &version.package_url);
    // Without a tag, GitHub ends the URL with a colon.
    let by_url = Announcement::of_image(url.trim_end_matches(':'), tag);
    let announcement = by_url.or_else(|| {
        let (namespace, name) = (&package.namespace, &package.name);
        (!namespace.is_empty() && !name.is_empty())
            .then(|| Announcement::of(&format!("ghcr.io/{namespace}/{name}"), tag))
            .flatten()
    });
    super::one(announcement, "package.package_version.package_url")
}
