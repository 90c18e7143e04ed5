//! The decisions of the election: the next action, given the observed Lease and the time of each observation.
//!
//! Without I/O. Times are those of one monotonic clock. The wall clock is only written into the Lease, for users and tools that
//! show it, and never compared.

use std::time::Duration;

use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::MicroTime,
};
use tokio::time::Instant;

use super::args::Timing;

/// One candidate.
#[derive(Clone, Debug)]
pub struct Elector {
    identity: String,
    timing: Timing,
    observed: Option<Observed>,
    /// When the last successful renewal was sent, while this candidate holds the Lease.
    renewed: Option<Instant>,
    /// Whether the Lease is known from the response to this candidate's own write, so that it need not be read.
    is_current: bool,
    /// Whether this candidate has ever tried to write the Lease, so that it may hold it regardless of what was observed.
    has_claimed: bool,
}

/// The Lease, or its absence, as last observed.
#[derive(Clone, Debug)]
struct Observed {
    lease: Option<Lease>,
    /// Since when it has been observed in this state.
    since: Instant,
    /// How long from then on another candidate may hold it.
    holder_ttl: Duration,
}

/// The next action.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Create the Lease.
    Create(LeaseSpec),
    /// Replace the Lease, with the observed resource version as precondition.
    Replace(Box<Lease>),
    /// Wait until then, unless the Lease changes.
    Wait(Instant),
}

/// The state of the candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElectionState<'e> {
    /// The candidate is the leader.
    Leading,
    /// It was the leader and could not renew in time; no other leader is known.
    Lapsed,
    /// It is not the leader; the holder of the Lease, if known.
    Standby(Option<&'e str>),
}

impl Elector {
    /// A candidate without observations. `identity` must be unique, and new at each start.
    pub fn new(identity: String, timing: Timing) -> Self {
        Self {
            identity,
            timing,
            observed: None,
            renewed: None,
            is_current: false,
            has_claimed: false,
        }
    }

    /// Whether the Lease must be read before the next decision.
    pub fn must_read(&self) -> bool {
        !self.is_current
    }

    /// Records the Lease as read; `now` is after the response.
    pub fn observe(&mut self, lease: Option<Lease>, now: Instant) {
        self.is_current = false;
        if lease.as_ref().is_some_and(|lease| !self.is_own(lease)) {
            self.renewed = None;
        }
        let (since, holder_ttl) = match &self.observed {
            Some(observed) if is_same(observed.lease.as_ref(), lease.as_ref()) => {
                (observed.since, observed.holder_ttl)
            }
            _ => (now, self.holder_ttl(lease.as_ref(), now)),
        };
        self.observed = Some(Observed {
            lease,
            since,
            holder_ttl,
        });
    }

    /// How long another candidate may hold the Lease, which is observed in this state for the first time.
    fn holder_ttl(&self, lease: Option<&Lease>, now: Instant) -> Duration {
        let of_other = |lease: &Lease| {
            if holder(lease).is_none() {
                return Duration::ZERO;
            }
            let duration = lease.spec.as_ref().and_then(|spec| spec.lease_duration_seconds);
            match duration.map(u64::try_from) {
                Some(Ok(seconds @ 1..)) => Duration::from_secs(seconds),
                // Not set, or invalid.
                Some(_) | None => self.timing.lease,
            }
        };
        match (lease, &self.observed) {
            (Some(lease), _) if !self.is_own(lease) => of_other(lease),
            // No other candidate holds it while this one is the leader.
            _ if self.leads(now) => Duration::ZERO,
            (Some(lease), observed) if is_rewritten(observed.as_ref(), lease) => Duration::ZERO,
            // Created by a request of this candidate that timed out. Between its sending and its arrival another candidate may
            // have created the Lease, and a user may have deleted it: as below.
            (Some(_), _) => self.timing.lease,
            (None, None) => Duration::ZERO,
            // It was deleted. The holder does not know yet, and may rely on it from its last renewal on, which was no later
            // than now.
            (None, Some(observed)) => match &observed.lease {
                Some(lease) if self.is_own(lease) => self.timing.lease,
                Some(lease) => of_other(lease),
                None => observed.holder_ttl,
            },
        }
    }

    /// The next action for the Lease as it is known. `wall` is the time of the wall clock.
    pub fn next(&self, now: Instant, wall: &MicroTime) -> Action {
        let Some(observed) = &self.observed else {
            return Action::Create(self.claim(None, wall));
        };
        let expires = observed.since + observed.holder_ttl;
        match &observed.lease {
            _ if now < expires => Action::Wait(expires),
            None => Action::Create(self.claim(None, wall)),
            Some(lease) => Action::Replace(Box::new(Lease {
                spec: Some(self.claim(lease.spec.as_ref(), wall)),
                ..lease.clone()
            })),
        }
    }

