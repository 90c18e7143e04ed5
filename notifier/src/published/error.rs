//! Why the Secret with all tokens is not written.

use std::sync::Arc;

use helmops_model::reason::Reason;
use helmops_notify::push::{MAX_ENTRIES_BYTES, SECRET};
use helmops_runtime::{
    client::CallError,
    error_class::{Class, Classified, ClassifiedError, classified},
};
use thiserror::Error;

/// Why the Secret with all tokens is not read or written.
#[derive(Debug, Error)]
pub enum PublishError {
    /// There are too many Receivers.
    #[error(
        "the tokens and names of the Receivers in this namespace have more than {0} bytes, its share of {all} KiB for all; delete Receivers",
        all = MAX_ENTRIES_BYTES >> 10
    )]
    TooMany(usize),
    /// The Secret does not exist.
    #[error(
        "Secret {0}/{SECRET} does not exist; an administrator has to create it without data: apply manifests/notifications or upgrade the \
         Helm release again"
    )]
    NotInstalled(String),
    /// A request to the API server failed.
    #[error(transparent)]
    Call(#[from] CallError),
    /// A change that was made together with others failed.
    #[error(transparent)]
    Shared(Arc<Self>),
}

impl PublishError {
    /// Whether a user has to fix it, so that a condition reports it.
    pub fn is_of_user(&self) -> bool {
        match self {
            Self::TooMany(_) | Self::NotInstalled(_) => true,
            Self::Call(_) => false,
            Self::Shared(error) => error.is_of_user(),
        }
    }
}

impl ClassifiedError for PublishError {
    fn classify(&self) -> Classified {
        match self {
            // Another Receiver may be deleted, which is no change of this one.
            Self::TooMany(_) => classified(Reason::LimitExceeded, Class::Absent),
            Self::NotInstalled(_) => classified(Reason::SecretNotFound, Class::Absent),
            Self::Call(error) => error.classify(),
            Self::Shared(error) => error.classify(),
        }
    }
}
