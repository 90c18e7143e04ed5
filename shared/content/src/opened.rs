//! Content objects as they are read, and verified.

use std::{io::Read, vec};

use base64::{Engine, engine::general_purpose::STANDARD};
use helmops_api::Content;

use crate::{
    ContentError, ContentId, Limits, Manifest,
    digest::{is_sha256, sha256},
    encoded::PartList,
    gunzip::{GunzipError, gunzip},
    manifest::verify,
};

/// The longest list of parts as JSON: each has 67 bytes.
const MAX_LIST: u64 = 16 << 10;

/// What a Content object with the name of an ID has. Nothing decompressed is in memory.
#[derive(Debug)]
pub enum Opened {
    /// All files, compressed, see [`Manifest::decompress`].
    Whole(Vec<u8>),
    /// A list of parts: the objects that [`Parts::next_name`] names have to be read.
    Split(Parts),
}

/// Reads the Content object with the name of an ID. It is decompressed once, to verify it.
///
/// # Errors
/// If it is damaged, too large, or not the content of the ID.
pub fn open(content: &Content, id: &ContentId, limits: Limits) -> Result<Opened, ContentError> {
    let compressed = stored(content, id.as_str(), limits)?;
    let opened = gunzip(&*compressed, limits.json, MAX_LIST);
    let opened = opened.map_err(|error| broken(error, id.as_str(), limits))?;
    match verify(&opened.sha256, id) {
        Ok(()) => Ok(Opened::Whole(compressed)),
        Err(mismatch) => {
            let list = serde_json::from_slice::<PartList>(&opened.bytes).map_err(|_| mismatch)?;
            Parts::new(id.clone(), list, limits).map(Opened::Split)
        }
    }
}

/// The parts of split content that are still to be read, in their order. What they have, one after the other, is the content.
#[derive(Debug)]
pub struct Parts {
    id: ContentId,
    /// Their digests.
    missing: vec::IntoIter<String>,
    remaining: u64,
    limits: Limits,
}

impl Parts {
    fn new(id: ContentId, list: PartList, limits: Limits) -> Result<Self, ContentError> {
        if list.parts.len() > limits.parts() {
            let limit = limits.compressed;
            return Err(ContentError::CompressedTooLarge { limit });
        }
        // A name is made of each.
        if !list.parts.iter().all(|digest| is_sha256(digest)) {
            return Err(ContentError::Damaged {
                id: id.to_string(),
                cause: "its list of parts has something else than SHA-256 sums".to_owned(),
            });
        }
        Ok(Self {
            id,
            missing: list.parts.into_iter(),
            remaining: limits.compressed,
            limits,
        })
    }

    /// The names of the Content objects with the parts.
    pub fn names(&self) -> impl Iterator<Item = String> {
        self.missing.as_slice().iter().map(|digest| self.id.part(digest))
    }

    /// The name of the Content object with the next part. `None` if there is no further one.
    pub fn next_name(&self) -> Option<String> {
        self.names().next()
    }

    /// The compressed bytes in the part that [`next_name`](Self::next_name) names.
    ///
    /// # Errors
    /// If it is not that part, or damaged, or if all of them are too large.
    pub fn read(&mut self, part: &Content) -> Result<Vec<u8>, ContentError> {
        let Some(digest) = self.missing.next() else {
            let id = self.id.to_string();
            return Err(ContentError::SurplusPart { id });
        };
        let name = self.id.part(&digest);
        let compressed = stored(part, &name, self.limits)?;
        let found = sha256(&compressed);
        if found != digest {
            return Err(ContentError::Mismatch {
                id: name,
                expected: digest,
                found,
            });
        }
        let limit = self.limits.compressed;
        self.remaining = self
            .remaining
            .checked_sub(compressed.len() as u64)
            .ok_or(ContentError::CompressedTooLarge { limit })?;
        Ok(compressed)
    }
}

impl Manifest {
    /// All files: what the object of an ID has, or its parts one after the other.
    ///
    /// # Errors
    /// If it is damaged, too large, or not the content of the ID.
    pub fn decompress(compressed: impl Read, id: &ContentId, limits: Limits) -> Result<Self, ContentError> {
        let opened = gunzip(compressed, limits.json, limits.json);
        let opened = opened.map_err(|error| broken(error, id.as_str(), limits))?;
        verify(&opened.sha256, id)?;
        Self::of_json(&opened.bytes, id, limits)
    }
}

/// The bytes of an object: the decoded field `content`.
fn stored(content: &Content, name: &str, limits: Limits) -> Result<Vec<u8>, ContentError> {
    let bytes = STANDARD
        .decode(&content.content)
        .map_err(|error| ContentError::Damaged {
            id: name.to_owned(),
            cause: format!("its content is not base64: {error}"),
        })?;
    if bytes.len() as u64 > limits.compressed {
        let limit = limits.compressed;
        return Err(ContentError::CompressedTooLarge { limit });
    }
    Ok(bytes)
}

fn broken(error: GunzipError, name: &str, limits: Limits) -> ContentError {
    if error.is_limit {
        return ContentError::TooLarge { limit: limits.json };
    }
    ContentError::Damaged {
        id: name.to_owned(),
        cause: error.cause,
    }
}
