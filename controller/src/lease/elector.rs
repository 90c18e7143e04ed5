//! The decisions: what to do, after what was seen of the Lease and when.
//!
//! It reaches for nothing. Times are of one monotonic clock; the wall clock is only written into the Lease, for people and
//! for those who show it, and never compared.

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
    seen: Option<Seen>,
    /// When the last renewal that succeeded was sent, as long as the Lease is this candidate's own.
    renewed: Option<Instant>,
    /// Whether the Lease is known as it is after this candidate's own write, so that it need not be read.
    is_current: bool,
    /// Whether this candidate has ever tried to write the Lease, so that it may be its own whatever was seen.
    has_claimed: bool,
}

/// The Lease, or its absence, as last seen.
#[derive(Clone, Debug)]
struct Seen {
    lease: Option<Lease>,
    /// Since when it has been seen like this.
    since: Instant,
    /// How long from then on another candidate may count on it.
    pledge: Duration,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    /// Make the Lease.
    Create(LeaseSpec),
    /// Write the Lease back, in the resource version that was seen.
    Replace(Box<Lease>),
    /// Nothing before then, unless the Lease changes.
    Wait(Instant),
}

/// Where the candidate stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElectionState<'e> {
    /// It leads.
    Leading,
    /// It led, and could not renew in time; nobody else is known to lead.
    Lapsed,
    /// It does not lead, and this is who does, as far as it is known.
    Standby(Option<&'e str>),
}

impl Elector {
    /// A candidate that has seen nothing yet. `identity` must be its own alone, and new at each start.
    pub fn new(identity: String, timing: Timing) -> Self {
        Self {
            identity,
            timing,
            seen: None,
            renewed: None,
            is_current: false,
            has_claimed: false,
        }
    }

    /// Whether the Lease must be read before the next decision.
    pub fn must_read(&self) -> bool {
        !self.is_current
    }

    /// The Lease was read; `now` is after the answer.
    pub fn observed(&mut self, lease: Option<Lease>, now: Instant) {
        self.is_current = false;
        if lease.as_ref().is_some_and(|lease| !self.is_own(lease)) {
            self.renewed = None;
        }
        let (since, pledge) = match &self.seen {
            Some(seen) if is_same(seen.lease.as_ref(), lease.as_ref()) => (seen.since, seen.pledge),
            _ => (now, self.pledge(lease.as_ref(), now)),
        };
        self.seen = Some(Seen { lease, since, pledge });
    }

    /// How long another candidate may count on what is seen now for the first time.
    fn pledge(&self, lease: Option<&Lease>, now: Instant) -> Duration {
        let of_other = |lease: &Lease| {
            if holder(lease).is_none() {
                return Duration::ZERO;
            }
            let told = lease.spec.as_ref().and_then(|spec| spec.lease_duration_seconds);
            match told.map(u64::try_from) {
                Some(Ok(seconds @ 1..)) => Duration::from_secs(seconds),
                // Not told, or nonsense.
                Some(_) | None => self.timing.lease,
            }
        };
        match (lease, &self.seen) {
            (Some(lease), _) if !self.is_own(lease) => of_other(lease),
            // Nobody else does, while this one does.
            _ if self.leads(now) => Duration::ZERO,
            (Some(lease), seen) if is_rewritten(seen.as_ref(), lease) => Duration::ZERO,
            // Made by a request of this candidate that was given up. Between its sending and its arrival another may
            // have made the Lease, and somebody have deleted it: as below.
            (Some(_), _) => self.timing.lease,
            (None, None) => Duration::ZERO,
            // Somebody deleted it. Who held it does not know yet, and may count on it from its last renewal on, which
            // was no later than now.
            (None, Some(seen)) => match &seen.lease {
                Some(lease) if self.is_own(lease) => self.timing.lease,
                Some(lease) => of_other(lease),
                None => seen.pledge,
            },
        }
    }

    /// What to do about the Lease as it is known. `wall` is what clocks on the wall say.
    pub fn next(&self, now: Instant, wall: &MicroTime) -> Next {
        let Some(seen) = &self.seen else {
            return Next::Create(self.claim(None, wall));
        };
        let free = seen.since + seen.pledge;
        match &seen.lease {
            _ if now < free => Next::Wait(free),
            None => Next::Create(self.claim(None, wall)),
            Some(lease) => Next::Replace(Box::new(Lease {
                spec: Some(self.claim(lease.spec.as_ref(), wall)),
                ..lease.clone()
            })),
        }
    }

