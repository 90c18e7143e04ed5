//! Content objects as they are read, and verified.

use std::{fmt, vec};

use base64::{Engine, engine::general_purpose::STANDARD};
use helmops_api::Content;

use crate::{
    ContentError, ContentId, Limits, Manifest,
    digest::{is_sha256, sha256},
    encoded::PartList,
    gunzip::{Gunzip, GunzipError},
    manifest::{of_opened, verify},
};

/// What a Content object with the name of an ID has.
#[derive(Debug)]
pub enum Opened {
    /// All files.
    Whole(Manifest),
    /// A list of parts: the objects that [`Assembly::next_part`] names have to be read.
    Split(Assembly),
}

/// Reads the Content object with the name of an ID.
///
/// # Errors
/// If it is damaged, too large, or not the content of the ID.
pub fn open(content: &Content, id: &ContentId, limits: Limits) -> Result<Opened, ContentError> {
    let compressed = stored(content, id.as_str(), limits)?;
    let mut gunzip = Gunzip::new(limits.json);
    let opened = gunzip
        .add(&compressed)
        .and_then(|()| gunzip.finish())
        .map_err(|error| broken(error, id.as_str(), limits))?;
    drop(compressed);
    if let Err(mismatch) = verify(&opened.sha256, id) {
        let list = serde_json::from_slice::<PartList>(&opened.bytes).map_err(|_| mismatch)?;
        return Assembly::new(id.clone(), list, limits).map(Opened::Split);
    }
    of_opened(&opened, id, limits).map(Opened::Whole)
}

/// Puts the parts of content together, one after another. It has what was decompressed in memory, and no part.
pub struct Assembly {
    id: ContentId,
    /// The digests of the parts that are missing.
    missing: vec::IntoIter<String>,
    remaining: u64,
    /// On the heap, because its state is large.
    gunzip: Box<Gunzip>,
    limits: Limits,
}

impl Assembly {
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
            gunzip: Box::new(Gunzip::new(limits.json)),
            limits,
        })
    }

    /// The name of the Content object with the next part. `None` if there is no further one.
    pub fn next_part(&self) -> Option<String> {
        let digest = self.missing.as_slice().first()?;
        Some(self.id.part(digest))
    }

    /// Adds the part that [`next_part`](Self::next_part) names.
    ///
    /// # Errors
    /// If it is not that part, or damaged, or if all of them are too large.
    pub fn add(&mut self, part: &Content) -> Result<(), ContentError> {
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
        self.gunzip
            .add(&compressed)
            .map_err(|error| broken(error, &name, self.limits))
    }

    /// All files, once all parts are added.
    ///
    /// # Errors
    /// If parts are missing, or are not the content of the ID together.
    pub fn finish(self) -> Result<Manifest, ContentError> {
        if let Some(part) = self.next_part() {
            let id = self.id.to_string();
            return Err(ContentError::MissingPart { id, part });
        }
        let opened = self
            .gunzip
            .finish()
            .map_err(|error| broken(error, self.id.as_str(), self.limits))?;
        of_opened(&opened, &self.id, self.limits)
    }
}

impl fmt::Debug for Assembly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Assembly")
            .field("id", &self.id)
            .field("missing", &self.missing.as_slice())
            .finish_non_exhaustive()
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
