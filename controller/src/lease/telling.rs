//! What the log says of the election: each change once, and nothing at every try.

use std::time::Duration;

use helmops_shared::runtime::exit::with_causes;
use kube::core::Status;
use thiserror::Error;

use super::{LeaseName, elector::ElectionState};

/// The Lease could not be read or written.
#[derive(Debug, Error)]
pub enum Failure {
    /// No answer.
    #[error("the API server did not answer within {0:?}")]
    NoAnswer(Duration),
    /// Somebody else changes it all the time.
    #[error("somebody else keeps changing it")]
    Contended,
    /// An answer that is an error.
    #[error("{} ({})", .0.message, .0.code)]
    Refused(Box<Status>),
    /// No connection, or an answer that makes no sense.
    #[error(transparent)]
    Broken(kube::Error),
}

impl From<kube::Error> for Failure {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::Refused(status),
            other => Self::Broken(other),
        }
    }
}

/// Failures that are told apart in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    NoAnswer,
    Contended,
    Refused(u16),
    Broken,
}

/// What was told last.
#[derive(Debug)]
pub struct Telling {
    lease: LeaseName,
    identity: String,
    last: Option<Told>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Told {
    standing: Kind,
    failure: Option<Class>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Leading,
    Lapsed,
    Standby(Option<String>),
}

impl Failure {
    /// Whether the Lease is not as it was thought to be, so that it is worth another look at once.
    pub fn is_conflict(&self) -> bool {
        // 404: it was deleted since it was seen.
        matches!(self.class(), Class::Refused(404 | 409))
    }

    /// The same, where it has happened twice in a row.
    pub fn again(self) -> Self {
        if self.class() == Class::Refused(409) {
            Self::Contended
        } else {
            self
        }
    }

    fn class(&self) -> Class {
        match self {
            Self::NoAnswer(_) => Class::NoAnswer,
            Self::Contended => Class::Contended,
            Self::Refused(status) => Class::Refused(status.code),
            Self::Broken(_) => Class::Broken,
        }
    }

    /// What to do about it.
    fn advice(&self) -> &'static str {
        match self.class() {
            Class::Refused(401) => "the token of the ServiceAccount is not accepted",
            Class::Refused(403) => {
                "the Role and RoleBinding for Leases are missing in this namespace, or are those of another shard; see \
                 manifests/base/rbac.yaml, and manifests/shard for a shard"
            }
            Class::Refused(404) => "there is no such namespace; see --namespace",
            Class::NoAnswer | Class::Broken | Class::Refused(_) => {
                "is the API server well, and the network before it?"
            }
            Class::Contended => "is there a program that writes it without need?",
        }
    }
}

impl Telling {
    /// Nothing has been told.
    pub fn new(lease: LeaseName, identity: String) -> Self {
        Self {
            lease,
            identity,
            last: None,
        }
    }

    /// Tells how things stand, if that is new.
    pub fn tell(
        &mut self,
        standing: ElectionState<'_>,
        remaining: Option<Duration>,
        failure: Option<&Failure>,
    ) -> bool {
        let told = Told {
            standing: match standing {
                ElectionState::Leading => Kind::Leading,
                ElectionState::Lapsed => Kind::Lapsed,
                ElectionState::Standby(holder) => Kind::Standby(holder.map(str::to_owned)),
            },
            failure: failure.map(Failure::class),
        };
        let is_new = self.last.as_ref() != Some(&told);
        if is_new {
            self.log(&told, remaining, failure);
            self.last = Some(told);
        }
        is_new
    }

    fn log(&self, told: &Told, remaining: Option<Duration>, failure: Option<&Failure>) {
        let LeaseName { namespace, name } = &self.lease;
        let identity = &self.identity;
        let Some(error) = failure else {
            match &told.standing {
                Kind::Leading => tracing::info!(
                    namespace,
                    name,
                    identity,
                    "acquired the Lease: this replica is the leader"
                ),
                Kind::Lapsed => {
                    tracing::warn!(namespace, name, "not the leader: the Lease is not renewed yet");
                }
                Kind::Standby(Some(holder)) => {
                    tracing::info!(
                        namespace,
                        name,
                        identity,
                        holder,
                        "waiting for leadership: another replica holds the Lease"
                    );
                }
                Kind::Standby(None) => tracing::info!(
                    namespace,
                    name,
                    identity,
                    "waiting for leadership: the Lease has no holder yet"
                ),
            }
            return;
        };
        let advice = error.advice();
        match &told.standing {
            Kind::Leading => {
                let seconds = remaining.unwrap_or_default().as_secs();
                tracing::warn!(
                    namespace,
                    name,
                    error = with_causes(error),
                    advice,
                    "failed to renew the Lease; leadership ends in {seconds} s unless it is renewed"
                );
            }
            Kind::Lapsed => tracing::error!(
                namespace,
                name,
                error = with_causes(error),
                advice,
                "lost leadership: the Lease was not renewed in time; nothing is written until this replica leads again"
            ),
            Kind::Standby(holder) => tracing::warn!(
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

    fn refused(code: u16) -> Failure {
        let status = Status {
            code,
            ..Status::default()
        };
        kube::Error::Api(Box::new(status)).into()
    }

    #[test]
    fn each_change_is_told_once() {
        let lease = LeaseName {
            namespace: "system".to_owned(),
            name: "lease".to_owned(),
        };
        let mut telling = Telling::new(lease, "me".to_owned());
        let (forbidden, broken) = (refused(403), refused(500));
        let limit = Duration::from_secs(5);
        for (standing, failure, is_new) in [
            (ElectionState::Standby(None), Some(&forbidden), true),
            (ElectionState::Standby(None), Some(&forbidden), false),
            (ElectionState::Standby(Some("other")), None, true),
            (ElectionState::Standby(Some("other")), None, false),
            (ElectionState::Standby(Some("third")), None, true),
            (ElectionState::Leading, None, true),
            (ElectionState::Leading, None, false),
            (ElectionState::Leading, Some(&broken), true),
            (ElectionState::Leading, Some(&Failure::NoAnswer(limit)), true),
            (ElectionState::Leading, Some(&Failure::NoAnswer(limit / 2)), false),
            (ElectionState::Lapsed, Some(&Failure::NoAnswer(limit)), true),
            (ElectionState::Lapsed, Some(&Failure::NoAnswer(limit)), false),
            (ElectionState::Leading, None, true),
        ] {
            assert_eq!(
                telling.tell(standing, None, failure),
                is_new,
                "{standing:?} {failure:?}"
            );
        }
    }

    #[test]
    fn a_lease_that_is_not_as_thought_is_looked_at_again_and_others_wait() {
        assert!(refused(409).is_conflict() && refused(404).is_conflict());
        assert!(!refused(403).is_conflict() && !refused(500).is_conflict());
        assert!(!Failure::NoAnswer(Duration::ZERO).is_conflict());
    }
}
