//! Gitea and Forgejo, and Gogs, which sends the same with another header.

use serde::Deserialize;

use super::{BodyError, json};
use crate::push::{headers::Headers, repository::Announcement};

const EVENT: &str = "X-Gitea-Event";

#[derive(Deserialize)]
struct Push {
    #[serde(default, rename = "ref")]
    reference: String,
    #[serde(default)]
    after: String,
    repository: Repository,
}

#[derive(Deserialize)]
struct Repository {
    full_name: String,
}

pub(super) fn read(headers: &Headers<'_>, body: &[u8]) -> Result<Vec<Announcement>, BodyError> {
    let event = headers.text(EVENT).or_else(|| headers.text("X-Gogs-Event"));
    if event.ok_or(BodyError::Header(EVENT))? != "push" {
        return Ok(Vec::new());
    }
    let push: Push = json(body)?;
    // A deletion has no commit.
    if !push.after.is_empty() && push.after.bytes().all(|digit| digit == b'0') {
        return Ok(Vec::new());
    }
    let pushed = Announcement::of_git(&push.repository.full_name, &push.reference);
    super::one(pushed, "repository.full_name")
}
