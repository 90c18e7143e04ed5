//! What the validation of objects shares: errors of fields with their paths, as the API server reports them, limits, the names that
//! Kubernetes allows, and label selectors.

mod error;
pub mod limits;
pub mod names;
mod path;
pub mod selector;
pub mod selector_text;

pub use self::{
    error::{ErrorType, FieldError, FieldErrors},
    path::Path,
};
