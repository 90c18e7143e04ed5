//! Sonatype Nexus Repository: components and assets.

use serde::Deserialize;

use super::{BodyError, json, one};
use crate::push::repository::Announcement;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Body {
    #[serde(default)]
    repository_name: String,
    #[serde(default)]
    action: String,
    component: Option<Content>,
    asset: Option<Content>,
}

#[derive(Deserialize)]
struct Content {
    #[serde(default)]
    format: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    version: Option<String>,
}

pub(super) fn read(body: &[u8]) -> Result<Vec<Announcement>, BodyError> {
    let body: Body = json(body)?;
    let Some(content) = body.component.or(body.asset) else {
        // Events of a repository itself, or of users.
        return Ok(Vec::new());
    };
    if !matches!(&*body.action, "CREATED" | "UPDATED") {
        return Ok(Vec::new());
    }
    let tag = content.version.as_deref().unwrap_or_default();
    if content.format == "docker" {
        // A registry has a port of its own, which the request does not name. The asset of a manifest has a longer path.
        let name = content.name.strip_prefix("v2/").unwrap_or(&content.name);
        let name = name.split_once("/manifests/").map_or(name, |(name, _)| name);
        return one(Announcement::of_suffix(name, tag), "component.name");
    }
    let repository = format!("repository/{}", body.repository_name);
    let is_named = !body.repository_name.is_empty();
    one(
        is_named
            .then(|| Announcement::of_suffix(&repository, tag))
            .flatten(),
        "repositoryName",
    )
}
