//! Lists of references.

use std::io::Read;

use helm_index::Meter;

use super::{
    WireError,
    packet::{Packet, Packets, line},
};
use crate::{Limits, ObjectId};

/// The longest name of a reference that is kept, in bytes.
const MAX_NAME: usize = 512;
/// Memory of a reference without its name, in bytes.
const ENTRY: usize = 128;
/// The name of the commit that a tag points to follows in older versions, with this after the name of the tag.
const PEELED: &str = "^{}";
/// The same in version 2.
const PEELED_ATTRIBUTE: &str = "peeled:";

/// Which references are needed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ReferenceQuery {
    /// What the server checks out by default.
    Head,
    /// A branch.
    Branch(String),
    /// A tag.
    Tag(String),
    /// All tags.
    Tags,
}

/// A reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReferenceEntry {
    /// Its full name.
    pub name: String,
    /// What it points to, for an annotated tag what the tag points to.
    pub commit: ObjectId,
}

/// References that a query keeps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct References(Vec<ReferenceEntry>);

impl ReferenceQuery {
    /// The full name, or what the full names begin with.
    pub fn prefix(&self) -> String {
        match self {
            Self::Head => "HEAD".to_owned(),
            Self::Branch(name) => format!("refs/heads/{name}"),
            Self::Tag(name) => format!("refs/tags/{name}"),
            Self::Tags => "refs/tags/".to_owned(),
        }
    }

    /// Size, in bytes.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Branch(name) | Self::Tag(name) => name.len(),
            Self::Head | Self::Tags => 0,
        }
    }

    fn keeps(&self, name: &str) -> bool {
        match self {
            Self::Tags => name.starts_with(&self.prefix()),
            _ => name == self.prefix(),
        }
    }
}

impl References {
    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &ReferenceEntry> {
        self.0.iter()
    }

    /// The one of this full name.
    pub fn get(&self, name: &str) -> Option<&ReferenceEntry> {
        self.0.iter().find(|entry| entry.name == name)
    }

    /// Size, in bytes.
    pub fn bytes(&self) -> usize {
        self.0.iter().map(|entry| ENTRY + entry.name.len()).sum()
    }
}

/// Reads the response to a request for references, in version 2.
///
/// # Errors
/// If it is malformed, or has too many.
pub fn references(
    input: impl Read,
    query: &ReferenceQuery,
    limits: Limits,
    memory: &mut impl Meter,
) -> Result<References, WireError> {
    let mut packets = Packets::new(input);
    let mut listing = Listing::new(query, limits, memory);
    loop {
        match packets.expect()? {
            Packet::Data(data) => listing.add(line(data))?,
            Packet::Flush => return Ok(listing.finish()),
            Packet::Delimiter => {
                return Err(WireError::malformed("a list of references has several sections"));
            }
        }
    }
}

/// A list while it is read.
pub(super) struct Listing<'a, M> {
    query: &'a ReferenceQuery,
    limits: Limits,
    memory: &'a mut M,
    references: Vec<ReferenceEntry>,
    bytes: usize,
}

impl<'a, M: Meter> Listing<'a, M> {
    pub fn new(query: &'a ReferenceQuery, limits: Limits, memory: &'a mut M) -> Self {
        Self {
            query,
            limits,
            memory,
            references: Vec::new(),
            bytes: 0,
        }
    }

    /// A line of version 2: name of the object, name of the reference, and attributes.
    fn add(&mut self, line: &[u8]) -> Result<(), WireError> {
        let Ok(text) = std::str::from_utf8(line) else {
            return Ok(());
        };
        let mut words = text.split(' ');
        let (id, name) = (words.next().unwrap_or_default(), words.next());
        // A branch without a commit.
        if id == "unborn" {
            return Ok(());
        }
        let peeled = words.find_map(|word| word.strip_prefix(PEELED_ATTRIBUTE));
        self.keep(peeled.unwrap_or(id), name.unwrap_or_default())
    }

    /// A line of older versions.
    pub fn add_old(&mut self, line: &[u8]) -> Result<(), WireError> {
        let Ok(text) = std::str::from_utf8(line) else {
            return Ok(());
        };
        let (id, name) = text.split_once(' ').unwrap_or((text, ""));
        // Commits at which the history of the repository itself is cut off.
        if id == "shallow" {
            return Ok(());
        }
        let Some(tag) = name.strip_suffix(PEELED) else {
            return self.keep(id, name);
        };
        let last = self.references.last_mut().filter(|last| last.name == tag);
        if let (Some(last), Some(commit)) = (last, ObjectId::from_hex(id)) {
            last.commit = commit;
        }
        Ok(())
    }

