//! The folders that a list of files makes, such as of the objects of a bucket, with names that follow from it: another path, size or tag of
//! a file is another name of each folder that it is in.

use std::{
    collections::BTreeMap,
    fmt::{self, Debug, Display},
    sync::Arc,
};

use bounded_text::hex;
use ring::digest::{Context, Digest, SHA256};
use thiserror::Error;

use crate::{Entry, EntryKind, FileError, FileTree};

/// The length of a name, in bytes.
const LEN: usize = 32;

/// Names the content of a file or a folder. The content itself need not be known.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryId([u8; LEN]);

/// A file of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListedFile {
    /// Its path below the folder of all.
    pub path: String,
    /// Another one for another content, such as an `ETag` or a digest.
    pub tag: String,
    /// Its size, in bytes.
    pub size: u64,
}

/// The folders of a list, by the names of their content.
#[derive(Debug)]
pub struct ListedFolders {
    root: EntryId,
    folders: BTreeMap<EntryId, Vec<Entry<EntryId>>>,
    objects: BTreeMap<EntryId, ListedFile>,
}

/// The files are in too many folders.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("the objects are in more than {limit} folders")]
pub struct TooManyFolders {
    /// The limit.
    pub limit: usize,
}

/// The folders of a list, and the files that have been fetched.
#[derive(Clone, Debug)]
pub struct ListedFiles {
    folders: Arc<ListedFolders>,
    contents: BTreeMap<EntryId, Arc<[u8]>>,
    /// The largest file, in bytes.
    limit: usize,
}

/// Why a file or folder cannot be read.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum ListedFilesError {
    /// It is not there.
    #[error("a file or folder is read that is not in the list")]
    Missing,
    /// There is no memory for it.
    #[error("the memory for reading charts is in use by other charts; retrying")]
    Memory,
}

/// A folder while the list is read.
#[derive(Default)]
struct Folder<'a> {
    folders: BTreeMap<&'a str, usize>,
    files: BTreeMap<&'a str, usize>,
}

impl EntryId {
    /// The name in these hexadecimal digits; `None` for another text.
    pub fn from_hex(text: &str) -> Option<Self> {
        let is_hex = text.len() == 2 * LEN && text.bytes().all(|c| matches!(c, b'0'..=b'9' | b'a'..=b'f'));
        let mut id = [0; LEN];
        for (at, byte) in id.iter_mut().enumerate().filter(|_| is_hex) {
            *byte = u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok()?;
        }
        is_hex.then_some(Self(id))
    }

    fn of(digest: Digest) -> Self {
        let mut id = [0; LEN];
        for (to, from) in id.iter_mut().zip(digest.as_ref()) {
            *to = *from;
        }
        Self(id)
    }
}

impl Display for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl Debug for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Display::fmt(self, f)
    }
}

impl ListedFile {
    /// What names its content. The path is a part of it: some servers give objects of different content the same `ETag`.
    pub fn id(&self) -> EntryId {
        let mut digest = Context::new(&SHA256);
        field(&mut digest, b"object");
        field(&mut digest, self.path.as_bytes());
        field(&mut digest, self.tag.as_bytes());
        digest.update(&self.size.to_be_bytes());
        EntryId::of(digest.finish())
    }

    /// Its size in memory, in bytes.
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + self.path.len() + self.tag.len()
    }
}

/// A length keeps one field from flowing into the next.
fn field(digest: &mut Context, bytes: &[u8]) {
    digest.update(&(bytes.len() as u64).to_be_bytes());
    digest.update(bytes);
}

impl ListedFolders {
    /// The folders of these objects. Those with a part in their path that no file has are left out.
    ///
    /// # Errors
    /// If there are more than `limit` folders.
    pub fn new(objects: &[ListedFile], limit: usize) -> Result<Self, TooManyFolders> {
        let mut found = vec![Folder::default()];
        for (number, object) in objects.iter().enumerate() {
            let is_part = |part: &str| !matches!(part, "" | "." | "..");
            if !object.path.split('/').all(is_part) {
                continue;
            }
            let (folder, name) = object.path.rsplit_once('/').unwrap_or(("", &object.path));
            let mut at = 0;
            for part in folder.split('/').filter(|part| !part.is_empty()) {
                let next = found.len();
                let Some(parent) = found.get_mut(at) else { break };
                at = *parent.folders.entry(part).or_insert(next);
                if at == next {
                    if next > limit {
                        return Err(TooManyFolders { limit });
                    }
                    found.push(Folder::default());
                }
            }
            if let Some(folder) = found.get_mut(at) {
                folder.files.insert(name, number);
            }
        }
        Ok(Self::named(&found, objects))
    }