    /// A write succeeded, that was sent at `sent`; `lease` is the answer.
    pub fn written(&mut self, lease: Lease, sent: Instant) {
        self.is_current = true;
        self.has_claimed = true;
        self.renewed = Some(sent);
        self.seen = Some(Seen {
            lease: Some(lease),
            since: sent,
            pledge: Duration::ZERO,
        });
    }

    /// A write failed, or what came of it is not known.
    pub fn failed(&mut self) {
        self.is_current = false;
        self.has_claimed = true;
    }

    /// Leads no more, of its own accord.
    pub fn step_down(&mut self) {
        self.renewed = None;
    }

    /// The Lease to write so that another candidate may take it at once; `None` where it is not this one's.
    pub fn release(&self, wall: &MicroTime) -> Option<Lease> {
        let lease = self
            .seen
            .as_ref()?
            .lease
            .as_ref()
            .filter(|lease| self.is_own(lease))?;
        let old = lease.spec.clone().unwrap_or_default();
        Some(Lease {
            spec: Some(LeaseSpec {
                holder_identity: Some(String::new()),
                // The shortest that the API server takes.
                lease_duration_seconds: Some(1),
                acquire_time: Some(wall.clone()),
                renew_time: Some(wall.clone()),
                ..old
            }),
            ..lease.clone()
        })
    }

    /// Whether the Lease may be this candidate's own.
    pub fn may_hold(&self) -> bool {
        self.has_claimed
    }

    /// Until when it leads, unless it renews.
    pub fn valid_until(&self) -> Option<Instant> {
        self.renewed.map(|renewed| renewed + self.timing.renew)
    }

    /// Whether it leads.
    pub fn leads(&self, now: Instant) -> bool {
        self.valid_until().is_some_and(|until| now < until)
    }

    /// Where it stands.
    pub fn standing(&self, now: Instant) -> ElectionState<'_> {
        if self.leads(now) {
            return ElectionState::Leading;
        }
        if self.renewed.is_some() {
            return ElectionState::Lapsed;
        }
        let lease = self.seen.as_ref().and_then(|seen| seen.lease.as_ref());
        ElectionState::Standby(lease.and_then(holder))
    }

    fn claim(&self, old: Option<&LeaseSpec>, wall: &MicroTime) -> LeaseSpec {
        let is_new = old.is_none();
        let old = old.cloned().unwrap_or_default();
        let is_own = old.holder_identity.as_deref() == Some(&*self.identity);
        let changed_hands = i32::from(!is_own && !is_new);
        let transitions = old.lease_transitions.unwrap_or_default().max(0);
        LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: Some(self.seconds()),
            acquire_time: old.acquire_time.filter(|_| is_own).or_else(|| Some(wall.clone())),
            renew_time: Some(wall.clone()),
            lease_transitions: Some(transitions.saturating_add(changed_hands)),
            ..LeaseSpec::default()
        }
    }

    /// What others must wait, in whole seconds, no less than is meant.
    fn seconds(&self) -> i32 {
        let lease = self.timing.lease;
        let whole = lease.as_secs() + u64::from(lease.subsec_nanos() > 0);
        i32::try_from(whole).unwrap_or(i32::MAX)
    }

    fn is_own(&self, lease: &Lease) -> bool {
        holder(lease) == Some(&self.identity)
    }
}

/// Who holds a Lease; a released one names nobody.
fn holder(lease: &Lease) -> Option<&str> {
    let holder = lease.spec.as_ref()?.holder_identity.as_deref()?;
    (!holder.is_empty()).then_some(holder)
}

/// Whether a Lease came of the one that was seen, by a write that was held against its version, and was not made anew.
fn is_rewritten(before: Option<&Seen>, now: &Lease) -> bool {
    let before = before.and_then(|seen| seen.lease.as_ref());
    before.is_some_and(|before| before.metadata.uid == now.metadata.uid)
}

/// Whether nobody has renewed it. What else changes, such as a label, is no sign of life.
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
