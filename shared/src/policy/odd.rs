//! Policies that do not decode.

use std::fmt;

use crate::{api::Metadata, text::cut};

/// Longest explanation that a message repeats, in bytes: enough for the path of the field and what stands in it.
const MAX_EXPLANATION: usize = 300;

/// A Policy that does not decode, in the order of the names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct InvalidPolicy {
    policy: String,
    why: String,
}

impl InvalidPolicy {
    pub fn new(metadata: &Metadata, why: &str) -> Self {
        Self {
            policy: metadata.name.clone().unwrap_or_default(),
            why: cut(why.to_owned(), MAX_EXPLANATION),
        }
    }
}

impl fmt::Display for InvalidPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { policy, why } = self;
        write!(
            f,
            "Policy {policy:?} of this namespace does not decode: {why}; mend or delete it, until then nothing is allowed"
        )
    }
}
