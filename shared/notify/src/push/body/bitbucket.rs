//! Bitbucket Cloud, and Bitbucket Data Center, whose payload is another one.

use serde::Deserialize;
use serde_json::Value;

use super::{BodyError, bounded::Bounded, json};
use crate::push::{headers::Headers, repository::Announcement};

const EVENT: &str = "X-Event-Key";

#[derive(Deserialize)]
struct CloudBody {
    push: CloudPush,
    repository: CloudRepository,
}

#[derive(Deserialize)]
struct CloudPush {
    #[serde(default)]
    changes: Bounded<CloudChange>,
}

#[derive(Deserialize)]
struct CloudChange {
    /// What a branch or a tag is now; `null` if it was deleted.
    #[serde(default)]
    new: Value,
}

#[derive(Deserialize)]
struct CloudRepository {
    full_name: String,
}

#[derive(Deserialize)]
struct ServerBody {
    #[serde(default)]
    changes: Bounded<ServerChange>,
    repository: ServerRepository,
}

#[derive(Deserialize)]
struct ServerChange {
    #[serde(default)]
    r#type: String,
}

#[derive(Deserialize)]
struct ServerRepository {
    slug: String,
    project: Project,
}

#[derive(Deserialize)]
struct Project {
    key: String,
}

pub(super) fn read(headers: &Headers<'_>, body: &[u8]) -> Result<Vec<Announcement>, BodyError> {
    match headers.text(EVENT).ok_or(BodyError::Header(EVENT))? {
        "repo:push" => {
            let body: CloudBody = json(body)?;
            let is_change = |change: &CloudChange| !change.new.is_null();
            if !body.push.changes.0.iter().any(is_change) {
                return Ok(Vec::new());
            }
            let pushed = Announcement::of_git(&body.repository.full_name, "");
            super::one(pushed, "repository.full_name")
        }
        "repo:refs_changed" => {
            let body: ServerBody = json(body)?;
            if body.changes.0.iter().all(|change| change.r#type == "DELETE") {
                return Ok(Vec::new());
            }
            let ServerRepository { slug, project } = &body.repository;
            let pushed = Announcement::of_git(&format!("{}/{slug}", project.key), "");
            super::one(pushed, "repository.slug")
        }
        // A test of the connection, a pull request, a comment.
        _ => Ok(Vec::new()),
    }
}
