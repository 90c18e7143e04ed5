//! Collects the relevant nodes of a document in any layout. This is the only module that knows the structure of an index.
//!
//! The readers of all layouts pass the nodes of the document to a [`Collector`] in order. So they cannot interpret them
//! differently.

mod context;

use bounded_text::cut;

use super::entry::{Draft, Field, is_alias};
use super::error::{DocumentKind, IndexError};
use super::scalar::{Scalar, ScalarType};
use super::{ChartFilter, Detail, Index, MAX_KEPT};
use crate::meter::{Meter, OverBudget};
use context::{Context, Merges, Slot, ValueKind};

pub(super) use context::Collection;

/// How much of the document is quoted in an error, in bytes: what fits into a condition's message.
const MAX_QUOTED: usize = 200;

/// How many skipped entries of an index are kept, for a person to read.
const MAX_SKIPPED: u64 = 100;

/// Takes the nodes of one document.
pub(super) struct Collector<'w> {
    filter: &'w ChartFilter,
    detail: Detail,
    index: Index,
    context: Context,
    slot: Slot,
    /// How many open collections are ignored: an irrelevant one, and those in it.
    ignored: usize,
    merges: Merges,
    chart: String,
    draft: Draft,
    has_alias: bool,
    has_entries: bool,
    message: Option<String>,
    not_an_index: Option<DocumentKind>,
    kept: usize,
    meter: &'w mut dyn Meter,
    is_over_budget: bool,
}

impl<'w> Collector<'w> {
    pub(super) fn new(filter: &'w ChartFilter, detail: Detail, meter: &'w mut dyn Meter) -> Self {
        Self {
            filter,
            detail,
            meter,
            is_over_budget: false,
            index: Index::default(),
            context: Context::Start,
            slot: Slot::Key,
            ignored: 0,
            merges: Merges::default(),
            chart: String::new(),
            draft: Draft::default(),
            has_alias: false,
            has_entries: false,
            message: None,
            not_an_index: None,
            kept: 0,
        }
    }

    /// Whether the next node is relevant. If not, [`Self::skip`] is enough for a scalar.
    #[inline]
    pub(super) fn is_relevant(&self) -> bool {
        self.ignored == 0 && self.slot != Slot::Value(ValueKind::Ignored)
    }

    /// Handles an irrelevant scalar.
    #[inline]
    pub(super) fn skip(&mut self) {
        if self.ignored == 0 {
            self.slot = Slot::Key;
        }
    }

    /// Handles the start of a mapping or sequence.
    pub(super) fn open(&mut self, collection: Collection) {
        if self.ignored > 0 {
            self.ignored += 1;
        } else if !self.enter(collection) {
            self.reject(Some(collection));
            self.ignored = 1;
        }
    }

    /// Handles the end of the innermost mapping or sequence.
    pub(super) fn close(&mut self) {
        if self.ignored > 1 {
            self.ignored -= 1;
        } else if self.ignored == 1 {
            self.ignored = 0;
            self.slot = match self.slot {
                // What was ignored was a key; its value is ignored as well.
                Slot::Key if self.context.is_mapping() => Slot::Value(ValueKind::Ignored),
                Slot::Value(ValueKind::MergedItem) => self.slot,
                Slot::Key | Slot::Value(_) => Slot::Key,
            };
        } else if self.merges.is_into(self.context) {
            self.slot = self.merges.end(self.context);
        } else {
            self.leave();
            self.slot = Slot::Key;
        }
    }

    /// Handles a scalar: a key, a value or an item.
    pub(super) fn scalar(&mut self, scalar: Scalar<'_>) {
        if self.ignored > 0 {
            return;
        }
        match self.slot {
            Slot::Key if self.context.is_mapping() => self.slot = Slot::Value(self.value_kind(scalar)),
            Slot::Key => self.item(scalar),
            Slot::Value(kind) => {
                self.value(kind, scalar);
                if kind != ValueKind::MergedItem {
                    self.slot = Slot::Key;
                }
            }
        }
    }

    /// Returns the index, after the last node.
    pub(super) fn finish(self) -> Result<Index, IndexError> {
        match self.not_an_index {
            _ if self.kept > MAX_KEPT => Err(IndexError::TooManyVersions),
            _ if self.is_over_budget => Err(IndexError::OverBudget(OverBudget)),
            Some(kind) => Err(IndexError::NotAnIndex(kind)),
            None if self.context == Context::Start => Err(IndexError::NotAnIndex(DocumentKind::Empty)),
            None if !self.has_entries => Err(IndexError::NotAnIndex(DocumentKind::NoEntries(self.message))),
            None => Ok(self.index),
        }
    }

    /// Enters a collection, if it is expected here.
    fn enter(&mut self, collection: Collection) -> bool {
        if let Some(slot) = self.merges.begin(self.context, self.slot, collection) {
            self.slot = slot;
            return true;
        }
        let Some(context) = self.context.inner(self.slot, collection) else {
            return false;
        };
        if context == Context::Entry {
            self.draft = Draft::default();
        }
        self.has_alias = false;
        self.context = context;
        self.slot = Slot::Key;
        true
    }

