//! A file of content.

use std::{borrow::Cow, fmt::Display, io::Write};

use base64::{Engine, engine::general_purpose::STANDARD};
use bounded_text::excerpt;
use flate2::{Compression, write::GzEncoder};
use serde::{Deserialize, Deserializer};

use crate::{ContentError, Limits, PathProblem, gunzip::gunzip};

/// Base64.
const BASE64: &str = "base64";
/// Compressed with gzip, in base64: the encoding of what is not text.
const BASE64_GZIP: &str = "base64+gz";
/// The longest path of a file, in bytes.
const MAX_PATH: usize = 1_024;
/// The longest text in a message, in bytes.
const SHOWN: usize = 200;

/// A file of content, as Fleet's `BundleResource`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Resource {
    /// Its path. Fleet accepts empty ones, and names such files by their number.
    #[serde(default, deserialize_with = "text_or_null")]
    pub name: String,
    /// Its content, encoded.
    #[serde(default, deserialize_with = "text_or_null")]
    pub content: String,
    /// How it is encoded: not at all if this is empty; else `base64` or `base64+gz`.
    #[serde(default, deserialize_with = "text_or_null")]
    pub encoding: String,
}

impl Resource {
    /// A file: as it is if it is UTF-8 text, else as `base64+gz`.
    ///
    /// # Errors
    /// For a path that no file needs.
    pub fn of_file(name: String, content: Vec<u8>) -> Result<Self, ContentError> {
        check_path(&name)?;
        Ok(match String::from_utf8(content) {
            Ok(content) => Self {
                name,
                content,
                encoding: String::new(),
            },
            Err(error) => Self {
                name,
                content: STANDARD.encode(gzip(error.as_bytes())),
                encoding: BASE64_GZIP.to_owned(),
            },
        })
    }

    /// The content, decoded.
    ///
    /// # Errors
    /// If it is not encoded as it says, or has more bytes than [`Limits::file`].
    pub fn decode(&self, limits: Limits) -> Result<Cow<'_, [u8]>, ContentError> {
        let decoded = match &*self.encoding {
            "" => Cow::Borrowed(self.content.as_bytes()),
            BASE64 => self.base64()?.into(),
            BASE64_GZIP => self.gunzip(&self.base64()?, limits)?.into(),
            _ => return Err(self.broken(&"helmops knows only base64 and base64+gz")),
        };
        if decoded.len() as u64 > limits.file {
            return Err(self.too_large(limits));
        }
        Ok(decoded)
    }

    fn base64(&self) -> Result<Vec<u8>, ContentError> {
        // As in Go, line breaks mean nothing.
        let lines: Vec<u8> = self
            .content
            .bytes()
            .filter(|byte| !matches!(byte, b'\r' | b'\n'))
            .collect();
        STANDARD.decode(lines).map_err(|error| self.broken(&error))
    }

    fn gunzip(&self, bytes: &[u8], limits: Limits) -> Result<Vec<u8>, ContentError> {
        match gunzip(bytes, limits.file, limits.file) {
            Ok(opened) => Ok(opened.bytes),
            Err(error) if error.is_limit => Err(self.too_large(limits)),
            Err(error) => Err(self.broken(&error.cause)),
        }
    }

    fn broken(&self, cause: &dyn Display) -> ContentError {
        ContentError::File {
            name: shown(&self.name),
            encoding: shown(&self.encoding),
            cause: cause.to_string(),
        }
    }

    fn too_large(&self, limits: Limits) -> ContentError {
        ContentError::FileTooLarge {
            name: shown(&self.name),
            limit: limits.file,
        }
    }
}

/// Checks the path of a file.
pub fn check_path(name: &str) -> Result<(), ContentError> {
    let problem = if name.len() > MAX_PATH {
        PathProblem::TooLong
    } else if name.starts_with('/') {
        PathProblem::Absolute
    } else if name.split(['/', '\\']).any(|part| part == "..") {
        PathProblem::Parent
    } else if name.chars().any(char::is_control) {
        PathProblem::Control
    } else {
        return Ok(());
    };
    let name = shown(name);
    Err(ContentError::Path { name, problem })
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    // Writing into a vector cannot fail.
    _ = encoder.write_all(bytes);
    encoder.finish().unwrap_or_default()
}

/// A path for a message.
pub fn shown(text: &str) -> String {
    excerpt(text, SHOWN)
}

/// Go decodes `null` as an empty text.
fn text_or_null<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Ok(Option::<String>::deserialize(deserializer)?.unwrap_or_default())
}
