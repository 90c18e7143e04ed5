//! Why a Receiver is not reconciled.

use helmops_model::{reason::Reason, validation::FieldErrors};
use helmops_runtime::{
    client::CallError,
    error_class::{Class, Classified, ClassifiedError, classified},
    workers::Interrupted,
};
use thiserror::Error;

use super::token::TokenError;
use crate::published::PublishError;

/// Why a Receiver is not reconciled.
#[derive(Debug, Error)]
pub enum ReceiverError {
    #[error("{0}")]
    Invalid(FieldErrors),
    /// The Secret of the Receiver does not exist.
    #[error("the Secret {0:?} does not exist; create it with the key \"token\"")]
    NoSecret(String),
    /// The Secret of the Receiver cannot be used.
    #[error("Secret {0:?}: {1}")]
    Secret(String, TokenError),
    /// A request to the API server failed.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The reconciliation was interrupted while it waited for the write of that Secret.
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
    /// Its token cannot be published.
    #[error(transparent)]
    Publish(#[from] PublishError),
}

impl ReceiverError {
    /// Whether the user of the Receiver has to fix it, so that a condition reports it.
    pub fn is_of_user(&self) -> bool {
        match self {
            Self::Call(_) | Self::Interrupted(_) => false,
            Self::Publish(error) => error.is_of_user(),
            Self::Invalid(_) | Self::NoSecret(_) | Self::Secret(..) => true,
        }
    }
}

impl ClassifiedError for ReceiverError {
    fn classify(&self) -> Classified {
        match self {
            // Until the Receiver or its Secret changes.
            Self::Invalid(errors) => {
                let reason = errors.reason().unwrap_or(Reason::InvalidNotification);
                classified(reason, Class::Permanent)
            }
            Self::NoSecret(_) => classified(Reason::SecretNotFound, Class::Permanent),
            Self::Secret(..) => classified(Reason::InvalidSecret, Class::Permanent),
            Self::Call(error) => error.classify(),
            Self::Interrupted(error) => error.classify(),
            Self::Publish(error) => error.classify(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, iter::successors, sync::Arc};

    use helmops_runtime::client::ApiError;

    use super::*;
    use crate::metrics::RECEIVERS;

    /// An error of each variant: what follows on each of them. A new variant does not compile until it is there.
    fn errors() -> impl Iterator<Item = ReceiverError> {
        use ReceiverError as Error;
        let name = || "token".to_owned();
        let call = || CallError::of("read", "it")(ApiError::Timeout);
        successors(Some(Error::Invalid(FieldErrors::default())), move |error| {
            Some(match error {
                Error::Invalid(_) => Error::NoSecret(name()),
                Error::NoSecret(_) => Error::Secret(name(), TokenError::Missing("token")),
                Error::Secret(..) => Error::Call(call()),
                Error::Call(_) => Error::Interrupted(Interrupted::Stopping),
                Error::Interrupted(_) => Error::Publish(PublishError::TooMany(1)),
                Error::Publish(PublishError::TooMany(_)) => {
                    Error::Publish(PublishError::NotInstalled(name()))
                }
                Error::Publish(PublishError::NotInstalled(_)) => Error::Publish(PublishError::Call(call())),
                Error::Publish(PublishError::Call(_)) => {
                    Error::Publish(PublishError::Shared(Arc::new(call().into())))
                }
                Error::Publish(PublishError::Shared(_)) => return None,
            })
        })
    }

    #[test]
    fn every_error_has_a_reason_and_a_class() {
        let found: Vec<_> = errors().map(|error| error.classify()).collect();
        let expected = [
            classified(Reason::InvalidNotification, Class::Permanent),
            classified(Reason::SecretNotFound, Class::Permanent),
            classified(Reason::InvalidSecret, Class::Permanent),
            classified(Reason::APIError, Class::Outage),
            Interrupted::Stopping.classify(),
            classified(Reason::LimitExceeded, Class::Absent),
            classified(Reason::SecretNotFound, Class::Absent),
            classified(Reason::APIError, Class::Outage),
            classified(Reason::APIError, Class::Outage),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn the_loop_has_exactly_the_reasons_of_its_errors() {
        // An invalid Receiver has the reason of its admission.
        let of_admission = [
            Reason::InvalidName,
            Reason::InvalidSelector,
            Reason::NamespaceForbidden,
        ];
        let reasons = errors().map(|error| error.reason()).chain(of_admission);
        // An interruption is no failure.
        let expected: BTreeSet<_> = reasons.filter(|reason| *reason != Reason::Progressing).collect();
        let listed: BTreeSet<_> = (RECEIVERS.failures)().into_iter().collect();
        assert_eq!(listed, expected);
    }
}