    fn keep(&mut self, id: &str, name: &str) -> Result<(), WireError> {
        let commit = ObjectId::from_hex(id)
            .ok_or_else(|| WireError::malformed("a reference does not begin with the name of an object"))?;
        if !self.query.keeps(name) || name.len() > MAX_NAME {
            return Ok(());
        }
        if self.references.len() >= self.limits.references {
            return Err(WireError::TooManyReferences {
                limit: self.limits.references,
            });
        }
        self.bytes += ENTRY + name.len();
        self.memory.reserve(self.bytes)?;
        self.references.push(ReferenceEntry {
            name: name.to_owned(),
            commit,
        });
        Ok(())
    }

    pub fn finish(self) -> References {
        References(self.references)
    }
}

#[cfg(test)]
mod tests {
    use helm_index::{OverBudget, Unmetered};

    use super::*;
    use crate::wire::packet::{push, push_flush};

    const A: &str = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391";
    const B: &str = "ce013625030ba8dba906f756967f9e9ca394464a";

    fn list(lines: &[String]) -> Vec<u8> {
        let mut list = Vec::new();
        for line in lines {
            push(&mut list, line);
        }
        push_flush(&mut list);
        list
    }

    #[test]
    fn an_annotated_tag_is_the_commit_that_it_points_to() {
        let new = [
            format!("{A} HEAD symref-target:refs/heads/main\n"),
            format!("{A} refs/tags/v1\n"),
            format!("{A} refs/tags/v2 peeled:{B}\n"),
            "unborn refs/heads/none symref-target:x\n".to_owned(),
        ];
        let read = references(
            &*list(&new),
            &ReferenceQuery::Tags,
            Limits::default(),
            &mut Unmetered,
        )
        .unwrap();
        let commits: Vec<_> = read
            .iter()
            .map(|entry| (&*entry.name, entry.commit.to_string()))
            .collect();
        assert_eq!(
            commits,
            [("refs/tags/v1", A.to_owned()), ("refs/tags/v2", B.to_owned())]
        );

        let (query, mut memory) = (ReferenceQuery::Tags, Unmetered);
        let mut old = Listing::new(&query, Limits::default(), &mut memory);
        for line in [
            format!("{A} refs/tags/v2"),
            format!("{B} refs/tags/v2^{{}}"),
            format!("shallow {A}"),
        ] {
            old.add_old(line.as_bytes()).unwrap();
        }
        assert_eq!(old.finish().get("refs/tags/v2").unwrap().commit.to_string(), B);
    }

    #[test]
    fn a_query_keeps_exactly_what_it_names() {
        let all = [
            "HEAD",
            "refs/heads/main",
            "refs/heads/main2",
            "refs/tags/main",
            "refs/tags/v1",
        ];
        let lines: Vec<_> = all.iter().map(|name| format!("{A} {name}\n")).collect();
        for (query, expected) in [
            (ReferenceQuery::Head, &["HEAD"][..]),
            (ReferenceQuery::Branch("main".to_owned()), &["refs/heads/main"]),
            (ReferenceQuery::Tag("v1".to_owned()), &["refs/tags/v1"]),
            (ReferenceQuery::Tags, &["refs/tags/main", "refs/tags/v1"]),
        ] {
            let read = references(&*list(&lines), &query, Limits::default(), &mut Unmetered).unwrap();
            let names: Vec<_> = read.iter().map(|entry| &*entry.name).collect();
            assert_eq!(names, expected, "{query:?}");
        }
    }

    struct Budget(usize);

    impl Meter for Budget {
        fn reserve(&mut self, bytes: usize) -> Result<(), OverBudget> {
            if bytes > self.0 { Err(OverBudget) } else { Ok(()) }
        }
    }

    #[test]
    fn a_list_is_bounded() {
        let lines: Vec<_> = (0..20).map(|tag| format!("{A} refs/tags/v{tag}\n")).collect();
        let limits = Limits {
            references: 19,
            ..Limits::default()
        };
        let error = references(&*list(&lines), &ReferenceQuery::Tags, limits, &mut Unmetered);
        assert!(error.unwrap_err().to_string().contains("more than 19 matching"));
        let error = references(
            &*list(&lines),
            &ReferenceQuery::Tags,
            Limits::default(),
            &mut Budget(1000),
        );
        assert!(matches!(error, Err(WireError::Memory(_))));
    }
}
