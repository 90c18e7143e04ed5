//! The protocol of Git, version 2, and versions 0 and 1 of servers that have no other.
//!
//! Over HTTP each request has its own response. The greeting says which version a server has; of an older one it has all
//! references, so no request for them follows.

mod advertisement;
pub(crate) mod packet;
mod references;
mod request;
mod response;

use std::io;

use helm_index::OverBudget;
use thiserror::Error;

pub use self::{
    advertisement::{Advertisement, Capabilities, Version, advertisement},
    references::{ReferenceEntry, ReferenceQuery, References, references},
    request::{FetchRequest, fetch_request, references_request},
    response::{PackBody, pack_body},
};

/// The value of the header `Git-Protocol`, and of the environment variable `GIT_PROTOCOL`.
pub const PROTOCOL: &str = "version=2";
/// The longest text of a server in a message, in bytes.
const MAX_TEXT: usize = 256;

/// Why a response cannot be used.
#[derive(Debug, Error)]
pub enum WireError {
    /// The connection failed.
    #[error("the response cannot be read: {0}")]
    Input(#[from] io::Error),
    /// It is not what a Git server sends.
    #[error("this is not the response of a Git server: {0}")]
    Malformed(String),
    /// The server reports an error.
    #[error("the Git server responds: {0}")]
    Server(String),
    /// The server cannot do something that is needed.
    #[error("the Git server does not support {0}, which is needed to read charts")]
    Unsupported(String),
    /// There are too many references.
    #[error(
        "the repository has more than {limit} matching tags or branches, and no more are read; delete some, or name a branch, a tag or a commit"
    )]
    TooManyReferences {
        /// The limit.
        limit: usize,
    },
    /// The memory for responses is used up.
    #[error(transparent)]
    Memory(#[from] OverBudget),
}

impl WireError {
    fn malformed(cause: impl Into<String>) -> Self {
        Self::Malformed(cause.into())
    }

    /// Whether the message quotes the response.
    pub const fn has_response_text(&self) -> bool {
        matches!(self, Self::Malformed(_) | Self::Server(_) | Self::Unsupported(_))
    }

    /// What a server reports, as it can be shown.
    pub fn server(text: &[u8]) -> Self {
        let text = String::from_utf8_lossy(text);
        Self::Server(bounded_text::excerpt(text.trim(), MAX_TEXT))
    }
}
