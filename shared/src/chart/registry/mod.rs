//! Speaking to an OCI registry: what to ask, and what its answers mean.
//!
//! The rules are those of the OCI distribution specification (1.1), of its token authentication, of RFC 9110 section 11
//! (`WWW-Authenticate`) and of RFC 8288 (`Link`). Everything here takes texts and bytes and returns values; whoever holds
//! the connection goes this way:
//!
//! ```text
//! spec.helm.repo ─► Reference ┐
//! spec.helm.version ─► VersionRequest ┴─► ask::ask ─► Ask
//!
//!   Ask::Tag          HEAD Endpoint::manifest_url(tag) ─► digest
//!   Ask::TagThenList  the same; without such a manifest, as for List
//!   Ask::List         GET Endpoint::tags_url() ─► tags_page::decode ─► TagList ─► select
//!                     link::next names the next page, at most MAX_PAGES of them
//!                     HEAD Endpoint::manifest_url(tag of the chosen version) ─► digest
//!
//! Any of these answers 401: challenge::parse ─► challenge::pick ─► Scheme
//!   Scheme::Basic     the same request again, with user name and password
//!   Scheme::Bearer    GET realm::token_url(..), with user name and password if there are any ─► token::decode
//!                     the same request again, with the token
//! Any other failure: error_body::decode says what the registry has against it
//! ```
//!
//! A digest in the reference pins what the tag must point to: see [`digest::Digest::check`].

pub mod ask;
pub mod challenge;
pub mod digest;
pub mod endpoint;
pub mod error_body;
mod header;
pub mod link;
pub mod realm;
pub mod reference;
pub mod tag;
pub mod tag_list;
pub mod tags_page;
pub mod token;
