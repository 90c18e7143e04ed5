//! Why a Receiver is not reconciled.

use std::sync::Arc;

use helmops_core::{reason::Reason, validation::FieldErrors};
use helmops_notify::push::{MAX_ENTRIES_BYTES, SECRET};
use helmops_runtime::{
    client::CallError,
    error_class::{Class, Classified, ClassifiedError, classified},
    workers::Interrupted,
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
    #[error(
        "the tokens and names of the Receivers in this namespace have more than {0} bytes, its share of {all} KiB for all; delete Receivers",
        all = MAX_ENTRIES_BYTES >> 10
    )]
    TooMany(usize),
    /// The Secret of all Receivers does not exist.
    #[error(
        "Secret {0}/{SECRET} does not exist; an administrator has to create it without data: apply manifests/notifications or upgrade the \
         Helm release again"
    )]
    NotInstalled(String),
    /// A request to the API server failed.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The reconciliation was interrupted while it waited for the write of that Secret.
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
    /// A change of the Secret of all Receivers, which was made together with others, failed.
    #[error(transparent)]
    Publish(Arc<Self>),
}

impl ReceiverError {
    /// Whether the user of the Receiver has to fix it, so that a condition reports it.
    pub fn is_of_user(&self) -> bool {
        match self {
            Self::Call(_) | Self::Interrupted(_) => false,
            Self::Publish(error) => error.is_of_user(),
            Self::Invalid(_)
            | Self::NoSecret(_)
            | Self::Secret(..)
            | Self::TooMany(_)
            | Self::NotInstalled(_) => true,
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
            // Another Receiver may be deleted, which is no change of this one.
            Self::TooMany(_) => classified(Reason::LimitExceeded, Class::Absent),
            Self::NotInstalled(_) => classified(Reason::SecretNotFound, Class::Absent),
            Self::Call(error) => error.classify(),
            Self::Interrupted(error) => error.classify(),
            Self::Publish(error) => error.classify(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, iter::successors};

    use helmops_runtime::client::ApiError;

    use super::*;
    use crate::metrics::RECEIVERS;

    /// An error of each variant: what follows on each of them. A new variant does not compile until it is there.
    fn errors() -> impl Iterator<Item = ReceiverError> {
        use ReceiverError as Error;
        let name = || "token".to_owned();
        successors(Some(Error::Invalid(FieldErrors::default())), move |error| {
            Some(match error {
                Error::Invalid(_) => Error::NoSecret(name()),
                Error::NoSecret(_) => Error::Secret(name(), TokenError::Missing("token")),
                Error::Secret(..) => Error::TooMany(1),
                Error::TooMany(_) => Error::NotInstalled(name()),
                Error::NotInstalled(_) => Error::Call(CallError::of("read", "it")(ApiError::Timeout)),
                Error::Call(_) => Error::Interrupted(Interrupted::Stopping),
                Error::Interrupted(_) => {
                    let error = CallError::of("write", "it")(ApiError::Timeout);
                    Error::Publish(Arc::new(error.into()))
                }
                Error::Publish(_) => return None,
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
            classified(Reason::LimitExceeded, Class::Absent),
            classified(Reason::SecretNotFound, Class::Absent),
            classified(Reason::APIError, Class::Outage),
            Interrupted::Stopping.classify(),
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
