//! What is kept of a document, whichever way it is written: the one place that knows what an index looks like.
//!
//! The readers of the layouts tell a [`Collector`] the nodes of the document in their order. So they cannot differ in
//! what they make of them.

mod place;

use super::entry::{Draft, Field, is_alias};
use super::error::{IndexError, Instead};
use super::scalar::{Meaning, Scalar};
use super::{ChartFilter, Index, MAX_KEPT};
use crate::chart::meter::{Meter, OverBudget};
use crate::text::cut;
use place::{Merges, Place, Slot, Value};

pub(super) use place::Collection;

/// How much of a foreign document is quoted in an error, in bytes: what fits into a condition's message.
const MAX_QUOTED: usize = 200;

/// Takes the nodes of one document.
pub(super) struct Collector<'w> {
    wanted: &'w ChartFilter,
    index: Index,
    place: Place,
    slot: Slot,
    /// How many collections are open that do not matter: one that does not, and those in it.
    ignored: usize,
    merges: Merges,
    chart: String,
    draft: Draft,
    has_alias: bool,
    has_entries: bool,
    message: Option<String>,
    instead: Option<Instead>,
    kept: usize,
    meter: &'w mut dyn Meter,
    is_over_budget: bool,
}

impl<'w> Collector<'w> {
    pub(super) fn new(wanted: &'w ChartFilter, meter: &'w mut dyn Meter) -> Self {
        Self {
            wanted,
            meter,
            is_over_budget: false,
            index: Index::default(),
            place: Place::Start,
            slot: Slot::Key,
            ignored: 0,
            merges: Merges::default(),
            chart: String::new(),
            draft: Draft::default(),
            has_alias: false,
            has_entries: false,
            message: None,
            instead: None,
            kept: 0,
        }
    }

    /// Whether it matters what the next node is. If not, [`Self::pass`] will do for a scalar.
    #[inline]
    pub(super) fn listens(&self) -> bool {
        self.ignored == 0 && self.slot != Slot::Value(Value::Ignored)
    }

    /// A scalar that does not matter.
    #[inline]
    pub(super) fn pass(&mut self) {
        if self.ignored == 0 {
            self.slot = Slot::Key;
        }
    }

    /// A mapping or sequence begins.
    pub(super) fn open(&mut self, what: Collection) {
        if self.ignored > 0 {
            self.ignored += 1;
        } else if !self.enter(what) {
            self.refuse(Some(what));
            self.ignored = 1;
        }
    }

    /// The innermost mapping or sequence ends.
    pub(super) fn close(&mut self) {
        if self.ignored > 1 {
            self.ignored -= 1;
        } else if self.ignored == 1 {
            self.ignored = 0;
            self.slot = match self.slot {
                // What was ignored was a key; its value is ignored as well.
                Slot::Key if self.place.is_mapping() => Slot::Value(Value::Ignored),
                Slot::Value(Value::MergedItem) => self.slot,
                Slot::Key | Slot::Value(_) => Slot::Key,
            };
        } else if self.merges.reach(self.place) {
            self.slot = self.merges.end(self.place);
        } else {
            self.leave();
            self.slot = Slot::Key;
        }
    }

    /// A scalar: a key, a value or an item.
    pub(super) fn scalar(&mut self, scalar: Scalar<'_>) {
        if self.ignored > 0 {
            return;
        }
        match self.slot {
            Slot::Key if self.place.is_mapping() => self.slot = Slot::Value(self.value_of(scalar)),
            Slot::Key => self.item(scalar),
            Slot::Value(value) => {
                self.value(value, scalar);
                if value != Value::MergedItem {
                    self.slot = Slot::Key;
                }
            }
        }
    }

    /// The index, after the last node.
    pub(super) fn finish(self) -> Result<Index, IndexError> {
        match self.instead {
            _ if self.kept > MAX_KEPT => Err(IndexError::TooManyVersions),
            _ if self.is_over_budget => Err(IndexError::OverBudget(OverBudget)),
            Some(instead) => Err(IndexError::NotAnIndex(instead)),
            None if self.place == Place::Start => Err(IndexError::NotAnIndex(Instead::Empty)),
            None if !self.has_entries => Err(IndexError::NotAnIndex(Instead::NoEntries(self.message))),
            None => Ok(self.index),
        }
    }

