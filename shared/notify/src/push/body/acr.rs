//! Azure Container Registry.

use serde::Deserialize;

use super::{BodyError, json, one};
use crate::push::repository::Announcement;

#[derive(Deserialize)]
struct Body {
    action: String,
    #[serde(default)]
    target: Target,
    #[serde(default)]
    request: Request,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Target {
    repository: String,
    tag: String,
    version: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Request {
    host: String,
}

pub(super) fn read(body: &[u8]) -> Result<Vec<Announcement>, BodyError> {
    let body: Body = json(body)?;
    let (target, host) = (&body.target, &body.request.host);
    let announcement = match &*body.action {
        "push" if host.is_empty() => Announcement::of(&target.repository, &target.tag),
        "push" => Announcement::of(&format!("{host}/{}", target.repository), &target.tag),
        // The index of a registry, which Azure serves below this path.
        "chart_push" => {
            let path = format!("helm/v1/{}", target.repository);
            Announcement::of_suffix(&path, target.version.trim_end_matches(".tgz"))
        }
        // A test of the hook, a deletion, a quarantine.
        _ => return Ok(Vec::new()),
    };
    one(announcement, "target.repository")
}
