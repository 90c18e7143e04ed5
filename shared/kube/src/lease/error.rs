//! The errors of the election.

use std::time::Duration;

use kube::core::Status;
use thiserror::Error;

/// The Lease could not be read or written.
#[derive(Debug, Error)]
pub enum LeaseError {
    /// No response in time.
    #[error("the API server did not respond within {0:?}")]
    Timeout(Duration),
    /// Repeated conflicts.
    #[error("another client keeps changing it")]
    Contended,
    /// An error status of the API server.
    #[error("{} ({})", .0.message, .0.code)]
    Status(Box<Status>),
    /// No connection, or an invalid response.
    #[error(transparent)]
    Other(kube::Error),
}

impl From<kube::Error> for LeaseError {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::Status(status),
            other => Self::Other(other),
        }
    }
}

/// Classes of errors: the log has a new line if the class changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorClass {
    /// No response in time.
    Timeout,
    /// Repeated conflicts.
    Contended,
    /// An error status of the API server.
    Status(u16),
    /// No connection, or an invalid response.
    Other,
}

impl LeaseError {
    /// Whether the cached Lease is out of date, so that it is worth another attempt immediately.
    pub fn is_conflict(&self) -> bool {
        // 404: it was deleted since it was read.
        matches!(self.class(), ErrorClass::Status(404 | 409))
    }

    /// The error to report if a conflict has happened twice in a row.
    pub fn repeated(self) -> Self {
        if self.class() == ErrorClass::Status(409) {
            Self::Contended
        } else {
            self
        }
    }

    /// Its class.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Timeout(_) => ErrorClass::Timeout,
            Self::Contended => ErrorClass::Contended,
            Self::Status(status) => ErrorClass::Status(status.code),
            Self::Other(_) => ErrorClass::Other,
        }
    }

    /// How to fix it.
    pub fn advice(&self) -> &'static str {
        match self.class() {
            ErrorClass::Status(401) => "the API server does not accept the token of the ServiceAccount",
            ErrorClass::Status(403) => {
                "the Role and RoleBinding for Leases are missing in this namespace, or are those of another shard; see \
                 manifests/base/rbac.yaml, and manifests/shard for a shard"
            }
            ErrorClass::Status(404) => "the namespace does not exist; see --namespace",
            ErrorClass::Timeout | ErrorClass::Other | ErrorClass::Status(_) => {
                "check the API server and the network to it"
            }
            ErrorClass::Contended => "find the client that writes it in the managedFields of the Lease",
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// The error of a response with a status.
    pub fn status(code: u16) -> LeaseError {
        let status = Status {
            code,
            ..Status::default()
        };
        kube::Error::Api(Box::new(status)).into()
    }

    #[test]
    fn only_conflicts_and_missing_leases_are_retried_immediately() {
        assert!(status(409).is_conflict() && status(404).is_conflict());
        assert!(!status(403).is_conflict() && !status(500).is_conflict());
        assert!(!LeaseError::Timeout(Duration::ZERO).is_conflict());
    }
}
