//! Why a token or a request could not be reconciled.

use helmops_core::registration::InvalidTtl;
use helmops_model::reason::Reason;
use helmops_runtime::{
    client::CallError,
    error_class::{Class, Classified, ClassifiedError, classified},
};
use thiserror::Error;

/// Why a token or a request could not be reconciled.
#[derive(Debug, Error)]
pub enum RegistrationError {
    /// The validity of a token is no duration.
    #[error(transparent)]
    InvalidTtl(#[from] InvalidTtl),
    /// A Secret with the name of the token belongs to something else.
    #[error(
        "Secret {0} exists and is not that of a ClusterRegistrationToken, so it is left as it is; delete it, or create a token with another name"
    )]
    ForeignSecret(String),
    /// A request failed.
    #[error(transparent)]
    Api(#[from] CallError),
}

impl ClassifiedError for RegistrationError {
    fn classify(&self) -> Classified {
        match self {
            Self::InvalidTtl(_) => classified(Reason::RegistrationRefused, Class::Permanent),
            Self::ForeignSecret(_) => classified(Reason::RegistrationRefused, Class::Absent),
            Self::Api(error) => error.classify(),
        }
    }
}
