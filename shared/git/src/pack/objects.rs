//! The objects of several packs of a repository.

use std::sync::Arc;

use super::{
    Pack, PackError,
    decode::{Decoder, Object},
};
use crate::{
    ObjectFormat, ObjectId, ObjectKind,
    object::{Pointer, pointer},
};

/// How many tags may point to each other.
const MAX_TAGS: usize = 5;

/// The objects of several packs of a repository.
#[derive(Default)]
pub struct Objects {
    packs: Vec<Arc<Pack>>,
    /// One for all, so that its cache has its size once.
    decoder: Decoder,
}

impl Objects {
    /// Adds the objects of a pack.
    pub fn add(&mut self, pack: Arc<Pack>) {
        self.packs.push(pack);
    }

    /// Whether an object is there.
    pub fn contains(&self, id: ObjectId) -> bool {
        self.packs.iter().any(|pack| pack.index.get(id).is_some())
    }

    /// How the repository names its objects.
    pub fn format(&self) -> ObjectFormat {
        self.packs.first().map_or(ObjectFormat::Sha1, |pack| pack.format)
    }

    /// The object of this name; `None` if it is not there.
    ///
    /// # Errors
    /// If it is damaged or too large.
    pub fn get(&mut self, id: ObjectId) -> Result<Option<Object>, PackError> {
        for (number, pack) in self.packs.iter().enumerate() {
            self.decoder.pack = number;
            if let Some(object) = pack.object(id, &mut self.decoder)? {
                return Ok(Some(object));
            }
        }
        Ok(None)
    }

    /// The content of an object of this kind, which has to be there.
    ///
    /// # Errors
    /// If it is not there, or of another kind.
    pub fn content(&mut self, id: ObjectId, kind: ObjectKind) -> Result<Arc<[u8]>, PackError> {
        let object = self.get(id)?;
        let object = object.ok_or(PackError::Damaged("an object that others name is missing"))?;
        (object.kind == kind)
            .then_some(object.content)
            .ok_or(PackError::Damaged("an object is of another kind than others say"))
    }

    /// The folder of a commit, which may be named by a tag.
    ///
    /// # Errors
    /// If there is none.
    pub fn root(&mut self, commit: ObjectId) -> Result<ObjectId, PackError> {
        let mut id = commit;
        for _ in 0..MAX_TAGS {
            let object = self.get(id)?.ok_or(PackError::Damaged("the commit is missing"))?;
            match pointer(object.kind, &object.content) {
                Some(Pointer::Tree(tree)) => return Ok(tree),
                Some(Pointer::Object(tagged)) => id = tagged,
                None => break,
            }
        }
        Err(PackError::NoCommit)
    }
}