    fn leave(&mut self) {
        match self.context {
            Context::Entry => self.keep(),
            Context::Versions => {
                if let Some(versions) = self.index.charts.get_mut(&self.chart) {
                    versions.shrink_to_fit();
                }
            }
            _ => {}
        }
        self.context = self.context.outer();
    }

    fn keep(&mut self) {
        let entry = match std::mem::take(&mut self.draft).finish() {
            Ok(entry) => entry,
            Err(skipped) => {
                if self.detail == Detail::Full && self.index.skipped < MAX_SKIPPED {
                    let of_chart = self.index.skipped_entries.entry(self.chart.clone());
                    of_chart.or_default().push(skipped);
                }
                self.index.skipped += 1;
                return;
            }
        };
        self.kept = self.kept.saturating_add(entry.bytes());
        self.is_over_budget = self.is_over_budget || self.meter.reserve(self.kept).is_err();
        if self.kept > MAX_KEPT || self.is_over_budget {
            // Reported at the end, because an invalid document must be reported as invalid.
            self.index.charts.clear();
        } else if let Some(versions) = self.index.charts.get_mut(&self.chart) {
            if versions.len() == versions.capacity() {
                // Small increments, since only the used memory was reserved.
                versions.reserve_exact((versions.len() / 4).max(8));
            }
            versions.push(entry);
        }
    }

    /// The purpose of the value of this key. Keys of merged mappings that exist already are ignored.
    fn value_kind(&mut self, key: Scalar<'_>) -> ValueKind {
        if key.merges() {
            return ValueKind::Merged;
        }
        let is_merged = self.merges.is_into(self.context);
        match self.context {
            Context::Document if key.text.eq_ignore_ascii_case("entries") => {
                if is_merged && self.has_entries {
                    return ValueKind::Ignored;
                }
                self.has_entries = true;
                ValueKind::Entries
            }
            Context::Document if ["message", "error"].contains(&key.text) && self.message.is_none() => {
                ValueKind::Message
            }
            Context::Entries if self.filter.contains(key.text) => {
                if is_merged && self.index.charts.contains_key(key.text) {
                    return ValueKind::Ignored;
                }
                key.text.clone_into(&mut self.chart);
                let old = self.index.charts.insert(self.chart.clone(), Vec::new());
                for entry in old.iter().flatten() {
                    self.kept -= entry.bytes();
                }
                ValueKind::Chart
            }
            Context::Entry => match self.field_of(key.text) {
                Some(field) if !(is_merged && self.draft.has(field)) => {
                    self.draft.begin(field);
                    ValueKind::Of(field)
                }
                _ => ValueKind::Ignored,
            },
            Context::Dependency
                if key.text.eq_ignore_ascii_case("alias") && !(is_merged && self.has_alias) =>
            {
                self.has_alias = true;
                ValueKind::Alias
            }
            _ => ValueKind::Ignored,
        }
    }

    /// The field with this key, if it is kept.
    fn field_of(&self, key: &str) -> Option<Field> {
        Field::of(key).or_else(|| match self.detail {
            Detail::Selection => None,
            Detail::Full => Field::of_details(key),
        })
    }

    /// Handles a scalar in a list, or in place of the document.
    fn item(&mut self, scalar: Scalar<'_>) {
        match self.context {
            Context::Urls => self.field(Field::Urls, scalar),
            Context::Start => {
                self.not_an_index = Some(match scalar.scalar_type() {
                    ScalarType::Null => DocumentKind::Empty,
                    ScalarType::Bool(_) | ScalarType::Text | ScalarType::Other => {
                        DocumentKind::Text(quoted(scalar.text))
                    }
                });
                self.context = Context::End;
            }
            _ => self.reject(None),
        }
    }

    fn value(&mut self, kind: ValueKind, scalar: Scalar<'_>) {
        match (kind, scalar.scalar_type()) {
            (ValueKind::Message, ScalarType::Text) => self.message = Some(quoted(scalar.text)),
            (ValueKind::Ignored | ValueKind::Message, _)
            | (
                ValueKind::Entries | ValueKind::Chart | ValueKind::Alias | ValueKind::Of(Field::Urls),
                ScalarType::Null,
            ) => {}
            (ValueKind::Alias, ScalarType::Text) if is_alias(scalar.text) => {}
            (ValueKind::Of(field), _) if field != Field::Urls => self.field(field, scalar),
            (
                ValueKind::Entries
                | ValueKind::Chart
                | ValueKind::Of(_)
                | ValueKind::Alias
                | ValueKind::Merged
                | ValueKind::MergedItem,
                _,
            ) => self.reject(None),
        }
    }

