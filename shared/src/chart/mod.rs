//! Charts: where they come from, their versions, and which version a request selects.

pub mod constraint;
pub mod index;
pub mod location;
pub mod meter;
pub mod registry;
pub mod request;
pub mod resolved;
pub mod select;
pub mod source;
pub mod url;
pub mod version;
