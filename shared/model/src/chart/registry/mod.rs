//! The protocol of OCI registries: requests, and how to interpret the responses.
//!
//! The rules are those of the OCI distribution specification (1.1), of its token authentication, of RFC 9110 section 11
//! (`WWW-Authenticate`) and of RFC 8288 (`Link`). This module does no I/O: it takes texts and bytes and returns
//! values. The HTTP client uses it as follows:
//!
//! ```text
//! spec.helm.repo ─► Reference ┐
//! spec.helm.version ─► VersionRequest ┴─► query::query ─► RegistryQuery
//!
//!   RegistryQuery::Tag          HEAD Endpoint::manifest_url(tag) ─► digest
//!   RegistryQuery::TagThenList  the same; if there is no such manifest, as for List
//!   RegistryQuery::List         GET Endpoint::tags_url() ─► tags_page::decode ─► TagList ─► select
//!                               link::next returns the next page, at most MAX_PAGES of them
//!                               HEAD Endpoint::manifest_url(tag of the chosen version) ─► digest
//!   RegistryQuery::OtherTag     HEAD Endpoint::manifest_url(tag) ─► digest, and then as for Digest
//!   RegistryQuery::Digest       GET Endpoint::manifest_url(digest) ─► manifest::config_digest
//!                               GET Endpoint::blob_url(configuration) ─► manifest::chart_version
//!
//! A download  GET Endpoint::manifest_url(digest) ─► manifest::chart_layer ─► GET Endpoint::blob_url(layer)
//!
//! Response 401 to any request: challenge::parse ─► challenge::pick ─► Scheme
//!   Scheme::Basic     the same request again, with user name and password
//!   Scheme::Bearer    GET realm::token_url(..), with user name and password if there are any ─► token::decode
//!                     the same request again, with the token
//! Any other error response: error_body::decode returns the registry's error
//! ```
//!
//! A digest in the reference pins what the tag must point to: see [`digest::Digest::check`].

pub mod challenge;
pub mod digest;
pub mod endpoint;
pub mod error_body;
mod header;
pub mod link;
pub mod manifest;
pub mod query;
pub mod realm;
pub mod reference;
pub mod tags_page;
pub mod token;