    fn field(&mut self, field: Field, scalar: Scalar<'_>) {
        match scalar.scalar_type() {
            ScalarType::Null => {}
            // Many are written as numbers, without quotes.
            _ if field == Field::AppVersion => self.draft.set_app_version(scalar.text),
            ScalarType::Text => self.draft.set_text(field, scalar.text),
            ScalarType::Bool(value) => self.draft.set_flag(field, value),
            ScalarType::Other => {
                // A person recognises the entry by it.
                if self.detail == Detail::Full && field == Field::Version {
                    self.draft.set_text(field, scalar.text);
                }
                self.draft.mark_invalid(field);
            }
        }
    }

    /// Rejects a node of an unexpected type: a scalar, or a collection, which is then ignored.
    fn reject(&mut self, collection: Option<Collection>) {
        match (self.context, self.slot) {
            (Context::Start, _) => self.not_an_index = Some(DocumentKind::List),
            (Context::Document, Slot::Value(ValueKind::Entries)) => {
                self.not_an_index = Some(DocumentKind::InvalidEntries);
            }
            (Context::Entries, Slot::Value(ValueKind::Chart)) | (Context::Versions, _) => {
                self.index.skipped += 1;
            }
            (Context::Entry, Slot::Value(ValueKind::Of(field))) => self.draft.mark_invalid(field),
            (Context::Entry, Slot::Value(ValueKind::Merged | ValueKind::MergedItem)) => {
                self.draft.invalidate();
            }
            (Context::Urls, _) => self.draft.mark_invalid(Field::Urls),
            // The fields of a maintainer are irrelevant.
            (Context::Maintainers, _) if collection == Some(Collection::Mapping) => {}
            (Context::Maintainers, _) => self.draft.mark_invalid(Field::Maintainers),
            (Context::Dependencies, _)
            | (
                Context::Dependency,
                Slot::Value(ValueKind::Alias | ValueKind::Merged | ValueKind::MergedItem),
            ) => {
                self.draft.mark_invalid(Field::Dependencies);
            }
            (
                Context::Document | Context::Entries | Context::Entry | Context::Dependency | Context::End,
                _,
            ) => {}
        }
    }
}

fn quoted(text: &str) -> String {
    // Truncated before it is copied: the text may be long.
    let start = text
        .get(..text.floor_char_boundary(2 * MAX_QUOTED))
        .unwrap_or(text);
    cut(start.trim().to_owned(), MAX_QUOTED)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meter::Unmetered;

    #[test]
    fn versions_beyond_the_bound_are_not_kept() {
        let filter = ChartFilter::from(["web".to_owned()]);
        let mut meter = Unmetered;
        let mut collector = Collector::new(&filter, Detail::Selection, &mut meter);
        collector.open(Collection::Mapping);
        collector.scalar(Scalar::text("entries"));
        collector.open(Collection::Mapping);
        collector.scalar(Scalar::text("web"));
        collector.open(Collection::Sequence);
        let url = "u".repeat(8000);
        let mut most = 0;
        for _ in 0..3000 {
            collector.open(Collection::Mapping);
            for text in ["name", "web", "version", "1.0.0", "digest", &url] {
                collector.scalar(Scalar::text(text));
            }
            collector.close();
            most = most.max(collector.index.bytes());
        }
        // A growing list has spare capacity.
        assert!(most > MAX_KEPT / 2 && most <= 2 * MAX_KEPT, "{most}");
        assert!(collector.index.bytes() < 1000);
        assert!(matches!(collector.finish(), Err(IndexError::TooManyVersions)));
    }

    /// Grants this many bytes.
    struct LimitedMeter(usize);

    impl Meter for LimitedMeter {
        fn reserve(&mut self, bytes: usize) -> Result<(), OverBudget> {
            if bytes > self.0 { Err(OverBudget) } else { Ok(()) }
        }
    }

    #[test]
    fn versions_beyond_the_granted_memory_are_not_kept() {
        let versions = |count: usize| "  - {name: web, version: 1.0.0, urls: [w.tgz]}\n".repeat(count);
        let read = |text: &str, limit: usize| {
            let filter = ChartFilter::from(["db".to_owned(), "web".to_owned()]);
            let layout = super::super::Layout::Any;
            super::super::read_metered(
                text.as_bytes(),
                &filter,
                layout,
                Detail::Full,
                &mut LimitedMeter(limit),
            )
        };
        let index = format!("entries:\n  web:\n{}  db:\n{}", versions(100), versions(1));
        let found = read(&index, 100 * 1024).unwrap();
        assert_eq!((found.charts["web"].len(), found.charts["db"].len()), (100, 1));
        assert!(found.bytes() > 4096);
        assert!(matches!(read(&index, 4096), Err(IndexError::OverBudget(_))));
        // An invalid document is reported as invalid.
        let broken = format!("{index}  x: [\n");
        assert!(!matches!(
            read(&broken, 4096),
            Err(IndexError::OverBudget(_)) | Ok(_)
        ));
    }
}
