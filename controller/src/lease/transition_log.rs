//! The log of the election: each transition once, and no line for every attempt.

use std::time::Duration;

use helmops_process::exit::with_causes;
use kube::core::Status;
use thiserror::Error;

use super::{LeaseName, elector::ElectionState};

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
enum ErrorClass {
    Timeout,
    Contended,
    Status(u16),
    Other,
}

/// Logs transitions of the election.
#[derive(Debug)]
pub struct TransitionLog {
    lease: LeaseName,
    identity: String,
    last: Option<Transition>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Transition {
    state: State,
    error: Option<ErrorClass>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    Leading,
    Lapsed,
    Standby(Option<String>),
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

    fn class(&self) -> ErrorClass {
        match self {
            Self::Timeout(_) => ErrorClass::Timeout,
            Self::Contended => ErrorClass::Contended,
            Self::Status(status) => ErrorClass::Status(status.code),
            Self::Other(_) => ErrorClass::Other,
        }
    }

    /// How to fix it.
    fn advice(&self) -> &'static str {
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

impl TransitionLog {
    /// A log without entries.
    pub fn new(lease: LeaseName, identity: String) -> Self {
        Self {
            lease,
            identity,
            last: None,
        }
    }

    /// Logs the state if it has changed. Returns whether it has.
    pub fn record(
        &mut self,
        state: ElectionState<'_>,
        remaining: Option<Duration>,
        error: Option<&LeaseError>,
    ) -> bool {
        let transition = Transition {
            state: match state {
                ElectionState::Leading => State::Leading,
                ElectionState::Lapsed => State::Lapsed,
                ElectionState::Standby(holder) => State::Standby(holder.map(str::to_owned)),
            },
            error: error.map(LeaseError::class),
        };
        let is_new = self.last.as_ref() != Some(&transition);
        if is_new {
            self.log(&transition, remaining, error);
            self.last = Some(transition);
        }
        is_new
    }

    fn log(&self, transition: &Transition, remaining: Option<Duration>, error: Option<&LeaseError>) {
        let LeaseName { namespace, name } = &self.lease;
        let identity = &self.identity;
        let Some(error) = error else {
            match &transition.state {
                State::Leading => tracing::info!(
                    namespace,
                    name,
                    identity,
                    "acquired the Lease: this replica is the leader"
                ),
                State::Lapsed => {
                    tracing::warn!(namespace, name, "not the leader: the Lease is not renewed yet");
                }
                State::Standby(Some(holder)) => {
                    tracing::info!(
                        namespace,
                        name,
                        identity,
                        holder,
                        "waiting for leadership: another replica holds the Lease"
                    );
                }
                State::Standby(None) => tracing::info!(
                    namespace,
                    name,
                    identity,
                    "waiting for leadership: the Lease has no holder yet"
                ),
            }
            return;
        };
        let advice = error.advice();
        match &transition.state {
            State::Leading => {
                let seconds = remaining.unwrap_or_default().as_secs();
                tracing::warn!(
                    namespace,
                    name,
                    error = with_causes(error),
                    advice,
                    "failed to renew the Lease; leadership ends in {seconds} s unless it is renewed"
                );
            }
            State::Lapsed => tracing::error!(
                namespace,
                name,
                error = with_causes(error),
                advice,
                "lost leadership: the Lease was not renewed in time; nothing is written until this replica leads again"
            ),
            State::Standby(holder) => tracing::warn!(
                namespace,
                name,
                holder,
                error = with_causes(error),
                advice,
                "failed to read or write the Lease; retrying; this replica is not the leader"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(code: u16) -> LeaseError {
        let status = Status {
            code,
            ..Status::default()
        };
        kube::Error::Api(Box::new(status)).into()
    }

    #[test]
    fn each_transition_is_logged_once() {
        let lease = LeaseName {
            namespace: "system".to_owned(),
            name: "lease".to_owned(),
        };
        let mut log = TransitionLog::new(lease, "me".to_owned());
        let (forbidden, internal) = (status(403), status(500));
        let limit = Duration::from_secs(5);
        for (state, error, is_new) in [
            (ElectionState::Standby(None), Some(&forbidden), true),
            (ElectionState::Standby(None), Some(&forbidden), false),
            (ElectionState::Standby(Some("other")), None, true),
            (ElectionState::Standby(Some("other")), None, false),
            (ElectionState::Standby(Some("third")), None, true),
            (ElectionState::Leading, None, true),
            (ElectionState::Leading, None, false),
            (ElectionState::Leading, Some(&internal), true),
            (ElectionState::Leading, Some(&LeaseError::Timeout(limit)), true),
            (
                ElectionState::Leading,
                Some(&LeaseError::Timeout(limit / 2)),
                false,
            ),
            (ElectionState::Lapsed, Some(&LeaseError::Timeout(limit)), true),
            (ElectionState::Lapsed, Some(&LeaseError::Timeout(limit)), false),
            (ElectionState::Leading, None, true),
        ] {
            assert_eq!(log.record(state, None, error), is_new, "{state:?} {error:?}");
        }
    }

    #[test]
    fn only_conflicts_and_missing_leases_are_retried_immediately() {
        assert!(status(409).is_conflict() && status(404).is_conflict());
        assert!(!status(403).is_conflict() && !status(500).is_conflict());
        assert!(!LeaseError::Timeout(Duration::ZERO).is_conflict());
    }
}
