//! Charts: where they come from, their versions, and which version a request selects.

pub mod artifact;
pub mod config_maps;
pub mod delivery;
pub mod digest;
pub mod location;
pub mod registry;
pub mod request;
pub mod resolved;
pub mod source;
pub mod url;
