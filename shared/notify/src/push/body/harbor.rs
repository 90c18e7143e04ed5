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
    #[serde(default)]
    replication: Option<Replication>,
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

/// A task of a replication. Harbor names an artifact without the middle parts of its path, so only the project is certain.
#[derive(Deserialize)]
struct Replication {
    #[serde(default)]
    job_status: String,
    #[serde(default)]
    src_resource: Place,
    #[serde(default)]
    dest_resource: Place,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Place {
    /// That of the other registry; the Harbor that sends the request has none here.
    registry_name: String,
    /// The URL of the registry.
    endpoint: String,
    /// The project.
    namespace: String,
}

impl Replication {
    /// The registry that has new artifacts, and the projects that may have them.
    fn announced(&self) -> Result<Vec<Announcement>, BodyError> {
        // It is running, has failed or was stopped; `Succeed` is that of version 1.
        if !matches!(&*self.job_status, "Success" | "Succeed") {
            return Ok(Vec::new());
        }
        let (source, destination) = (&self.src_resource, &self.dest_resource);
        let mut projects = vec![&*destination.namespace];
        // Harbor swaps both projects if it has sent the artifacts.
        if !destination.registry_name.is_empty() && source.namespace != destination.namespace {
            projects.push(&source.namespace);
        }
        let announced = projects.into_iter().map(|project| {
            let below = Announcement::in_project(&destination.endpoint, project);
            below.ok_or(BodyError::Repository("event_data.replication.dest_resource"))
        });
        announced.collect()
    }
}

pub(super) fn read(body: &[u8]) -> Result<Vec<Announcement>, BodyError> {
    let body: Body = json(body)?;
    let data = match &*body.r#type {
        "PUSH_ARTIFACT" => body.event_data.ok_or(BodyError::Missing("event_data"))?,
        "harbor.artifact.pushed" => body.data.ok_or(BodyError::Missing("data"))?,
        "REPLICATION" | "harbor.replication.status.changed" => {
            let replication = body.event_data.or(body.data).and_then(|data| data.replication);
            let replication = replication.ok_or(BodyError::Missing("event_data.replication"))?;
            return replication.announced();
        }
        // A pull, a deletion, a scan, a quota, a retention.
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
