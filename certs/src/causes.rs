//! Errors as people read them.

use std::error::Error;

/// The error and its causes in one line, outermost first. Who issues certificates to files needs nothing of the other
/// crates, so this is not theirs.
pub fn with_causes(error: &dyn Error) -> String {
    let causes = std::iter::successors(error.source(), |cause: &&dyn Error| (*cause).source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
