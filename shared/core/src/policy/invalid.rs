//! Policies that do not decode.

use std::fmt;

use bounded_text::cut;
use helmops_api::Metadata;

/// Longest error that a message quotes, in bytes: enough for the path of the field and its value.
const MAX_ERROR: usize = 300;

/// A Policy that does not decode. The order is that of the names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct InvalidPolicy {
    name: String,
    error: String,
}

impl InvalidPolicy {
    pub fn new(metadata: &Metadata, error: &str) -> Self {
        Self {
            name: metadata.name.clone().unwrap_or_default(),
            error: cut(error.to_owned(), MAX_ERROR),
        }
    }
}

impl fmt::Display for InvalidPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, error } = self;
        write!(
            f,
            "Policy {name:?} of this namespace does not decode: {error}; fix or delete it; until then nothing is allowed"
        )
    }
}
