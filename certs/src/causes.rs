//! Formats errors for users.

use std::error::Error;

/// The error and its causes in one line, outermost first. Defined here because issuing certificates to files needs no other
/// crate.
pub fn with_causes(error: &dyn Error) -> String {
    let causes = std::iter::successors(error.source(), |cause: &&dyn Error| (*cause).source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
