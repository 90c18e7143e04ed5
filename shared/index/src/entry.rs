//! An entry of the index: one version of a chart, and whether it is valid.

use bounded_text::cut;
use masterminds_semver::Version;

/// The longest text that is kept of an entry, in bytes. URLs are the longest, and servers reject longer ones.
pub(super) const MAX_TEXT: usize = 8 * 1024;

/// The longest text that is kept for a person alone, in bytes.
const MAX_SHOWN: usize = 128;

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
    /// What no selection needs; `None` unless the index was read with [`Detail::Full`](crate::Detail::Full).
    pub details: Option<Box<EntryDetails>>,
}

/// What a person wants to know of a version, as the index has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EntryDetails {
    /// Version of the application that the chart deploys; empty if unknown.
    pub app_version: String,
}

/// An entry that was skipped because it is invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkippedEntry {
    /// Its version, as written and cut to a length that fits into a line; empty if it has none.
    pub version: String,
    /// What is wrong with it.
    pub fault: &'static str,
}

impl IndexEntry {
    /// Memory usage of the entry in bytes.
    pub(super) fn bytes(&self) -> usize {
        let texts = [&self.version, &self.digest, &self.url, &self.created];
        let details = self.details.as_ref().map_or(0, |details| {
            size_of::<EntryDetails>() + details.app_version.capacity()
        });
        size_of::<Self>() + texts.map(String::capacity).iter().sum::<usize>() + details
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
    /// For [`EntryDetails`]. Whatever its value, the entry is valid.
    AppVersion,
}

impl Field {
    /// The field with this key, if the entry is read in full.
    pub(super) fn of_details(key: &str) -> Option<Self> {
        key.eq_ignore_ascii_case("appVersion").then_some(Self::AppVersion)
    }

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
            Field::AppVersion => self.entry.details = None,
            Field::Name | Field::Version | Field::Kind | Field::Digest | Field::Urls | Field::Created => {
                if let Some(text) = self.text_of(field) {
                    text.clear();
                }
            }
        }
    }

    /// Marks the value of a field as invalid, or as one of a type that Helm cannot decode.
    pub(super) fn mark_invalid(&mut self, field: Field) {
        if field != Field::AppVersion {
            self.invalid |= field.bit();
        }
    }

    /// Marks the entry as invalid, whatever fields follow.
    pub(super) fn invalidate(&mut self) {
        self.is_invalid = true;
    }

    /// Sets the version of the application.
    pub(super) fn set_app_version(&mut self, value: &str) {
        self.entry.details = Some(Box::new(EntryDetails {
            app_version: cut(
                value
                    .get(..value.floor_char_boundary(2 * MAX_SHOWN))
                    .unwrap_or(value)
                    .to_owned(),
                MAX_SHOWN,
            ),
        }));
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
            Field::Deprecated | Field::Maintainers | Field::Dependencies | Field::AppVersion => None,
        }
    }

    /// The entry, unless Helm would skip it.
    pub(super) fn finish(self) -> Result<IndexEntry, SkippedEntry> {
        match self.fault() {
            None => Ok(self.entry),
            Some(fault) => Err(SkippedEntry {
                version: cut(self.entry.version, MAX_SHOWN),
                fault,
            }),
        }
    }

    /// Why Helm would skip it.
    fn fault(&self) -> Option<&'static str> {
        if self.invalid != 0 || self.is_invalid {
            Some(self.invalid_field())
        } else if !is_name(&self.name) {
            Some("its name is empty, or has a slash")
        } else if !matches!(self.kind.as_str(), "" | "application" | "library") {
            Some("its type is neither application nor library")
        } else if self.entry.version.is_empty() {
            Some("it has no version")
        } else if Version::parse(&self.entry.version).is_err() {
            Some("its version is not a semantic version such as 1.2.3")
        } else {
            None
        }
    }

    /// What is wrong with an entry that has an invalid field: the first of several.
    fn invalid_field(&self) -> &'static str {
        let faults = [
            (
                Field::Version,
                "its version is not text; it needs quotes in the index, as \"1.10\" does",
            ),
            (Field::Name, "its name is not text"),
            (Field::Kind, "its type is not text"),
            (Field::Digest, "its digest is not text"),
            (Field::Urls, "its urls are not a list of texts"),
            (Field::Created, "its created is not text"),
            (Field::Deprecated, "its deprecated is neither true nor false"),
            (
                Field::Maintainers,
                "one of its maintainers is null or not a mapping",
            ),
            (
                Field::Dependencies,
                "one of its dependencies is null, or has an invalid alias",
            ),
        ];
        faults
            .iter()
            .find(|(field, _)| self.invalid & field.bit() != 0)
            .map_or("it is not a mapping of fields", |(_, fault)| *fault)
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
