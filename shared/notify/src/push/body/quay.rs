//! Quay.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::{BodyError, bounded::Bounded, json};
use crate::push::repository::Announcement;

#[derive(Deserialize)]
struct Body {
    #[serde(default)]
    docker_url: String,
    #[serde(default)]
    updated_tags: Tags,
}

/// A list of tags, or a map from tags to images in older versions.
#[derive(Default)]
struct Tags(Vec<String>);

#[derive(Deserialize)]
#[serde(untagged)]
enum AnyTags {
    List(Bounded<String>),
    Map(BTreeMap<String, Value>),
}

impl<'de> Deserialize<'de> for Tags {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(match AnyTags::deserialize(deserializer)? {
            AnyTags::List(tags) => Self(tags.0),
            AnyTags::Map(tags) => Self(tags.into_keys().collect()),
        })
    }
}

impl fmt::Debug for Tags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

pub(super) fn read(body: &[u8]) -> Result<Vec<Announcement>, BodyError> {
    let body: Body = json(body)?;
    // Other events of a repository, such as a build, have no such list. One announcement is enough for all tags.
    let Some(tag) = body.updated_tags.0.last() else {
        return Ok(Vec::new());
    };
    super::one(Announcement::of(&body.docker_url, tag), "docker_url")
}
