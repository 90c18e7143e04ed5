//! Google's registries: a message of Pub/Sub.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde::Deserialize;

use super::{BodyError, json, one};
use crate::push::repository::Announcement;

#[derive(Deserialize)]
struct Body {
    message: Message,
}

#[derive(Deserialize)]
struct Message {
    data: String,
}

#[derive(Deserialize)]
struct Data {
    action: String,
    #[serde(default)]
    digest: String,
    #[serde(default)]
    tag: String,
}

pub(super) fn read(body: &[u8]) -> Result<Vec<Announcement>, BodyError> {
    let body: Body = json(body)?;
    let data = STANDARD.decode(&body.message.data).map_err(|_| BodyError::Json)?;
    let data: Data = json(&data)?;
    if data.action != "INSERT" {
        return Ok(Vec::new());
    }
    // The tag is an image too: host, path and tag. A message about a digest without a tag is followed by one with it.
    let image = if data.tag.is_empty() {
        &data.digest
    } else {
        &data.tag
    };
    one(Announcement::of_image(image, ""), "tag")
}