    /// Records a successful write that was sent at `sent`; `lease` is the response.
    pub fn write_succeeded(&mut self, lease: Lease, sent: Instant) {
        self.is_current = true;
        self.has_claimed = true;
        self.renewed = Some(sent);
        self.observed = Some(Observed {
            lease: Some(lease),
            since: sent,
            holder_ttl: Duration::ZERO,
        });
    }

    /// Records a write that failed, or whose result is not known.
    pub fn write_failed(&mut self) {
        self.is_current = false;
        self.has_claimed = true;
    }

    /// Gives up leadership.
    pub fn step_down(&mut self) {
        self.renewed = None;
    }

    /// The Lease to write so that another candidate can acquire it immediately; `None` if this candidate does not hold it.
    pub fn release(&self, wall: &MicroTime) -> Option<Lease> {
        let lease = self
            .observed
            .as_ref()?
            .lease
            .as_ref()
            .filter(|lease| self.is_own(lease))?;
        let old = lease.spec.clone().unwrap_or_default();
        Some(Lease {
            spec: Some(LeaseSpec {
                holder_identity: Some(String::new()),
                // The minimum that the API server accepts.
                lease_duration_seconds: Some(1),
                acquire_time: Some(wall.clone()),
                renew_time: Some(wall.clone()),
                ..old
            }),
            ..lease.clone()
        })
    }

    /// Whether this candidate may hold the Lease.
    pub fn may_hold(&self) -> bool {
        self.has_claimed
    }

    /// Until when it is the leader, without a renewal.
    pub fn valid_until(&self) -> Option<Instant> {
        self.renewed.map(|renewed| renewed + self.timing.renew)
    }

    /// Whether it is the leader.
    pub fn leads(&self, now: Instant) -> bool {
        self.valid_until().is_some_and(|until| now < until)
    }

    /// The state of the candidate.
    pub fn state(&self, now: Instant) -> ElectionState<'_> {
        if self.leads(now) {
            return ElectionState::Leading;
        }
        if self.renewed.is_some() {
            return ElectionState::Lapsed;
        }
        let lease = self
            .observed
            .as_ref()
            .and_then(|observed| observed.lease.as_ref());
        ElectionState::Standby(lease.and_then(holder))
    }

    /// The spec to write to acquire or renew the Lease.
    fn claim(&self, old: Option<&LeaseSpec>, wall: &MicroTime) -> LeaseSpec {
        let is_new = old.is_none();
        let old = old.cloned().unwrap_or_default();
        let is_own = old.holder_identity.as_deref() == Some(&*self.identity);
        let transition = i32::from(!is_own && !is_new);
        let transitions = old.lease_transitions.unwrap_or_default().max(0);
        LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: Some(self.lease_seconds()),
            acquire_time: old.acquire_time.filter(|_| is_own).or_else(|| Some(wall.clone())),
            renew_time: Some(wall.clone()),
            lease_transitions: Some(transitions.saturating_add(transition)),
            ..LeaseSpec::default()
        }
    }

    /// The lease duration in whole seconds, rounded up.
    fn lease_seconds(&self) -> i32 {
        let lease = self.timing.lease;
        let whole = lease.as_secs() + u64::from(lease.subsec_nanos() > 0);
        i32::try_from(whole).unwrap_or(i32::MAX)
    }

    fn is_own(&self, lease: &Lease) -> bool {
        holder(lease) == Some(&self.identity)
    }
}

/// The holder of a Lease; `None` for a released one.
fn holder(lease: &Lease) -> Option<&str> {
    let holder = lease.spec.as_ref()?.holder_identity.as_deref()?;
    (!holder.is_empty()).then_some(holder)
}

/// Whether a Lease is a later version of the observed one, by a write with a resource version, and was not created again.
fn is_rewritten(before: Option<&Observed>, now: &Lease) -> bool {
    let before = before.and_then(|observed| observed.lease.as_ref());
    before.is_some_and(|before| before.metadata.uid == now.metadata.uid)
}

/// Whether it was not renewed. A change of anything else, such as a label, is no renewal.
fn is_same(before: Option<&Lease>, now: Option<&Lease>) -> bool {
    match (before, now) {
        (Some(before), Some(now)) => before.spec == now.spec,
        (None, None) => true,
        _ => false,
    }
}

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
