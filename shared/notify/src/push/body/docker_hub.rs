//! Docker Hub.

use serde::Deserialize;

use super::{BodyError, json, one};
use crate::push::repository::Announcement;

#[derive(Deserialize)]
struct Body {
    #[serde(default)]
    push_data: PushData,
    repository: Repository,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PushData {
    tag: String,
}

#[derive(Deserialize)]
struct Repository {
    repo_name: String,
}

pub(super) fn read(body: &[u8]) -> Result<Vec<Announcement>, BodyError> {
    let body: Body = json(body)?;
    let repository = format!("docker.io/{}", body.repository.repo_name);
    one(
        Announcement::of(&repository, &body.push_data.tag),
        "repository.repo_name",
    )
}