    /// Enters a collection, if it is one that belongs here.
    fn enter(&mut self, what: Collection) -> bool {
        if let Some(slot) = self.merges.begin(self.place, self.slot, what) {
            self.slot = slot;
            return true;
        }
        let Some(place) = self.place.inner(self.slot, what) else {
            return false;
        };
        if place == Place::Entry {
            self.draft = Draft::default();
        }
        self.has_alias = false;
        self.place = place;
        self.slot = Slot::Key;
        true
    }

    fn leave(&mut self) {
        match self.place {
            Place::Entry => self.keep(),
            Place::Versions => {
                if let Some(versions) = self.index.charts.get_mut(&self.chart) {
                    versions.shrink_to_fit();
                }
            }
            _ => {}
        }
        self.place = self.place.outer();
    }

    fn keep(&mut self) {
        let Some(entry) = std::mem::take(&mut self.draft).finish() else {
            self.index.skipped += 1;
            return;
        };
        self.kept = self.kept.saturating_add(entry.bytes());
        self.is_over_budget = self.is_over_budget || self.meter.reserve(self.kept).is_err();
        if self.kept > MAX_KEPT || self.is_over_budget {
            // Told at the end: a document that is not even valid is to be called that.
            self.index.charts.clear();
        } else if let Some(versions) = self.index.charts.get_mut(&self.chart) {
            if versions.len() == versions.capacity() {
                // Little is spare, since only what is used was reserved.
                versions.reserve_exact((versions.len() / 4).max(8));
            }
            versions.push(entry);
        }
    }

    /// What the value of this key is. What merged mappings repeat does not count.
    fn value_of(&mut self, key: Scalar<'_>) -> Value {
        if key.merges() {
            return Value::Merged;
        }
        let is_merged = self.merges.reach(self.place);
        match self.place {
            Place::Document if key.text.eq_ignore_ascii_case("entries") => {
                if is_merged && self.has_entries {
                    return Value::Ignored;
                }
                self.has_entries = true;
                Value::Entries
            }
            Place::Document if ["message", "error"].contains(&key.text) && self.message.is_none() => {
                Value::Message
            }
            Place::Entries if self.wanted.contains(key.text) => {
                if is_merged && self.index.charts.contains_key(key.text) {
                    return Value::Ignored;
                }
                key.text.clone_into(&mut self.chart);
                let old = self.index.charts.insert(self.chart.clone(), Vec::new());
                for entry in old.iter().flatten() {
                    self.kept -= entry.bytes();
                }
                Value::Chart
            }
            Place::Entry => match Field::of(key.text) {
                Some(field) if !(is_merged && self.draft.has(field)) => {
                    self.draft.begin(field);
                    Value::Of(field)
                }
                _ => Value::Ignored,
            },
            Place::Dependency if key.text.eq_ignore_ascii_case("alias") && !(is_merged && self.has_alias) => {
                self.has_alias = true;
                Value::Alias
            }
            _ => Value::Ignored,
        }
    }

    /// A scalar in a list, or for a document.
    fn item(&mut self, scalar: Scalar<'_>) {
        match self.place {
            Place::Urls => self.field(Field::Urls, scalar),
            Place::Start => {
                self.instead = Some(match scalar.meaning() {
                    Meaning::Null => Instead::Empty,
                    Meaning::Bool(_) | Meaning::Text | Meaning::Other => Instead::Text(quoted(scalar.text)),
                });
                self.place = Place::End;
            }
            _ => self.refuse(None),
        }
    }

    fn value(&mut self, value: Value, scalar: Scalar<'_>) {
        match (value, scalar.meaning()) {
            (Value::Message, Meaning::Text) => self.message = Some(quoted(scalar.text)),
            (Value::Ignored | Value::Message, _)
            | (Value::Entries | Value::Chart | Value::Alias | Value::Of(Field::Urls), Meaning::Null) => {}
            (Value::Alias, Meaning::Text) if is_alias(scalar.text) => {}
            (Value::Of(field), _) if field != Field::Urls => self.field(field, scalar),
            (
                Value::Entries
                | Value::Chart
                | Value::Of(_)
                | Value::Alias
                | Value::Merged
                | Value::MergedItem,
                _,
            ) => self.refuse(None),
        }
    }

