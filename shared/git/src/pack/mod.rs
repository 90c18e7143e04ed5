//! Packs: the objects that a server sends, compressed, and many as differences (deltas) to others.
//!
//! ```text
//! bytes ─► entry (where each begins) ─► index (the name of each) ─► decode (content of one, when it is needed)
//! ```
//!
//! The bytes stay in memory as they were received; what is needed of them is decompressed again. Names are computed from contents,
//! and the pack ends with a hash of itself, so nothing of it is believed.

mod decode;
mod delta;
mod entry;
mod index;
mod inflate;
mod objects;
mod resolve;

use std::io::{self, Read};

use helm_index::{Meter, OverBudget};
use thiserror::Error;

use self::{decode::Decoder, entry::Entry, index::Index};
pub use self::{
    decode::{CACHE, Object},
    objects::Objects,
};
use crate::{Limits, ObjectFormat, ObjectId};

/// Bytes by which the memory for a pack grows.
const STEP: usize = 1 << 20;
/// Memory for an object, in bytes.
const ENTRY: usize = 160;
/// Memory for an object until all have names, in bytes.
const RESOLVING: usize = 96;

/// Why a pack cannot be used.
#[derive(Debug, Error)]
pub enum PackError {
    /// The connection failed, or the server reports an error, which is the inner error.
    #[error("the pack cannot be read: {0}")]
    Input(#[from] io::Error),
    /// It is damaged, or not a pack.
    #[error("the pack of the Git server is damaged: {0}")]
    Damaged(&'static str),
    /// A tag points to something else than a commit.
    #[error(
        "what the reference names is a tag of a file or a folder, and not of a commit; name another one in ref"
    )]
    NoCommit,
    /// It is too large.
    #[error(
        "the pack of the Git server has more than {} MiB, which is the limit; if the repository is large, use a server with partial clones \
         (uploadpack.allowFilter), from which only the folder of the chart is fetched, and name large files of that in .helmignore", .limit >> 20
    )]
    TooLarge {
        /// The limit, in bytes.
        limit: usize,
    },
    /// It has too many objects.
    #[error(
        "the pack of the Git server has {objects} objects, and {limit} is the limit; keep charts in a smaller repository"
    )]
    TooManyObjects {
        /// Their number.
        objects: u32,
        /// The limit.
        limit: usize,
    },
    /// It decompresses to too much.
    #[error("the pack of the Git server has more than {} MiB after decompression, which is the limit", .limit >> 20)]
    TooMuch {
        /// The limit, in bytes.
        limit: u64,
    },
    /// An object is too large. Its name follows from its content, so it is not known here.
    #[error("an object of the repository has {size} bytes, and {limit} is the limit")]
    ObjectTooLarge {
        /// Its size.
        size: u64,
        /// The limit.
        limit: usize,
    },
    /// It is not needed any more, or takes too long.
    #[error("the pack of the Git server takes too long to read")]
    Stopped,
    /// The memory for responses is used up.
    #[error(transparent)]
    Memory(#[from] OverBudget),
}

/// A pack.
#[derive(Debug)]
pub struct Pack {
    bytes: Vec<u8>,
    entries: Vec<Entry>,
    index: Index,
    format: ObjectFormat,
    limits: Limits,
}

impl Pack {
    /// Reads a pack, and computes the names of its objects. `is_stopped` says after each of them whether to stop.
    ///
    /// # Errors
    /// If it is damaged, exceeds a limit, or is stopped.
    pub fn read(
        input: impl Read,
        format: ObjectFormat,
        limits: Limits,
        memory: &mut impl Meter,
        is_stopped: impl Fn() -> bool,
    ) -> Result<Self, PackError> {
        let mut bytes = read_all(input, limits.pack, memory)?;
        let content = bytes
            .len()
            .checked_sub(format.len())
            .ok_or(PackError::Damaged("it is too short"))?;
        let hash = ObjectId::from_bytes(format, bytes.get(content..).unwrap_or_default());
        bytes.truncate(content);
        if hash != Some(format.digest(&bytes)) {
            return Err(PackError::Damaged("its hash is another one"));
        }
        let number = entry::number(&bytes)?;
        if number as usize > limits.objects {
            return Err(PackError::TooManyObjects {
                objects: number,
                limit: limits.objects,
            });
        }
        memory.reserve(bytes.capacity() + number as usize * (ENTRY + RESOLVING) + CACHE)?;
        let mut pack = Self {
            bytes,
            entries: Vec::new(),
            index: Index::default(),
            format,
            limits,
        };
        index::build(&mut pack, number, &is_stopped)?;
        Ok(pack)
    }

    /// Size in memory, in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes.capacity() + self.entries.len() * ENTRY
    }

    /// The number of its objects.
    pub fn objects(&self) -> usize {
        self.entries.len()
    }

    /// The object of this name; `None` if the pack does not have it.
    fn object(&self, id: ObjectId, decoder: &mut Decoder) -> Result<Option<Object>, PackError> {
        let Some(at) = self.index.get(id) else {
            return Ok(None);
        };
        let object = decode::object(self, at, decoder)?;
        // One that is in the cache costs nothing here, but its reader has it once more.
        decoder.count(object.content.len() as u64, self.limits.decoded)?;
        Ok(Some(object))
    }
}

/// All bytes of an input.
fn read_all(mut input: impl Read, limit: usize, memory: &mut impl Meter) -> Result<Vec<u8>, PackError> {
    let mut bytes = Vec::new();
    let mut chunk = vec![0; inflate::CHUNK];
    loop {
        let count = match input.read(&mut chunk) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error.into()),
        };
        let Some(read) = chunk.get(..count).filter(|read| !read.is_empty()) else {
            return Ok(bytes);
        };
        if bytes.len() + count > limit {
            return Err(PackError::TooLarge { limit });
        }
        if bytes.len() + count > bytes.capacity() {
            memory.reserve(bytes.capacity() + STEP)?;
            bytes.reserve_exact(STEP);
        }
        bytes.extend_from_slice(read);
    }
}

#[cfg(test)]
mod tests;
