//! The registry of the CNCF: an envelope of events.

use serde::Deserialize;

use super::{BodyError, bounded::Bounded, json};
use crate::push::repository::Announcement;

#[derive(Deserialize)]
struct Envelope {
    events: Bounded<Event>,
}

#[derive(Deserialize)]
struct Event {
    #[serde(default)]
    action: String,
    #[serde(default)]
    target: Target,
    #[serde(default)]
    request: Request,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Target {
    media_type: String,
    repository: String,
    tag: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Request {
    host: String,
}

pub(super) fn read(body: &[u8]) -> Result<Vec<Announcement>, BodyError> {
    let envelope: Envelope = json(body)?;
    let mut pushed = Vec::new();
    // A push of a chart is three events: config, layer and manifest. Tags point at manifests only.
    for event in envelope.events.0.iter().filter(|event| event.action == "push") {
        let (target, host) = (&event.target, &event.request.host);
        if !(target.media_type.contains("manifest") || target.media_type.contains("image.index")) {
            continue;
        }
        let repository = if host.is_empty() {
            target.repository.clone()
        } else {
            format!("{host}/{}", target.repository)
        };
        let announcement = Announcement::of(&repository, &target.tag);
        let announcement = announcement.ok_or(BodyError::Repository("events[].target.repository"))?;
        if !pushed.contains(&announcement) {
            pushed.push(announcement);
        }
    }
    Ok(pushed)
}
