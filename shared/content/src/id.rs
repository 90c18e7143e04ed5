//! The ID of content: the name of its Content object, and the first part of the deployment ID.

use std::{fmt, str::FromStr};

use bounded_text::excerpt;

use crate::{ContentError, digest::is_digit};

/// What an ID starts with.
const PREFIX: &str = "s-";
/// The digits of an ID. Fleet cuts `s-` and 64 digits to the length of a label.
pub const DIGITS: usize = 61;
/// The longest text in a message, in bytes.
const SHOWN: usize = 100;

/// The ID of content: `s-` and the first 61 digits of the SHA-256 sum of its JSON.
///
/// Source: `ToSHA256ID` in Fleet's `internal/manifest/manifest.go`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContentId(String);

impl ContentId {
    /// Of a SHA-256 sum as 64 hexadecimal digits.
    pub(crate) fn of_sha256(sha256: &str) -> Self {
        let digits = sha256.get(..DIGITS).unwrap_or(sha256);
        Self(format!("{PREFIX}{digits}"))
    }

    /// The text: the name of the Content object.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The digits of the SHA-256 sum, as far as the ID has them.
    pub(crate) fn digits(&self) -> &str {
        self.0.strip_prefix(PREFIX).unwrap_or_default()
    }

    /// The name of the object with a part that has this SHA-256 sum.
    pub fn part(&self, sha256: &str) -> String {
        let digits = sha256.get(..16).unwrap_or(sha256);
        format!("{self}-{digits}")
    }

    /// All that have the form of an ID in a text.
    pub fn all_in(text: &str) -> impl Iterator<Item = Self> {
        let starts = text.match_indices(PREFIX);
        starts.filter_map(|(at, _)| text.get(at..at + PREFIX.len() + DIGITS)?.parse().ok())
    }

    /// The ID of the content that an object of this name is, or is a part of. `None` if it is the name of neither.
    pub fn of_object(name: &str) -> Option<Self> {
        let id = name.get(..PREFIX.len() + DIGITS)?;
        let rest = name.get(id.len()..)?;
        (rest.is_empty() || rest.starts_with('-'))
            .then(|| id.parse().ok())
            .flatten()
    }
}

impl FromStr for ContentId {
    type Err = ContentError;

    fn from_str(text: &str) -> Result<Self, ContentError> {
        match text.strip_prefix(PREFIX) {
            Some(digits) if digits.len() == DIGITS && digits.bytes().all(is_digit) => {
                Ok(Self(text.to_owned()))
            }
            _ => Err(ContentError::Id(excerpt(text, SHOWN))),
        }
    }
}

impl fmt::Display for ContentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The ID of the content that a deployment ID starts with, if it starts with one: a deployment ID is the ID and a hash of the options, with
/// a colon between them.
pub fn deployment_content(deployment_id: &str) -> Option<ContentId> {
    let id = deployment_id.split_once(':').map_or(deployment_id, |(id, _)| id);
    id.parse().ok()
}
