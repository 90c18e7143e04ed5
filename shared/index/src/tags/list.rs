//! The versions among the tags of a repository, over all pages: bounded in number and size, in a compact form.

use std::borrow::Cow;

use super::TaggedVersion;
use crate::{Candidate, Meter, OverBudget};
use thiserror::Error;

/// How many versions of a repository are kept. The largest public chart repositories have a few thousand.
pub const MAX_VERSIONS: usize = 100_000;

/// Maximum total length of their tags, in bytes.
pub const MAX_LEN: usize = 8 << 20;

/// Initial capacity for tags, in bytes: enough for most repositories.
const INITIAL_CAPACITY: usize = 4 << 10;

/// The versions among the tags of a repository, in the order of the registry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TagList {
    /// The tags, each followed by a line break.
    text: String,
    len: usize,
    others: usize,
}

/// Why a tag cannot be added to a list.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum TagListError {
    /// The list is full.
    #[error(
        "the list of tags has more than {MAX_VERSIONS} versions, or more than {} MiB of them, which is the limit; use an exact version",
        MAX_LEN >> 20
    )]
    TooLong,
    /// The memory for all documents that are parsed at the same time is used up. The list itself is not at fault.
    #[error(transparent)]
    OverBudget(#[from] OverBudget),
}

impl TagList {
    /// Adds a tag, if it is a version.
    ///
    /// # Errors
    /// When the list is full, or the meter does not grant the memory.
    pub fn add(&mut self, tag: &str, meter: &mut dyn Meter) -> Result<(), TagListError> {
        if super::version_of(tag).is_none() {
            self.others += 1;
            return Ok(());
        }
        let len = self.text.len() + tag.len() + 1;
        if self.len >= MAX_VERSIONS || len > MAX_LEN {
            return Err(TagListError::TooLong);
        }
        if len > self.text.capacity() {
            let capacity = (2 * self.text.capacity()).clamp(INITIAL_CAPACITY, MAX_LEN);
            meter.reserve(capacity)?;
            self.text.reserve_exact(capacity - self.text.len());
        }
        self.text.push_str(tag);
        self.text.push('\n');
        self.len += 1;
        Ok(())
    }

    /// Releases unused memory. Call it after the last tag.
    pub fn shrink(&mut self) {
        self.text.shrink_to_fit();
    }

    /// How many versions there are.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// How many other tags there are, such as `latest`.
    pub const fn others(&self) -> usize {
        self.others
    }

    /// Whether there are no versions.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Memory usage in bytes.
    pub const fn bytes(&self) -> usize {
        size_of::<Self>() + self.text.capacity()
    }

    /// The versions, in the order of the list.
    pub fn versions(&self) -> impl Iterator<Item = Tagged<'_>> + Clone {
        self.text.split_terminator('\n').map(Tagged::of)
    }
}

/// A tag of a list, and the version that it represents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tagged<'l> {
    tag: &'l str,
    version: Cow<'l, str>,
}

impl<'l> Tagged<'l> {
    /// For a tag that is known to be a version.
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
    use crate::Unmetered;

    fn list(tags: impl IntoIterator<Item = String>) -> Result<TagList, TagListError> {
        let mut list = TagList::default();
        for tag in tags {
            list.add(&tag, &mut Unmetered)?;
        }
        Ok(list)
    }

    #[test]
    fn versions_are_kept_in_the_order_of_the_tags() {
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
    fn number_and_size_are_bounded_over_all_pages() {
        let many = |count: usize| (0..count).map(|patch| format!("1.0.{patch}"));
        assert_eq!(list(many(MAX_VERSIONS)).unwrap().len(), MAX_VERSIONS);
        assert_eq!(list(many(MAX_VERSIONS + 1)), Err(TagListError::TooLong));
        let long = |count: usize| (0..count).map(|patch| format!("1.0.{patch}-{}", "a".repeat(100)));
        assert_eq!(list(long(MAX_VERSIONS)), Err(TagListError::TooLong));
        // Tags that are not versions do not count.
        let others = many(10).chain((0..MAX_VERSIONS).map(|at| format!("sha256-{at}.sig")));
        assert_eq!(list(others).unwrap().len(), 10);
    }

    #[test]
    fn memory_is_reserved_before_it_is_used() {
        struct RecordingMeter(usize);
        impl Meter for RecordingMeter {
            fn reserve(&mut self, bytes: usize) -> Result<(), OverBudget> {
                self.0 = self.0.max(bytes);
                if bytes > 1 << 19 { Err(OverBudget) } else { Ok(()) }
            }
        }
        let (mut list, mut meter) = (TagList::default(), RecordingMeter(0));
        let mut tags = (0..MAX_VERSIONS).map(|patch| format!("1.0.{patch}"));
        let error = tags.find_map(|tag| list.add(&tag, &mut meter).err());
        assert_eq!(error, Some(TagListError::OverBudget(OverBudget)));
        assert!(list.text.capacity() <= 1 << 19 && meter.0 >= list.text.capacity());
        list.shrink();
        assert!(list.bytes() < list.text.len() + 100);
    }
}
