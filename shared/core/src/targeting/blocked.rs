//! A cluster that keeps what it has.

use thiserror::Error;

/// Why the desired state of a cluster cannot be delivered. The cluster keeps what it has.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{message}")]
pub struct Blocked {
    /// Whether and how it is retried.
    pub class: BlockClass,
    /// The message for the status.
    pub message: String,
}

/// The class of a [`Blocked`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockClass {
    /// A user has to change an object that is watched. It is not retried.
    UntilChange,
    /// A source could not be read.
    SourceUnreadable,
    /// Another object has the name. No watch shows its deletion.
    NameConflict,
}

impl Blocked {
    /// Until a user changes an object that is watched.
    pub fn until_change(message: impl Into<String>) -> Self {
        Self::new(BlockClass::UntilChange, message)
    }

    /// While a source cannot be read.
    pub fn source_unreadable(message: impl Into<String>) -> Self {
        Self::new(BlockClass::SourceUnreadable, message)
    }

    /// With a class and a message.
    pub(super) fn new(class: BlockClass, message: impl Into<String>) -> Self {
        Self {
            class,
            message: message.into(),
        }
    }
}
