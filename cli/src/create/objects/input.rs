//! What is read: a file, standard input, or a folder with everything below it.

use std::{collections::BTreeMap, fs, io, path::Path, sync::Arc};

use super::{
    Conversion,
    documents::{Document, Problem, Unreadable, documents},
    kustomize,
};
use crate::{
    create::{
        batch::LeftOut,
        note::{Gap, Note, Position},
    },
    failure::Failure,
    validate::files::{self, Walk},
};

/// The objects of the input.
#[derive(Debug)]
pub struct Input {
    /// What they become.
    pub conversion: &'static Conversion,
    /// Those that are converted, and objects that they may refer to.
    pub documents: Vec<Document>,
    /// Other objects, by their titles and where they are. Those of a folder are only counted.
    pub others: Vec<Note>,
    /// Settings of kustomize, which nothing here applies.
    pub kustomized: Vec<Note>,
    /// The namespaces that kustomize sets in a folder and below it.
    pub namespaces: BTreeMap<String, Vec<(String, Note)>>,
    /// Those that are only a part of another one; sorted out of the others when all are known.
    pub patches: Vec<Document>,
    /// Parts of files that stand for such objects or may be some, and cannot be converted.
    pub lost: Vec<Note>,
    /// What is no object that can be converted.
    pub left_out: LeftOut,
    /// Whether it is a folder.
    pub is_folder: bool,
}

impl Input {
    /// No objects yet.
    pub fn new(conversion: &'static Conversion, is_folder: bool) -> Self {
        Self {
            conversion,
            documents: Vec::new(),
            others: Vec::new(),
            kustomized: Vec::new(),
            namespaces: BTreeMap::new(),
            patches: Vec::new(),
            lost: Vec::new(),
            left_out: LeftOut::default(),
            is_folder,
        }
    }

    /// Reads a file or all files of a folder; `-` is standard input.
    ///
    /// # Errors
    /// If it cannot be read, or if a file that was named has a document that is no object.
    pub fn read(path: &Path, conversion: &'static Conversion) -> Result<Self, Failure> {
        let is_folder = fs::metadata(path).is_ok_and(|about| about.is_dir());
        let mut input = Self::new(conversion, is_folder);
        let how = Walk {
            recursive: true,
            exclude: Vec::new(),
        };
        for file in files::find(&[path.display().to_string()], &how)? {
            let name = file.name();
            match file.read() {
                Ok(text) => input.add(&name, text)?,
                Err(error) if error.kind() == io::ErrorKind::InvalidData && input.is_folder => {
                    input.left_out.not_yaml.push(Position {
                        file: name.into(),
                        line: 1,
                        column: 1,
                    });
                }
                Err(error) => return Err(Failure::because(format!("cannot read {name}"), &error)),
            }
        }
        Ok(input)
    }

    /// Adds the objects of a file.
    ///
    /// # Errors
    /// If it was named, and has a document that is no object.
    pub fn add(&mut self, file: &str, text: String) -> Result<(), Failure> {
        let (documents, unreadable) = documents(file, text, self.conversion.marks);
        for found in unreadable {
            let Unreadable {
                position,
                message,
                fix,
                problem,
            } = found;
            if !self.is_folder {
                return Err(Failure::unable(format!("{position}: {message}")).with_hint(fix));
            }
            match problem {
                Problem::Foreign => {}
                Problem::NoObject => self.left_out.others += 1,
                Problem::NotYaml => self.left_out.not_yaml.push(position),
                Problem::Lost => self.lost.push(Note {
                    object: String::new(),
                    path: String::new(),
                    position: Some(position),
                    text: format!("{message}: {fix}"),
                    gap: Gap::Source,
                }),
            }
        }
        for document in documents {
            for note in kustomize::notes(&document) {
                if note.path == "namespace" {
                    let namespace = document.text("/namespace").to_owned();
                    let folder = folder(document.file()).to_owned();
                    let set = self.namespaces.entry(folder).or_default();
                    set.push((namespace, note.clone()));
                }
                self.kustomized.push(note);
            }
            let Conversion {
                is_own,
                is_referent,
                refused,
                ..
            } = self.conversion;
            if let Some(text) = refused(&document) {
                self.lost.push(Note {
                    text: text.to_owned(),
                    gap: Gap::Source,
                    ..unused(&document, self.conversion)
                });
            } else if is_own(&document) || is_referent(&document) {
                self.documents.push(document);
            } else if self.is_folder {
                self.left_out.others += 1;
            } else {
                self.others.push(unused(&document, self.conversion));
            }
        }
        Ok(())
    }
}

/// A note about an object that none of the converted ones uses.
pub fn unused(document: &Document, conversion: &Conversion) -> Note {
    let text = (conversion.unused)(document).map_or_else(
        || format!("no {} uses this object; it is not in the output", conversion.kind),
        str::to_owned,
    );
    Note {
        object: document.title(),
        path: String::new(),
        position: document.position("kind"),
        text,
        gap: Gap::None,
    }
}

/// Whether two objects may be in one namespace. That of either may be one that kustomize sets.
pub fn may_share_namespace(one: &str, other: &str) -> bool {
    one.is_empty() || other.is_empty() || one == other
}

/// The folder of a file.
pub fn folder(file: &str) -> &str {
    file.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// Whether two objects are in the same file.
pub fn is_same_file(one: &Document, other: &Document) -> bool {
    Arc::ptr_eq(one.file(), other.file())
}
