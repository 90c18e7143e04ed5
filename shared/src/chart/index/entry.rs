//! One version of a chart, and when it counts as one.

use crate::chart::version::Version;

/// The longest text that is kept of an entry, in bytes. URLs are the longest, and servers refuse them beyond this.
pub(super) const MAX_TEXT: usize = 8 * 1024;

/// One version of a chart, as the index lists it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexEntry {
    /// Version of the chart, as written.
    pub version: String,
    /// Digest of the archive, as written: SHA-256 in hexadecimal where Helm made the index. Empty if unknown.
    pub digest: String,
    /// Where the chart archive is, relative to the repository or absolute: the first URL that is not empty. Empty where
    /// the index names no place.
    pub url: String,
    /// When the version was published, as written; empty if unknown.
    pub created: String,
    /// Whether the chart's makers advise against it.
    pub deprecated: bool,
}

impl IndexEntry {
    /// What the entry costs in memory, in bytes.
    pub(super) fn bytes(&self) -> usize {
        let texts = [&self.version, &self.digest, &self.url, &self.created];
        size_of::<Self>() + texts.map(String::capacity).iter().sum::<usize>()
    }
}

/// The fields of an entry that are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    Name,
    Version,
    Kind,
    Digest,
    Urls,
    Created,
    Deprecated,
    Maintainers,
    Dependencies,
}

impl Field {
    /// The field of this key. The case does not matter, as to Helm.
    pub(super) fn of(key: &str) -> Option<Self> {
        [
            ("name", Self::Name),
            ("version", Self::Version),
            ("type", Self::Kind),
            ("digest", Self::Digest),
            ("urls", Self::Urls),
            ("created", Self::Created),
            ("deprecated", Self::Deprecated),
            ("maintainers", Self::Maintainers),
            ("dependencies", Self::Dependencies),
        ]
        .into_iter()
        .find_map(|(name, field)| key.eq_ignore_ascii_case(name).then_some(field))
    }

    fn bit(self) -> u16 {
        1 << self as u16
    }
}

/// An entry in the making. A field that comes twice counts as it comes last.
#[derive(Debug, Default)]
pub(super) struct Draft {
    entry: IndexEntry,
    name: String,
    kind: String,
    seen: u16,
    broken: u16,
    is_spoilt: bool,
}

impl Draft {
    pub(super) fn has(&self, field: Field) -> bool {
        self.seen & field.bit() != 0
    }

    /// A key has come; its value follows.
    pub(super) fn begin(&mut self, field: Field) {
        self.seen |= field.bit();
        self.broken &= !field.bit();
        match field {
            Field::Deprecated => self.entry.deprecated = false,
            Field::Maintainers | Field::Dependencies => {}
            Field::Name | Field::Version | Field::Kind | Field::Digest | Field::Urls | Field::Created => {
                if let Some(text) = self.text_of(field) {
                    text.clear();
                }
            }
        }
    }

    /// The value is of a type that Helm cannot decode, or is not valid.
    pub(super) fn refuse(&mut self, field: Field) {
        self.broken |= field.bit();
    }

    /// Something is wrong that no later field mends.
    pub(super) fn spoil(&mut self) {
        self.is_spoilt = true;
    }

    /// The text of a field, or the next of several. Only the first that is not empty is kept.
    pub(super) fn set_text(&mut self, field: Field, value: &str) {
        match self.text_of(field) {
            Some(text) if !text.is_empty() => {}
            Some(text) if value.len() <= MAX_TEXT => value.clone_into(text),
            Some(_) | None => self.refuse(field),
        }
    }

    pub(super) fn set_flag(&mut self, field: Field, value: bool) {
        match field {
            Field::Deprecated => self.entry.deprecated = value,
            _ => self.refuse(field),
        }
    }

    fn text_of(&mut self, field: Field) -> Option<&mut String> {
        match field {
            Field::Name => Some(&mut self.name),
            Field::Version => Some(&mut self.entry.version),
            Field::Kind => Some(&mut self.kind),
            Field::Digest => Some(&mut self.entry.digest),
            Field::Urls => Some(&mut self.entry.url),
            Field::Created => Some(&mut self.entry.created),
            Field::Deprecated | Field::Maintainers | Field::Dependencies => None,
        }
    }

    /// The entry, unless Helm would pass over it.
    pub(super) fn finish(self) -> Option<IndexEntry> {
        let satisfies = self.broken == 0
            && !self.is_spoilt
            && is_name(&self.name)
            && matches!(self.kind.as_str(), "" | "application" | "library")
            && Version::parse(&self.entry.version).is_ok();
        satisfies.then_some(self.entry)
    }
}

/// Helm drops what cannot be printed before it looks whether a name is empty, and refuses paths.
fn is_name(name: &str) -> bool {
    !name.chars().all(char::is_control) && !name.contains('/') && !matches!(name, "." | "..")
}

/// Whether a dependency may be called this.
pub(super) fn is_alias(alias: &str) -> bool {
    alias
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'))
}
