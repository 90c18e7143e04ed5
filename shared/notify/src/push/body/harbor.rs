//! Harbor: its own payload, and CloudEvents.

use serde::Deserialize;

use super::{BodyError, bounded::Bounded, json};
use crate::push::repository::Announcement;

#[derive(Deserialize)]
struct Body {
    r#type: String,
    #[serde(default)]
    event_data: Option<Data>,
    #[serde(default)]
    data: Option<Data>,
}

#[derive(Deserialize)]
struct Data {
    #[serde(default)]
    resources: Bounded<Resource>,
    #[serde(default)]
    repository: Repository,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Resource {
    tag: String,
    resource_url: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Repository {
    repo_full_name: String,
}

pub(super) fn read(body: &[u8]) -> Result<Vec<Announcement>, BodyError> {
    let body: Body = json(body)?;
    let data = match &*body.r#type {
        "PUSH_ARTIFACT" => body.event_data.ok_or(BodyError::Missing("event_data"))?,
        "harbor.artifact.pushed" => body.data.ok_or(BodyError::Missing("data"))?,
        // A pull, a deletion, a scan, a quota.
        _ => return Ok(Vec::new()),
    };
    let pushed = data.resources.0.iter().filter_map(|resource| {
        // With a host that differs from the one that HelmOps use, this would name no HelmOp: it is the external URL of Harbor.
        Announcement::of_image(&resource.resource_url, &resource.tag)
    });
    let mut pushed: Vec<_> = pushed.collect();
    pushed.dedup();
    if pushed.is_empty() {
        let repository = &data.repository.repo_full_name;
        pushed.extend(Announcement::of(repository, ""));
    }
    if pushed.is_empty() {
        return Err(BodyError::Repository("event_data.resources[].resource_url"));
    }
    Ok(pushed)
}
