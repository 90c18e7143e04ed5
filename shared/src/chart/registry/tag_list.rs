//! The versions among the tags of a repository, over all pages: bounded in number and size, and packed.

use std::borrow::Cow;

use thiserror::Error;

use super::tag::{self, TaggedVersion};
use crate::chart::{
    meter::{Meter, OverBudget},
    select::Candidate,
};

/// How many versions are kept of a repository. The largest public repositories of charts have a few thousand.
pub const MAX_VERSIONS: usize = 100_000;

/// How long their tags may be together, in bytes.
pub const MAX_LEN: usize = 8 << 20;

/// The first piece of memory for tags, in bytes: enough for most repositories.
const FIRST: usize = 4 << 10;

/// The versions among the tags of a repository, in the order in which the registry lists them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TagList {
    /// The tags, each with a line break behind it.
    text: String,
    len: usize,
}

/// Why a list takes no more tags.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum TagListError {
    /// It has as many as are kept.
    #[error(
        "the list of tags has more than {MAX_VERSIONS} versions, or more than {} MiB of them, which is the limit; use an exact version",
        MAX_LEN >> 20
    )]
    TooLong,
    /// The memory for what is read at the same time is used up. Says nothing of the list.
    #[error(transparent)]
    OverBudget(#[from] OverBudget),
}

impl TagList {
    /// Adds a tag, if it is a version.
    ///
    /// # Errors
    /// Where the list is full, or the meter does not grant the memory.
    pub fn add(&mut self, tag: &str, meter: &mut dyn Meter) -> Result<(), TagListError> {
        if tag::version_of(tag).is_none() {
            return Ok(());
        }
        let len = self.text.len() + tag.len() + 1;
        if self.len >= MAX_VERSIONS || len > MAX_LEN {
            return Err(TagListError::TooLong);
        }
        if len > self.text.capacity() {
            let capacity = (2 * self.text.capacity()).clamp(FIRST, MAX_LEN);
            meter.reserve(capacity)?;
            self.text.reserve_exact(capacity - self.text.len());
        }
        self.text.push_str(tag);
        self.text.push('\n');
        self.len += 1;
        Ok(())
    }

    /// Gives back memory that is not used. Nothing more is to be added.
    pub fn shrink(&mut self) {
        self.text.shrink_to_fit();
    }

    /// How many versions there are.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// What it costs in memory, in bytes.
    pub const fn bytes(&self) -> usize {
        size_of::<Self>() + self.text.capacity()
    }

    /// The versions, in the order of the list.
    pub fn versions(&self) -> impl Iterator<Item = Tagged<'_>> + Clone {
        self.text.split_terminator('\n').map(Tagged::of)
    }
}

/// A tag of a list, and the version that it stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tagged<'l> {
    tag: &'l str,
    version: Cow<'l, str>,
}

impl<'l> Tagged<'l> {
    /// A tag that is known to be a version.
    fn of(tag: &'l str) -> Self {
        let version = if tag.contains('_') {
            Cow::Owned(tag.replace('_', "+"))
        } else {
            Cow::Borrowed(tag)
        };
        Self { tag, version }
    }
}

impl Candidate for Tagged<'_> {
    fn version(&self) -> &str {
        &self.version
    }
}

impl From<Tagged<'_>> for TaggedVersion {
    fn from(tagged: Tagged<'_>) -> Self {
        Self {
            tag: tagged.tag.to_owned(),
            version: tagged.version.into_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::meter::Unmetered;

    fn list(tags: impl IntoIterator<Item = String>) -> Result<TagList, TagListError> {
        let mut list = TagList::default();
        for tag in tags {
            list.add(&tag, &mut Unmetered)?;
        }
        Ok(list)
    }

    #[test]
    fn the_versions_among_tags_in_their_order() {
        let tags = ["2.0.0", "latest", "1.2.3_b.1", "v1.2.3", "sha256-0.sig", "1.2"].map(str::to_owned);
        let packed = list(tags).unwrap();
        let found: Vec<_> = packed
            .versions()
            .map(|found| (found.tag, found.version.into_owned()))
            .collect();
        let expected = [
            ("2.0.0", "2.0.0"),
            ("1.2.3_b.1", "1.2.3+b.1"),
            ("v1.2.3", "v1.2.3"),
        ];
        assert_eq!(found, expected.map(|(tag, version)| (tag, version.to_owned())));
        assert_eq!(packed.len(), found.len());
        assert!(!packed.is_empty() && TagList::default().is_empty());
    }

    #[test]
    fn it_is_bounded_over_all_pages() {
        let many = |count: usize| (0..count).map(|patch| format!("1.0.{patch}"));
        assert_eq!(list(many(MAX_VERSIONS)).unwrap().len(), MAX_VERSIONS);
        assert_eq!(list(many(MAX_VERSIONS + 1)), Err(TagListError::TooLong));
        let long = |count: usize| (0..count).map(|patch| format!("1.0.{patch}-{}", "a".repeat(100)));
        assert_eq!(list(long(MAX_VERSIONS)), Err(TagListError::TooLong));
        // What is no version does not count.
        let others = many(10).chain((0..MAX_VERSIONS).map(|at| format!("sha256-{at}.sig")));
        assert_eq!(list(others).unwrap().len(), 10);
    }

    #[test]
    fn memory_is_reserved_before_it_is_used() {
        struct Noted(usize);
        impl Meter for Noted {
            fn reserve(&mut self, bytes: usize) -> Result<(), OverBudget> {
                self.0 = self.0.max(bytes);
                if bytes > 1 << 19 { Err(OverBudget) } else { Ok(()) }
            }
        }
        let (mut list, mut meter) = (TagList::default(), Noted(0));
        let mut tags = (0..MAX_VERSIONS).map(|patch| format!("1.0.{patch}"));
        let refused = tags.find_map(|tag| list.add(&tag, &mut meter).err());
        assert_eq!(refused, Some(TagListError::OverBudget(OverBudget)));
        assert!(list.text.capacity() <= 1 << 19 && meter.0 >= list.text.capacity());
        list.shrink();
        assert!(list.bytes() < list.text.len() + 100);
    }
}
