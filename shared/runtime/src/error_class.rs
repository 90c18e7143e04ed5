//! The classification of errors: each error has a reason and a class, and all that is done about it follows from the class.

use std::{error::Error, time::Duration};

use helmops_fair::AtLeast;
use helmops_model::reason::Reason;

use crate::backoff;

/// How long an error lasts, and what ends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// It lasts until an object that a watch reports changes, so it is not retried.
    Permanent,
    /// It lasts until a user fixes or publishes something that no watch reports: a chart version, a login, a server, an
    /// admission webhook.
    Absent,
    /// The API server is away. That concerns all objects, and its watches log it.
    Outage,
    /// It usually resolves itself.
    Transient(Scope),
    /// The server limits requests. The error resolves itself, but not before this time.
    RateLimited(Duration),
    /// It may resolve itself, but each attempt takes seconds of CPU time.
    Expensive,
    /// Another client or another replica was faster. It is retried as soon as the caches have caught up.
    Conflict,
    /// Nothing failed: the reconciliation has stopped early, and what it waits for triggers the next one.
    Superseded,
    /// Nothing failed: the rate limit of the object allows the next attempt after this time.
    Postponed(Duration),
}

/// What a transient error concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The server, for all requests.
    Host,
    /// The repository, for requests with the same credentials: a tenant that controls one path of a shared server could return
    /// any error there.
    Repository,
    /// The namespace, which has used up its share of a resource.
    Namespace,
    /// The object alone.
    Object,
}

impl Class {
    /// A transient error of one object.
    pub const TRANSIENT: Self = Self::Transient(Scope::Object);

    /// When it is retried; `None` if there is no backoff: something else triggers the next attempt.
    pub fn backoff_policy(self) -> Option<AtLeast> {
        let policy = match self {
            Self::Permanent | Self::Superseded | Self::Postponed(_) => return None,
            Self::RateLimited(least) => return Some(backoff::SLOW.at_least(least)),
            Self::Absent => backoff::SLOW,
            Self::Outage => backoff::OUTAGE,
            Self::Transient(_) => backoff::TRANSIENT,
            Self::Expensive => backoff::EXPENSIVE,
            Self::Conflict => backoff::CONFLICT,
        };
        Some(policy.into())
    }

    /// Whether it may resolve itself, so that no user needs to act yet: the object is `Reconciling`, not `Stalled`.
    pub const fn is_transient(self) -> bool {
        match self {
            Self::Outage | Self::Transient(_) | Self::RateLimited(_) | Self::Expensive | Self::Conflict => {
                true
            }
            Self::Permanent | Self::Absent | Self::Superseded | Self::Postponed(_) => false,
        }
    }

    /// Whether it is worth neither a warning nor a condition: a conflict with another client, lost leadership, the end of the
    /// process.
    pub const fn is_benign(self) -> bool {
        match self {
            Self::Conflict | Self::Superseded | Self::Postponed(_) => true,
            Self::Permanent
            | Self::Absent
            | Self::Outage
            | Self::Transient(_)
            | Self::RateLimited(_)
            | Self::Expensive => false,
        }
    }

    /// What it concerns.
    pub const fn scope(self) -> Scope {
        match self {
            Self::Transient(scope) => scope,
            Self::RateLimited(_) => Scope::Repository,
            Self::Permanent
            | Self::Absent
            | Self::Outage
            | Self::Expensive
            | Self::Conflict
            | Self::Superseded
            | Self::Postponed(_) => Scope::Object,
        }
    }

    /// Of several errors of one object, the one with the highest priority determines the backoff: the one that is most likely gone
    /// at the next attempt.
    pub const fn retry_priority(self) -> u8 {
        match self {
            Self::Permanent | Self::Superseded | Self::Postponed(_) => 0,
            Self::Absent => 1,
            Self::Outage | Self::Transient(_) | Self::RateLimited(_) | Self::Expensive => 2,
            Self::Conflict => 3,
        }
    }
}

/// The classification of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Classified {
    /// The reason for conditions, logs and metrics.
    pub reason: Reason,
    /// The class, which all decisions follow from.
    pub class: Class,
}

/// An error with a reason and a class.
pub trait ClassifiedError: Error {
    /// Its reason and class.
    fn classify(&self) -> Classified;

    /// The reason, for conditions, logs and metrics.
    fn reason(&self) -> Reason {
        self.classify().reason
    }

    /// The class, for all decisions.
    fn class(&self) -> Class {
        self.classify().class
    }

    /// See [`Class::is_benign`].
    fn is_benign(&self) -> bool {
        self.class().is_benign()
    }
}

/// The classification with this reason and class.
pub const fn classified(reason: Reason, class: Class) -> Classified {
    Classified { reason, class }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_decisions_follow_from_the_class() {
        const HOUR: Duration = Duration::from_hours(1);
        let slow = |least| Some(backoff::SLOW.at_least(least));
        let transient = Some(backoff::TRANSIENT.into());
        let now = Duration::ZERO;
        // Class, backoff, whether it is transient, whether it is benign, scope, retry_priority.
        for (class, policy, is_transient, is_benign, scope, retry_priority) in [
            (Class::Permanent, None, false, false, Scope::Object, 0),
            (Class::Absent, slow(now), false, false, Scope::Object, 1),
            (
                Class::Outage,
                Some(backoff::OUTAGE.into()),
                true,
                false,
                Scope::Object,
                2,
            ),
            (Class::TRANSIENT, transient, true, false, Scope::Object, 2),
            (
                Class::Transient(Scope::Host),
                transient,
                true,
                false,
                Scope::Host,
                2,
            ),
            (
                Class::RateLimited(now),
                slow(now),
                true,
                false,
                Scope::Repository,
                2,
            ),
            (
                Class::RateLimited(HOUR),
                slow(HOUR),
                true,
                false,
                Scope::Repository,
                2,
            ),
            (
                Class::Expensive,
                Some(backoff::EXPENSIVE.into()),
                true,
                false,
                Scope::Object,
                2,
            ),
            (
                Class::Conflict,
                Some(backoff::CONFLICT.into()),
                true,
                true,
                Scope::Object,
                3,
            ),
            (Class::Superseded, None, false, true, Scope::Object, 0),
            (Class::Postponed(HOUR), None, false, true, Scope::Object, 0),
        ] {
            assert_eq!(class.backoff_policy(), policy, "{class:?}");
            assert_eq!(class.is_transient(), is_transient, "{class:?}");
            assert_eq!(class.is_benign(), is_benign, "{class:?}");
            assert_eq!(
                (class.scope(), class.retry_priority()),
                (scope, retry_priority),
                "{class:?}"
            );
        }
    }
}
