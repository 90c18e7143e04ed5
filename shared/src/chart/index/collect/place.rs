//! Where in an index a node stands.

use super::super::entry::Field;

/// A collection of YAML, or an object or array of JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Collection {
    Mapping,
    Sequence,
}

/// The innermost open collection that matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Start,
    Document,
    Entries,
    Versions,
    Entry,
    Urls,
    Maintainers,
    Dependencies,
    Dependency,
    End,
}

/// What the next node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    /// A key, or an item of a list.
    Key,
    Value(Value),
}

/// What the value of a key is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Ignored,
    Entries,
    Message,
    Chart,
    Of(Field),
    Alias,
    /// What a mapping is to be merged with.
    Merged,
    /// The same, in a list of several.
    MergedItem,
}

impl Place {
    pub(super) fn is_mapping(self) -> bool {
        match self {
            Self::Document | Self::Entries | Self::Entry | Self::Dependency => true,
            Self::Start
            | Self::Versions
            | Self::Urls
            | Self::Maintainers
            | Self::Dependencies
            | Self::End => false,
        }
    }

    /// The place in a collection that begins here, if one of this kind belongs here.
    pub(super) fn inner(self, slot: Slot, what: Collection) -> Option<Self> {
        use Collection::{Mapping, Sequence};
        match (self, slot, what) {
            (Self::Start, _, Mapping) => Some(Self::Document),
            (Self::Document, Slot::Value(Value::Entries), Mapping) => Some(Self::Entries),
            (Self::Entries, Slot::Value(Value::Chart), Sequence) => Some(Self::Versions),
            (Self::Versions, _, Mapping) => Some(Self::Entry),
            (Self::Entry, Slot::Value(Value::Of(Field::Urls)), Sequence) => Some(Self::Urls),
            (Self::Entry, Slot::Value(Value::Of(Field::Maintainers)), Sequence) => Some(Self::Maintainers),
            (Self::Entry, Slot::Value(Value::Of(Field::Dependencies)), Sequence) => Some(Self::Dependencies),
            (Self::Dependencies, _, Mapping) => Some(Self::Dependency),
            _ => None,
        }
    }

    /// The place that this one is in.
    pub(super) fn outer(self) -> Self {
        match self {
            Self::Start | Self::Document | Self::End => Self::End,
            Self::Entries => Self::Document,
            Self::Versions => Self::Entries,
            Self::Entry => Self::Versions,
            Self::Urls | Self::Maintainers | Self::Dependencies => Self::Entry,
            Self::Dependency => Self::Dependencies,
        }
    }
}

/// The mappings whose pairs are taken for those of the ones around them, and lists of such.
#[derive(Debug, Default)]
pub(super) struct Merges(Vec<(Place, Collection)>);

impl Merges {
    /// Whether the pairs that come are merged into this place.
    pub(super) fn reach(&self, place: Place) -> bool {
        self.0.last().is_some_and(|(into, _)| *into == place)
    }

    /// Begins, if it is a collection to merge from that begins here; tells what comes next.
    pub(super) fn begin(&mut self, into: Place, slot: Slot, from: Collection) -> Option<Slot> {
        let next = match (slot, from) {
            (Slot::Value(Value::Merged | Value::MergedItem), Collection::Mapping) => Slot::Key,
            (Slot::Value(Value::Merged), Collection::Sequence) => Slot::Value(Value::MergedItem),
            _ => return None,
        };
        self.0.push((into, from));
        Some(next)
    }

    /// Ends the innermost; tells what comes next.
    pub(super) fn end(&mut self, into: Place) -> Slot {
        self.0.pop();
        match self.0.last() {
            Some(list) if *list == (into, Collection::Sequence) => Slot::Value(Value::MergedItem),
            _ => Slot::Key,
        }
    }
}
