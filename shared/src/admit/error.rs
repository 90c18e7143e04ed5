//! What is wrong with an object, field by field.

use std::fmt;

use super::path::Path;
use crate::{reason::Reason, text::cut};

/// How many errors of one object are told. More help nobody and would make a long answer longer.
pub const MAX_TOLD: usize = 20;

/// How many errors of one object are kept, so that an object made of errors takes no memory to speak of.
const MAX_KEPT: usize = 500;

/// Longest offending text that is repeated, in bytes: enough to recognise it.
const MAX_VALUE: usize = 120;

/// Longest path, in bytes. Keys of labels stand in paths, and may be of any length where they are wrong.
const MAX_PATH: usize = 512;

/// Longest detail, in bytes. Some repeat a part of the offending text, or list what a Policy allows.
const MAX_DETAIL: usize = 4_096;

/// In which way a field is wrong; the words are those of the API server's own validation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorType {
    /// A field is missing.
    Required,
    /// A field is set that must not be.
    Forbidden,
    /// A value is wrong.
    Invalid,
    /// A value is not one of a closed list.
    NotSupported,
    /// A value is too long.
    TooLong,
    /// A list or a map has too many items.
    TooMany,
}

impl ErrorType {
    /// The cause's type in a Status object.
    pub const fn cause(self) -> &'static str {
        match self {
            Self::Required => "FieldValueRequired",
            Self::Forbidden => "FieldValueForbidden",
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
        }
    }

    const fn title(self) -> &'static str {
        match self {
            Self::Required => "Required value",
            Self::Forbidden => "Forbidden",
            Self::Invalid => "Invalid value",
            Self::NotSupported => "Unsupported value",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
        }
    }
}

/// One error: which field, which text, what is wrong with it and how to mend it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// Path of the field.
    pub path: String,
    /// Why, in a word.
    pub reason: Reason,
    /// In which way.
    pub fault: ErrorType,
    /// The offending text, without credentials; empty where a field is missing.
    pub value: String,
    /// What is wrong, and what to do.
    pub detail: String,
}

impl FieldError {
    /// Everything but the path, in the API server's form: `Invalid value: "x": detail`.
    pub fn message(&self) -> String {
        let title = self.fault.title();
        if self.value.is_empty() {
            format!("{title}: {}", self.detail)
        } else {
            format!("{title}: {:?}: {}", self.value, self.detail)
        }
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.message())
    }
}

/// The errors of one object, in the order of their fields. At most `MAX_TOLD` of them are told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldErrors(Vec<FieldError>);

impl FieldErrors {
    /// Adds an error.
    pub fn add(
        &mut self,
        path: &Path<'_>,
        reason: Reason,
        fault: ErrorType,
        value: &str,
        detail: impl Into<String>,
    ) {
        if self.0.len() == MAX_KEPT {
            return;
        }
        self.0.push(FieldError {
            path: cut(path.to_string(), MAX_PATH),
            reason,
            fault,
            value: cut(value.to_owned(), MAX_VALUE),
            detail: cut(detail.into(), MAX_DETAIL),
        });
    }

    /// Adds an error about a value.
    pub fn invalid(&mut self, path: &Path<'_>, reason: Reason, value: &str, detail: impl Into<String>) {
        self.add(path, reason, ErrorType::Invalid, value, detail);
    }

    /// Adds an error about a missing field.
    pub fn required(&mut self, path: &Path<'_>, reason: Reason, detail: impl Into<String>) {
        self.add(path, reason, ErrorType::Required, "", detail);
    }

    /// Adds an error about a field that must not be set.
    pub fn forbidden(&mut self, path: &Path<'_>, reason: Reason, value: &str, detail: impl Into<String>) {
        self.add(path, reason, ErrorType::Forbidden, value, detail);
    }

    /// The errors that are told.
    pub fn told(&self) -> &[FieldError] {
        self.0.get(..MAX_TOLD).unwrap_or(&self.0)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many there are beyond those that are told.
    pub fn untold(&self) -> usize {
        self.0.len().saturating_sub(MAX_TOLD)
    }

    /// Splits into the errors that `stored` lacks and those that it has too, or may have.
    pub fn split_stored(self, stored: &Self) -> (Self, Self) {
        let hides_others = stored.is_incomplete() && !self.0.iter().any(is_of_limit);
        let is_old = |error: &FieldError| {
            let may_be_old = hides_others && error.reason != Reason::PolicyViolation;
            may_be_old || stored.0.contains(error)
        };
        let (old, new) = self.0.into_iter().partition(is_old);
        (Self(new), Self(old))
    }

    /// Whether an object may have more errors than these: one beyond a limit is not checked further. What Policies forbid is
    /// no such error: they decide on what is valid.
    fn is_incomplete(&self) -> bool {
        !self.is_empty() && self.0.iter().all(is_of_limit)
    }

    /// The reason of the first error.
    pub fn reason(&self) -> Option<Reason> {
        self.0.first().map(|error| error.reason)
    }
}

fn is_of_limit(error: &FieldError) -> bool {
    error.reason == Reason::LimitExceeded
}

impl fmt::Display for FieldErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.told().iter().enumerate() {
            let separator = if index == 0 { "" } else { "; " };
            write!(f, "{separator}{error}")?;
        }
        match self.untold() {
            0 => Ok(()),
            untold => write!(f, "; and {untold} more"),
        }
    }
}

impl std::error::Error for FieldErrors {}
