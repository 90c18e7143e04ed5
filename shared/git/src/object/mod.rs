//! The objects of Git: how they are named, and what of them is read.

mod commit;
mod id;
mod tree;

pub use self::{
    commit::{Pointer, pointer},
    id::{Hasher, ObjectFormat, ObjectId},
    tree::entries,
};

/// The kind of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectKind {
    /// A state of the repository.
    Commit,
    /// A folder.
    Tree,
    /// The content of a file.
    Blob,
    /// An annotated tag.
    Tag,
}

impl ObjectKind {
    /// Its name, as in the text that is hashed.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Commit => "commit",
            Self::Tree => "tree",
            Self::Blob => "blob",
            Self::Tag => "tag",
        }
    }
}
