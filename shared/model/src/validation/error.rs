//! Validation errors of an object, field by field.

use std::fmt;

use bounded_text::cut;

use super::path::Path;
use crate::reason::Reason;

/// How many errors of one object are reported. More would not help the user and would make a long response longer.
pub const MAX_REPORTED: usize = 20;

/// How many errors of one object are kept, so that an object with many errors takes little memory.
const MAX_KEPT: usize = 500;

/// Longest offending text that a message quotes, in bytes: enough to recognise it.
const MAX_VALUE: usize = 120;

/// Longest path, in bytes. Paths contain keys of labels, and an invalid key may have any length.
const MAX_PATH: usize = 512;

/// Longest detail, in bytes. Some quote a part of the offending text, or list what a Policy allows.
const MAX_DETAIL: usize = 4_096;

/// Type of a validation error. The texts are those of the API server's own validation (`field.ErrorType`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorType {
    /// A field is missing.
    Required,
    /// A field is set that must not be set.
    Forbidden,
    /// A value is invalid.
    Invalid,
    /// A value is not one of a closed list.
    NotSupported,
    /// A value is too long.
    TooLong,
    /// A list or a map has too many items.
    TooMany,
}

impl ErrorType {
    /// The type of the cause in a Status object (`metav1.CauseType`).
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

/// One error: the field, the offending text, what is wrong with it and how to fix it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// Path of the field.
    pub path: String,
    /// The reason.
    pub reason: Reason,
    /// The type of the error.
    pub error_type: ErrorType,
    /// The offending text, without credentials; empty if a field is missing.
    pub value: String,
    /// What is wrong, and what to do.
    pub detail: String,
}

impl FieldError {
    /// Everything but the path, in the API server's form: `Invalid value: "x": detail`.
    pub fn message(&self) -> String {
        let title = self.error_type.title();
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

/// The errors of one object, in the order of their fields. At most `MAX_REPORTED` of them are reported.
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
            error_type: fault,
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

    /// The errors that are reported.
    pub fn reported(&self) -> &[FieldError] {
        self.0.get(..MAX_REPORTED).unwrap_or(&self.0)
    }

    /// Whether there are no errors.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many errors there are beyond those that are reported.
    pub fn omitted(&self) -> usize {
        self.0.len().saturating_sub(MAX_REPORTED)
    }

    /// Splits the errors into new ones and those that `stored` has too, or may have.
    pub fn split_stored(self, stored: &Self) -> (Self, Self) {
        let hides_others = stored.is_incomplete() && !self.0.iter().any(is_limit_error);
        let is_old = |error: &FieldError| {
            let may_be_old = hides_others && error.reason != Reason::PolicyViolation;
            may_be_old || stored.0.contains(error)
        };
        let (old, new) = self.0.into_iter().partition(is_old);
        (Self(new), Self(old))
    }

    /// Whether an object may have more errors than these: an object that exceeds a limit is not checked further. Policies are
    /// checked for valid objects only, so a violation never hides other errors.
    fn is_incomplete(&self) -> bool {
        !self.is_empty() && self.0.iter().all(is_limit_error)
    }

    /// Whether one of them is about a limit of size.
    pub fn exceed_limit(&self) -> bool {
        self.0.iter().any(is_limit_error)
    }

    /// The reason of the first error.
    pub fn reason(&self) -> Option<Reason> {
        self.0.first().map(|error| error.reason)
    }
}

fn is_limit_error(error: &FieldError) -> bool {
    error.reason == Reason::LimitExceeded
}

impl fmt::Display for FieldErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.reported().iter().enumerate() {
            let separator = if index == 0 { "" } else { "; " };
            write!(f, "{separator}{error}")?;
        }
        match self.omitted() {
            0 => Ok(()),
            omitted => write!(f, "; and {omitted} more"),
        }
    }
}

impl std::error::Error for FieldErrors {}
