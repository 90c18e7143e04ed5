//! Validation of Receivers.

use helmops_api::notifications::ReceiverSpec;
use helmops_core::validation::FieldErrors;

/// The errors of a Receiver.
pub fn errors(_: &ReceiverSpec) -> FieldErrors {
    FieldErrors::default()
}
