//! GitLab: pushes to Git repositories. It has no event for packages or images, so events of the pipeline that publishes them count.

use serde::Deserialize;

use super::{BodyError, json};
use crate::push::{headers::Headers, repository::Announcement};

const EVENT: &str = "X-Gitlab-Event";

#[derive(Deserialize)]
struct Body {
    #[serde(default, rename = "ref")]
    reference: String,
    #[serde(default)]
    tag: serde_json::Value,
    #[serde(default)]
    action: serde_json::Value,
    project: Project,
    #[serde(default)]
    object_attributes: Option<Attributes>,
    #[serde(default)]
    checkout_sha: Option<serde_json::Value>,
}

#[derive(Deserialize)]
struct Project {
    #[serde(default)]
    id: Option<u64>,
    path_with_namespace: String,
}

#[derive(Deserialize)]
struct Attributes {
    #[serde(default)]
    status: serde_json::Value,
    #[serde(default, rename = "ref")]
    reference: String,
    #[serde(default)]
    tag: serde_json::Value,
}

pub(super) fn read(
    events: &[String],
    headers: &Headers<'_>,
    body: &[u8],
) -> Result<Vec<Announcement>, BodyError> {
    let event = headers.text(EVENT).ok_or(BodyError::Header(EVENT))?;
    let is_listed = events.iter().any(|listed| listed == event);
    let is_default = events.is_empty() && matches!(event, "Pipeline Hook" | "Release Hook" | "Tag Push Hook");
    let is_push = matches!(event, "Push Hook" | "Tag Push Hook");
    if !is_listed && !(events.is_empty() && (is_push || is_default)) {
        return Ok(Vec::new());
    }
    let body: Body = json(body)?;
    let tag = match event {
        // A pipeline reports each of its states; charts are there when it has succeeded.
        "Pipeline Hook" => match &body.object_attributes {
            Some(attributes) if attributes.status == "success" => {
                if attributes.tag == true {
                    &*attributes.reference
                } else {
                    ""
                }
            }
            _ => return Ok(Vec::new()),
        },
        "Release Hook" if body.action == "delete" => return Ok(Vec::new()),
        "Release Hook" => body.tag.as_str().unwrap_or_default(),
        // The commit of a branch or a tag that was deleted is null.
        _ if is_push && body.checkout_sha.as_ref().is_none_or(serde_json::Value::is_null) => {
            return Ok(Vec::new());
        }
        "Tag Push Hook" => body.reference.strip_prefix("refs/tags/").unwrap_or_default(),
        _ => "",
    };
    let path = &body.project.path_with_namespace;
    let mut announced = Vec::new();
    if is_push || is_listed {
        announced.extend(Announcement::of_git(path, &body.reference));
    }
    if is_listed || is_default {
        announced.extend(published(&body.project, tag));
    }
    if announced.is_empty() {
        return Err(BodyError::Repository("project.path_with_namespace"));
    }
    Ok(announced)
}

/// The container registry of a project is below its path, on a host that the request does not name; its package registry is below its number
/// or its encoded path.
fn published(project: &Project, tag: &str) -> Vec<Announcement> {
    let path = &project.path_with_namespace;
    let Some(registry) = Announcement::below(path, tag) else {
        return Vec::new();
    };
    let encoded = path.trim_matches('/').replace('/', "%2F");
    let names = project.id.map(|id| id.to_string()).into_iter().chain([encoded]);
    let packages = names.filter_map(|name| Announcement::below(&format!("api/v4/projects/{name}"), tag));
    std::iter::once(registry).chain(packages).collect()
}
