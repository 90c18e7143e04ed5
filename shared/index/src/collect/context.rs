//! The position of a node in the structure of an index.

use super::super::entry::Field;

/// A collection of YAML, or an object or array of JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Collection {
    Mapping,
    Sequence,
}

/// The innermost open collection that is relevant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Context {
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

/// The role of the next node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    /// A key, or an item of a list.
    Key,
    Value(ValueKind),
}

/// The purpose of a key's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ValueKind {
    Ignored,
    Entries,
    Message,
    Chart,
    Of(Field),
    Alias,
    /// The mapping or list of mappings to merge.
    Merged,
    /// An item of a list of mappings to merge.
    MergedItem,
}

impl Context {
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

    /// The context inside a collection that starts here, if one of this type is expected.
    pub(super) fn inner(self, slot: Slot, collection: Collection) -> Option<Self> {
        use Collection::{Mapping, Sequence};
        match (self, slot, collection) {
            (Self::Start, _, Mapping) => Some(Self::Document),
            (Self::Document, Slot::Value(ValueKind::Entries), Mapping) => Some(Self::Entries),
            (Self::Entries, Slot::Value(ValueKind::Chart), Sequence) => Some(Self::Versions),
            (Self::Versions, _, Mapping) => Some(Self::Entry),
            (Self::Entry, Slot::Value(ValueKind::Of(Field::Urls)), Sequence) => Some(Self::Urls),
            (Self::Entry, Slot::Value(ValueKind::Of(Field::Maintainers)), Sequence) => {
                Some(Self::Maintainers)
            }
            (Self::Entry, Slot::Value(ValueKind::Of(Field::Dependencies)), Sequence) => {
                Some(Self::Dependencies)
            }
            (Self::Dependencies, _, Mapping) => Some(Self::Dependency),
            _ => None,
        }
    }

    /// The enclosing context.
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

/// The open mappings whose pairs are merged into the enclosing mapping, and lists of such mappings.
#[derive(Debug, Default)]
pub(super) struct Merges(Vec<(Context, Collection)>);

impl Merges {
    /// Whether the next pairs are merged into this context.
    pub(super) fn is_into(&self, context: Context) -> bool {
        self.0.last().is_some_and(|(into, _)| *into == context)
    }

    /// Starts a collection if it is one to merge; returns the role of the next node.
    pub(super) fn begin(&mut self, into: Context, slot: Slot, from: Collection) -> Option<Slot> {
        let next = match (slot, from) {
            (Slot::Value(ValueKind::Merged | ValueKind::MergedItem), Collection::Mapping) => Slot::Key,
            (Slot::Value(ValueKind::Merged), Collection::Sequence) => Slot::Value(ValueKind::MergedItem),
            _ => return None,
        };
        self.0.push((into, from));
        Some(next)
    }

    /// Ends the innermost collection; returns the role of the next node.
    pub(super) fn end(&mut self, into: Context) -> Slot {
        self.0.pop();
        match self.0.last() {
            Some(list) if *list == (into, Collection::Sequence) => Slot::Value(ValueKind::MergedItem),
            _ => Slot::Key,
        }
    }
}
