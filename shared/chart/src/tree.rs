//! Files in folders, whatever stores them.

use std::{
    error::Error,
    fmt::{Debug, Display},
    sync::Arc,
};

/// What an entry of a folder is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A folder.
    Folder,
    /// A file.
    File,
    /// A symbolic link.
    Link,
    /// A commit of another repository.
    Submodule,
}

/// An entry of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry<Id> {
    /// Its name, in any encoding.
    pub name: Vec<u8>,
    /// What it is.
    pub kind: EntryKind,
    /// What names its content.
    pub id: Id,
}

/// Files in folders. The folders are there from the start, and files once they have been fetched.
pub trait FileTree {
    /// Names the content of a file, or of a folder with all that is below it: another content has another name.
    type Id: Copy + Ord + Debug + Display;
    /// Why something cannot be read.
    type Error: Error + 'static;

    /// The entries of a folder.
    ///
    /// # Errors
    /// If it cannot be read.
    fn entries(&mut self, folder: Self::Id) -> Result<Vec<Entry<Self::Id>>, Self::Error>;

    /// Whether a file has been fetched.
    fn contains(&self, file: Self::Id) -> bool;

    /// The content of a file that has been fetched.
    ///
    /// # Errors
    /// If it is too large, or cannot be read.
    fn file(&mut self, file: Self::Id) -> Result<Arc<[u8]>, FileError<Self::Error>>;
}

/// Why a file cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileError<E> {
    /// It is too large.
    TooLarge {
        /// The limit, in bytes.
        limit: usize,
    },
    /// What stores it has an error.
    Tree(E),
}