    fn field(&mut self, field: Field, scalar: Scalar<'_>) {
        match scalar.meaning() {
            Meaning::Null => {}
            Meaning::Text => self.draft.set_text(field, scalar.text),
            Meaning::Bool(value) => self.draft.set_flag(field, value),
            Meaning::Other => self.draft.refuse(field),
        }
    }

    /// A node of a kind that does not belong here: a scalar, or a collection that is then ignored.
    fn refuse(&mut self, what: Option<Collection>) {
        match (self.place, self.slot) {
            (Place::Start, _) => self.instead = Some(Instead::List),
            (Place::Document, Slot::Value(Value::Entries)) => self.instead = Some(Instead::OddEntries),
            (Place::Entries, Slot::Value(Value::Chart)) | (Place::Versions, _) => self.index.skipped += 1,
            (Place::Entry, Slot::Value(Value::Of(field))) => self.draft.refuse(field),
            (Place::Entry, Slot::Value(Value::Merged | Value::MergedItem)) => self.draft.spoil(),
            (Place::Urls, _) => self.draft.refuse(Field::Urls),
            // What a maintainer is called does not matter.
            (Place::Maintainers, _) if what == Some(Collection::Mapping) => {}
            (Place::Maintainers, _) => self.draft.refuse(Field::Maintainers),
            (Place::Dependencies, _)
            | (Place::Dependency, Slot::Value(Value::Alias | Value::Merged | Value::MergedItem)) => {
                self.draft.refuse(Field::Dependencies);
            }
            (Place::Document | Place::Entries | Place::Entry | Place::Dependency | Place::End, _) => {}
        }
    }
}

fn quoted(text: &str) -> String {
    // Cut before it is copied: the text may be long.
    let beginning = text
        .get(..text.floor_char_boundary(2 * MAX_QUOTED))
        .unwrap_or(text);
    cut(beginning.trim().to_owned(), MAX_QUOTED)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::meter::Unmetered;

    #[test]
    fn nothing_is_kept_over_the_bound() {
        let wanted = ChartFilter::from(["web".to_owned()]);
        let mut meter = Unmetered;
        let mut collector = Collector::new(&wanted, &mut meter);
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
        // A part of a list that grows is spare.
        assert!(most > MAX_KEPT / 2 && most <= 2 * MAX_KEPT, "{most}");
        assert!(collector.index.bytes() < 1000);
        assert!(matches!(collector.finish(), Err(IndexError::TooManyVersions)));
    }

    /// Grants so much and no more.
    struct Granted(usize);

    impl Meter for Granted {
        fn reserve(&mut self, bytes: usize) -> Result<(), OverBudget> {
            if bytes > self.0 { Err(OverBudget) } else { Ok(()) }
        }
    }

    #[test]
    fn nothing_is_kept_over_the_budget() {
        let versions = |count: usize| "  - {name: web, version: 1.0.0, urls: [w.tgz]}\n".repeat(count);
        let read = |text: &str, granted: usize| {
            let wanted = ChartFilter::from(["db".to_owned(), "web".to_owned()]);
            let layout = super::super::Layout::Any;
            super::super::read_metered(text.as_bytes(), &wanted, layout, &mut Granted(granted))
        };
        let index = format!("entries:\n  web:\n{}  db:\n{}", versions(100), versions(1));
        let found = read(&index, 100 * 1024).unwrap();
        assert_eq!((found.charts["web"].len(), found.charts["db"].len()), (100, 1));
        assert!(found.bytes() > 4096);
        assert!(matches!(read(&index, 4096), Err(IndexError::OverBudget(_))));
        // What is no index at all is called that.
        let broken = format!("{index}  x: [\n");
        assert!(!matches!(
            read(&broken, 4096),
            Err(IndexError::OverBudget(_)) | Ok(_)
        ));
    }
}
