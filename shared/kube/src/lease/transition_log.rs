//! The log of the election: each state once, and no line for every attempt.

use std::{borrow::Cow, time::Duration};

use helmops_process::{OnChange, exit::with_causes};
use tracing::Level;

use super::{
    LeaseName,
    elector::ElectionState,
    error::{ErrorClass, LeaseError},
};

/// Logs the state of the election when it changes.
#[derive(Debug)]
pub struct TransitionLog {
    lease: LeaseName,
    identity: String,
    logged: OnChange<Option<LoggedState>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct LoggedState {
    role: Role,
    error: Option<ErrorClass>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Role {
    Leading,
    Lapsed,
    Standby { holder: Option<String> },
}

impl TransitionLog {
    /// A log without entries.
    pub fn new(lease: LeaseName, identity: String) -> Self {
        Self {
            lease,
            identity,
            logged: OnChange::default(),
        }
    }

    /// Logs the state if it has changed. `remaining`: how long leadership lasts without a renewal.
    pub fn record(
        &mut self,
        state: ElectionState<'_>,
        remaining: Option<Duration>,
        error: Option<&LeaseError>,
    ) {
        let state = LoggedState::of(state, error);
        if !self.logged.record(Some(state.clone())) {
            return;
        }
        let (level, message) = message(&state, remaining);
        let holder = state.holder();
        let LeaseName { namespace, name } = &self.lease;
        let (identity, advice) = (&self.identity, error.map(LeaseError::advice));
        let error = error.map(|error| with_causes(error));
        match level {
            Level::ERROR => tracing::error!(namespace, name, identity, holder, error, advice, "{message}"),
            Level::WARN => tracing::warn!(namespace, name, identity, holder, error, advice, "{message}"),
            _ => tracing::info!(namespace, name, identity, holder, error, advice, "{message}"),
        }
    }
}

impl LoggedState {
    fn of(state: ElectionState<'_>, error: Option<&LeaseError>) -> Self {
        let role = match state {
            ElectionState::Leading => Role::Leading,
            ElectionState::Lapsed => Role::Lapsed,
            ElectionState::Standby(holder) => Role::Standby {
                holder: holder.map(str::to_owned),
            },
        };
        Self {
            role,
            error: error.map(LeaseError::class),
        }
    }

    fn holder(&self) -> Option<&str> {
        match &self.role {
            Role::Standby { holder } => holder.as_deref(),
            Role::Leading | Role::Lapsed => None,
        }
    }
}

/// What to log for a state.
fn message(state: &LoggedState, remaining: Option<Duration>) -> (Level, Cow<'static, str>) {
    let (level, message) = match (&state.role, state.error) {
        (Role::Leading, None) => (Level::INFO, "acquired the Lease: this replica is the leader"),
        (Role::Leading, Some(_)) => {
            let seconds = remaining.unwrap_or_default().as_secs();
            let message =
                format!("failed to renew the Lease; leadership ends in {seconds} s unless it is renewed");
            return (Level::WARN, message.into());
        }
        (Role::Lapsed, None) => (Level::WARN, "not the leader: the Lease is not renewed yet"),
        (Role::Lapsed, Some(_)) => (
            Level::ERROR,
            "lost leadership: the Lease was not renewed in time; nothing is written until this replica leads again",
        ),
        (Role::Standby { holder: Some(_) }, None) => (
            Level::INFO,
            "waiting for leadership: another replica holds the Lease",
        ),
        (Role::Standby { holder: None }, None) => {
            (Level::INFO, "waiting for leadership: the Lease has no holder yet")
        }
        (Role::Standby { .. }, Some(_)) => (
            Level::WARN,
            "failed to read or write the Lease; retrying; this replica is not the leader",
        ),
    };
    (level, message.into())
}

#[cfg(test)]
mod tests {
    use super::{super::error::tests::status, *};

    #[test]
    fn each_state_is_logged_once() {
        let (forbidden, internal) = (status(403), status(500));
        let limit = Duration::from_secs(5);
        let mut logged = OnChange::default();
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
            let is_logged = logged.record(Some(LoggedState::of(state, error)));
            assert_eq!(is_logged, is_new, "{state:?} {error:?}");
        }
    }

    #[test]
    fn a_failure_of_the_leader_is_a_warning_until_leadership_is_lost() {
        let error = status(500);
        let line = |state| {
            message(
                &LoggedState::of(state, Some(&error)),
                Some(Duration::from_secs(3)),
            )
        };
        let (level, text) = line(ElectionState::Leading);
        assert_eq!(level, Level::WARN);
        assert!(text.contains("leadership ends in 3 s"), "{text}");
        assert_eq!(line(ElectionState::Lapsed).0, Level::ERROR);
        assert_eq!(line(ElectionState::Standby(None)).0, Level::WARN);
    }
}