    /// Names the folders, those that are in others first: they were found later.
    fn named(found: &[Folder<'_>], objects: &[ListedFile]) -> Self {
        let mut named = Self {
            root: EntryId([0; LEN]),
            folders: BTreeMap::new(),
            objects: BTreeMap::new(),
        };
        let mut ids = vec![named.root; found.len()];
        for (number, folder) in found.iter().enumerate().rev() {
            let entry = |name: &str, kind, id| Entry {
                name: name.as_bytes().to_vec(),
                kind,
                id,
            };
            let folders = folder.folders.iter();
            let folders =
                folders.filter_map(|(name, at)| Some(entry(name, EntryKind::Folder, *ids.get(*at)?)));
            let mut entries: Vec<_> = folders.collect();
            for (name, at) in &folder.files {
                let Some(object) = objects.get(*at) else { continue };
                // Consoles create an empty object for a folder.
                if object.size == 0 && folder.folders.contains_key(name) {
                    continue;
                }
                let id = object.id();
                named.objects.insert(id, object.clone());
                entries.push(entry(name, EntryKind::File, id));
            }
            let id = folder_id(&entries, number == 0);
            if let Some(place) = ids.get_mut(number) {
                *place = id;
            }
            named.root = id;
            named.folders.insert(id, entries);
        }
        named
    }

    /// The folder of all.
    pub const fn root(&self) -> EntryId {
        self.root
    }

    /// An object.
    pub fn object(&self, id: EntryId) -> Option<&ListedFile> {
        self.objects.get(&id)
    }

    /// The object at a path, and what names its content.
    pub fn find(&self, path: &str) -> Option<(EntryId, &ListedFile)> {
        let mut all = self.objects.iter();
        all.find(|(_, object)| object.path == path)
            .map(|(id, object)| (*id, object))
    }

    /// Its size in memory, in bytes.
    pub fn bytes(&self) -> usize {
        let entries = self.folders.values().flatten();
        let entries = entries.map(|entry| size_of_val(entry) + entry.name.len());
        let objects = self.objects.values().map(|object| LEN + object.bytes());
        entries.sum::<usize>() + objects.sum::<usize>() + self.folders.len() * size_of::<Vec<EntryId>>()
    }
}

fn folder_id(entries: &[Entry<EntryId>], is_root: bool) -> EntryId {
    let mut digest = Context::new(&SHA256);
    field(&mut digest, if is_root { b"all" } else { b"folder" });
    for entry in entries {
        digest.update(&[u8::from(entry.kind == EntryKind::Folder)]);
        field(&mut digest, &entry.name);
        digest.update(&entry.id.0);
    }
    EntryId::of(digest.finish())
}

impl ListedFiles {
    /// The folders, without any object yet. Files have at most `limit` bytes.
    pub fn new(folders: Arc<ListedFolders>, limit: usize) -> Self {
        Self {
            folders,
            contents: BTreeMap::new(),
            limit,
        }
    }

    /// Adds the content of an object.
    pub fn add(&mut self, id: EntryId, content: Arc<[u8]>) {
        self.contents.insert(id, content);
    }

    fn is_too_large(&self, file: EntryId) -> bool {
        let object = self.folders.object(file);
        object.is_some_and(|object| object.size > self.limit as u64)
    }
}

impl FileTree for ListedFiles {
    type Id = EntryId;
    type Error = ListedFilesError;

    fn entries(&mut self, folder: EntryId) -> Result<Vec<Entry<EntryId>>, ListedFilesError> {
        let entries = self.folders.folders.get(&folder);
        entries.cloned().ok_or(ListedFilesError::Missing)
    }

    /// What is too large is not fetched.
    fn contains(&self, file: EntryId) -> bool {
        self.contents.contains_key(&file) || self.is_too_large(file)
    }

    fn file(&mut self, file: EntryId) -> Result<Arc<[u8]>, FileError<ListedFilesError>> {
        if self.is_too_large(file) {
            return Err(FileError::TooLarge { limit: self.limit });
        }
        let content = self.contents.get(&file).map(Arc::clone);
        content.ok_or(FileError::Tree(ListedFilesError::Missing))
    }
}

#[cfg(test)]
mod tests;
