//! An entry of the index: one version of a chart, and whether it is valid.

use masterminds_semver::Version;

/// The longest text that is kept of an entry, in bytes. URLs are the longest, and servers reject longer ones.
pub(super) const MAX_TEXT: usize = 8 * 1024;

/// One version of a chart, as the index lists it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexEntry {
    /// Version of the chart, as written.
    pub version: String,
    /// Digest of the archive, as written: SHA-256 in hexadecimal where Helm made the index. Empty if unknown.
    pub digest: String,
    /// URL of the chart archive, relative to the repository or absolute: the first one that is not empty. Empty if the index
    /// has none.
    pub url: String,
    /// When the version was published, as written; empty if unknown.
    pub created: String,
    /// Whether the version is marked as deprecated.
    pub deprecated: bool,
}

impl IndexEntry {
    /// Memory usage of the entry in bytes.
    pub(super) fn bytes(&self) -> usize {
        let texts = [&self.version, &self.digest, &self.url, &self.created];
        size_of::<Self>() + texts.map(String::capacity).iter().sum::<usize>()
    }
}

/// The fields of an entry that are evaluated.
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
    /// The field with this key. Case-insensitive, as in Helm.
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

/// An entry that is being parsed. If a field occurs twice, the last value is used.
#[derive(Debug, Default)]
pub(super) struct Draft {
    entry: IndexEntry,
    name: String,
    kind: String,
    present: u16,
    invalid: u16,
    is_invalid: bool,
}

impl Draft {
    pub(super) fn has(&self, field: Field) -> bool {
        self.present & field.bit() != 0
    }

    /// Starts a field after its key; its value follows.
    pub(super) fn begin(&mut self, field: Field) {
        self.present |= field.bit();
        self.invalid &= !field.bit();
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

    /// Marks the value of a field as invalid, or as one of a type that Helm cannot decode.
    pub(super) fn mark_invalid(&mut self, field: Field) {
        self.invalid |= field.bit();
    }

    /// Marks the entry as invalid, whatever fields follow.
    pub(super) fn invalidate(&mut self) {
        self.is_invalid = true;
    }

    /// Sets the text of a field, or the next of several. Only the first that is not empty is kept.
    pub(super) fn set_text(&mut self, field: Field, value: &str) {
        match self.text_of(field) {
            Some(text) if !text.is_empty() => {}
            Some(text) if value.len() <= MAX_TEXT => value.clone_into(text),
            Some(_) | None => self.mark_invalid(field),
        }
    }

    pub(super) fn set_flag(&mut self, field: Field, value: bool) {
        match field {
            Field::Deprecated => self.entry.deprecated = value,
            _ => self.mark_invalid(field),
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

    /// The entry, unless Helm would skip it.
    pub(super) fn finish(self) -> Option<IndexEntry> {
        let is_valid = self.invalid == 0
            && !self.is_invalid
            && is_name(&self.name)
            && matches!(self.kind.as_str(), "" | "application" | "library")
            && Version::parse(&self.entry.version).is_ok();
        is_valid.then_some(self.entry)
    }
}

/// Helm removes unprintable characters before it checks whether a name is empty, and rejects paths.
fn is_name(name: &str) -> bool {
    !name.chars().all(char::is_control) && !name.contains('/') && !matches!(name, "." | "..")
}

/// Whether this is a valid alias of a dependency.
pub(super) fn is_alias(alias: &str) -> bool {
    alias
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'))
}
