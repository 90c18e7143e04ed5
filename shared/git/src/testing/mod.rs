//! A repository in memory, and the responses of a Git server for it. Tests need neither the program `git` nor files.

mod pack;
mod server;

use std::collections::BTreeMap;

pub use self::{
    pack::{Packed, pack},
    server::Server,
};
use crate::{ObjectFormat, ObjectId, ObjectKind};

/// The mode of a usual file.
pub const FILE: &str = "100644";
/// The mode of a symbolic link.
pub const LINK: &str = "120000";
/// The mode of a submodule.
pub const SUBMODULE: &str = "160000";

/// A repository.
#[derive(Clone, Debug, Default)]
pub struct Repository {
    /// How it names its objects.
    pub format: ObjectFormat,
    /// Its objects.
    pub objects: BTreeMap<ObjectId, (ObjectKind, Vec<u8>)>,
    /// Its references by their full names; an annotated tag names its own object.
    pub references: BTreeMap<String, ObjectId>,
}

/// A folder while it is built.
#[derive(Default)]
struct Folder {
    files: BTreeMap<String, (&'static str, ObjectId)>,
    folders: BTreeMap<String, Folder>,
}

impl Repository {
    /// Adds an object.
    pub fn add(&mut self, kind: ObjectKind, content: impl Into<Vec<u8>>) -> ObjectId {
        let content = content.into();
        let id = ObjectId::of(self.format, kind, &content);
        self.objects.insert(id, (kind, content));
        id
    }

    /// Commits usual files to a branch, which has nothing else then.
    pub fn commit(&mut self, branch: &str, files: &[(&str, &str)]) -> ObjectId {
        let files: Vec<_> = files
            .iter()
            .map(|(path, content)| (*path, FILE, *content))
            .collect();
        self.commit_modes(branch, &files)
    }

    /// Commits files to a branch with their modes.
    pub fn commit_modes(&mut self, branch: &str, files: &[(&str, &'static str, &str)]) -> ObjectId {
        let mut root = Folder::default();
        for (path, mode, content) in files {
            let id = match *mode {
                // A commit of another repository.
                SUBMODULE => ObjectId::of(self.format, ObjectKind::Commit, content.as_bytes()),
                _ => self.add(ObjectKind::Blob, *content),
            };
            let (folders, name) = path.rsplit_once('/').unwrap_or(("", path));
            let mut folder = &mut root;
            for part in folders.split('/').filter(|part| !part.is_empty()) {
                folder = folder.folders.entry(part.to_owned()).or_default();
            }
            folder.files.insert(name.to_owned(), (mode, id));
        }
        let tree = self.tree(root);
        let name = format!("refs/heads/{branch}");
        let parent = self.references.get(&name);
        let parent = parent.map_or_else(String::new, |parent| format!("parent {parent}\n"));
        let person = "A <a@example.com> 1700000000 +0000";
        let text = format!("tree {tree}\n{parent}author {person}\ncommitter {person}\n\nmessage\n");
        let commit = self.add(ObjectKind::Commit, text);
        self.references.insert(name, commit);
        self.references.entry("HEAD".to_owned()).or_insert(commit);
        if branch == "main" {
            self.references.insert("HEAD".to_owned(), commit);
        }
        commit
    }

    /// Adds a tag.
    pub fn tag(&mut self, name: &str, commit: ObjectId) {
        self.references.insert(format!("refs/tags/{name}"), commit);
    }

    /// Adds an annotated tag.
    pub fn annotated_tag(&mut self, name: &str, commit: ObjectId) -> ObjectId {
        let text = format!(
            "object {commit}\ntype commit\ntag {name}\ntagger A <a@example.com> 1700000000 +0000\n\nmessage\n"
        );
        let tag = self.add(ObjectKind::Tag, text);
        self.tag(name, tag);
        tag
    }

    /// The commit that a reference names, and whether by a tag of its own.
    fn peeled(&self, id: ObjectId) -> Option<ObjectId> {
        match self.objects.get(&id) {
            Some((ObjectKind::Tag, content)) => {
                let text = String::from_utf8_lossy(content);
                ObjectId::from_hex(text.lines().next()?.strip_prefix("object ")?)
            }
            _ => None,
        }
    }

    fn tree(&mut self, folder: Folder) -> ObjectId {
        // Git sorts a folder as if its name ended with a slash.
        let mut entries = BTreeMap::new();
        for (name, (mode, id)) in folder.files {
            entries.insert(name.clone(), (name, mode, id));
        }
        for (name, below) in folder.folders {
            let id = self.tree(below);
            entries.insert(format!("{name}/"), (name, "40000", id));
        }
        let mut content = Vec::new();
        for (name, mode, id) in entries.into_values() {
            content.extend_from_slice(format!("{mode} {name}\0").as_bytes());
            content.extend_from_slice(id.as_bytes());
        }
        self.add(ObjectKind::Tree, content)
    }
}
