//! Why a Receiver is not reconciled.

use helmops_core::{reason::Reason, validation::FieldErrors};
use helmops_notify::push::MAX_ENTRIES_BYTES;
use helmops_runtime::{
    client::CallError,
    error_class::{Class, Classified, ClassifiedError, classified},
};
use thiserror::Error;

use super::token::TokenError;

/// Why a Receiver is not reconciled.
#[derive(Debug, Error)]
pub enum ReceiverError {
    /// The Receiver is invalid.
    #[error("{0}")]
    Invalid(FieldErrors),
    /// Its Secret does not exist.
    #[error("the Secret {0:?} does not exist; create it with the key \"token\"")]
    NoSecret(String),
    /// Its Secret cannot be used.
    #[error("Secret {0:?}: {1}")]
    Secret(String, TokenError),
    /// There are too many Receivers.
    #[error("the tokens and names of all Receivers have more than {} KiB, the maximum; delete Receivers", MAX_ENTRIES_BYTES >> 10)]
    TooMany,
    /// A request to the API server failed.
    #[error(transparent)]
    Call(#[from] CallError),
}

impl ReceiverError {
    /// Whether the user of the Receiver has to fix it, so that a condition reports it.
    pub const fn is_of_user(&self) -> bool {
        !matches!(self, Self::Call(_))
    }

    /// The reason of the condition.
    pub fn reason(&self) -> Reason {
        match self {
            Self::Invalid(errors) => errors.reason().unwrap_or(Reason::InvalidNotification),
            Self::NoSecret(_) => Reason::SecretNotFound,
            Self::Secret(..) => Reason::InvalidSecret,
            Self::TooMany => Reason::LimitExceeded,
            Self::Call(_) => Reason::APIError,
        }
    }
}

impl ClassifiedError for ReceiverError {
    fn classify(&self) -> Classified {
        match self {
            Self::Call(error) => error.classify(),
            // Another Receiver may be deleted, which is no change of this one.
            Self::TooMany => classified(self.reason(), Class::Absent),
            // The Receiver or its Secret changes.
            _ => classified(self.reason(), Class::Permanent),
        }
    }
}
