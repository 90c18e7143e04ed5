//! Anything else: `{"repository": "registry.example/charts/web", "tag": "1.2.3"}`, or anything for all HelmOps of the Receiver.

use serde_json::Value;

use super::{BodyError, one};
use crate::push::repository::Announcement;

pub(super) fn read(body: &[u8]) -> Result<Vec<Announcement>, BodyError> {
    // The body may be of any kind: what sends it was not made for helmops.
    let Ok(Value::Object(fields)) = serde_json::from_slice(body) else {
        return Ok(vec![Announcement::of_all()]);
    };
    let text = |field: &str| fields.get(field).and_then(Value::as_str);
    match text("repository") {
        None | Some("") => Ok(vec![Announcement::of_all()]),
        Some(repository) => one(
            Announcement::of_image(repository, text("tag").unwrap_or_default()),
            "repository",
        ),
    }
}
