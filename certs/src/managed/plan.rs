//! Computes the next step from the observed state. No I/O: both clocks are parameters.
//!
//! A CA is replaced in three steps. Any replica can take each of them, whichever replica took the previous one:
//!
//! ```text
//! Secret: authorities  certificate of   step      taken when
//! old                  old              Prepare   two thirds of the validity of old are over
//! old, next            old              Switch    every caBundle has held next for the settle time
//! next, old            next             Retire    the certificate of next is twice the settle time old
//! next                 next
//! ```

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use super::bundle::{self, CaCertificate};
use super::lifetimes::{Lifetimes, until};
use super::observed::{ConfigurationKind, Now, ObjectState, Observed};
use super::stored::{Issuer, Leaf, Stored};
use crate::pair::unix_seconds;

/// Longest time between two plans: the wall clock may be changed.
const MAX_WAIT: Duration = Duration::from_secs(30);

/// A change of the Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Issues a new CA and a certificate from it. The CAs that are trusted already stay for a while.
    IssueAll {
        /// The CAs that stay.
        retained: Vec<CaCertificate>,
    },
    /// Issues a new certificate from the same CA, for the desired names and these.
    Renew {
        /// Names that another replica may need.
        names: Vec<String>,
    },
    /// Issues the next CA and distributes its certificate.
    Prepare,
    /// Issues a certificate from the next CA.
    Switch,
    /// Removes all CAs but that of the certificate.
    Retire,
}

/// The actions to take now.
#[derive(Debug)]
pub(crate) struct Plan {
    /// A new certificate to serve.
    pub(crate) serve: Option<Leaf>,
    /// A change of the Secret, and why.
    pub(crate) step: Option<(Step, String)>,
    /// The `caBundle` to inject; `None` while it is unknown.
    pub(crate) bundle: Option<String>,
    /// The configurations without it.
    pub(crate) inject: Vec<ConfigurationKind>,
    /// Whether the API server trusts the served certificate.
    pub(crate) is_injected: bool,
    /// When to plan again even if nothing changes.
    pub(crate) recheck_at: Instant,
}

/// The desired state.
#[derive(Clone, Debug)]
pub(crate) struct Desired {
    /// The names of the certificate, DNS names and addresses.
    pub(crate) names: Vec<String>,
    pub(crate) lifetimes: Lifetimes,
}

impl Observed {
    /// The actions to take now.
    pub(crate) fn plan(&self, desired: &Desired, now: Now) -> Plan {
        let stored = self.secret().get();
        let usable = stored.and_then(|stored| usable(stored, desired, now.wall));
        let serve = usable.filter(|leaf| self.should_serve(leaf, desired, now));
        let bundle = usable.and(stored).map(|stored| bundle::pem(&stored.authorities));
        let inject = bundle
            .as_deref()
            .map(|bundle| self.lacking_bundle(bundle))
            .unwrap_or_default();
        Plan {
            serve: serve.cloned(),
            step: self.step(desired, now),
            inject,
            is_injected: self.is_injected(serve.or(self.served()), now.monotonic),
            bundle,
            recheck_at: now.monotonic + self.idle_time(desired, now),
        }
    }

    /// Whether to replace the served certificate by the one in the Secret.
    ///
    /// If the Secret was deleted or damaged, its new certificate may be of a CA that is not in every `caBundle` yet. The served
    /// certificate is of a trusted CA, and stays until the API server trusts the new one.
    fn should_serve(&self, leaf: &Leaf, desired: &Desired, now: Now) -> bool {
        let Some(served) = self.served() else { return true };
        if served.is_same(leaf) {
            return false;
        }
        let trusted = |leaf: &Leaf| self.trusted_for(&leaf.authority, now.monotonic);
        served.authority == leaf.authority
            || !served.is_valid(now.wall)
            || trusted(leaf).is_some_and(|time| time >= desired.lifetimes.settle())
            || (trusted(leaf).is_some() && trusted(served).is_none())
    }

    /// The configurations without this bundle.
    fn lacking_bundle(&self, bundle: &str) -> Vec<ConfigurationKind> {
        let lacks = |kind: &ConfigurationKind| {
            let configuration = self.configuration(*kind).get();
            configuration
                .is_some_and(|configuration| configuration.is_ours() && !configuration.has_bundle(bundle))
        };
        ConfigurationKind::ALL.into_iter().filter(lacks).collect()
    }

    /// Whether there is a configuration, and every existing one trusts this certificate. One that cert-manager manages does
    /// not.
    fn is_injected(&self, leaf: Option<&Leaf>, now: Instant) -> bool {
        let configurations: Vec<_> = ConfigurationKind::ALL
            .into_iter()
            .filter_map(|kind| self.configuration(kind).get())
            .filter(|configuration| !configuration.webhooks.is_empty())
            .collect();
        let is_trusted = |leaf: &Leaf| self.trusted_for(&leaf.authority, now).is_some();
        let are_ours = configurations.iter().all(|configuration| configuration.is_ours());
        !configurations.is_empty() && are_ours && leaf.is_some_and(is_trusted)
    }

    /// The next change of the Secret, if one is due.
    fn step(&self, desired: &Desired, now: Now) -> Option<(Step, String)> {
        let stored = match self.secret() {
            ObjectState::Unknown => return None,
            ObjectState::Absent => {
                return self
                    .issue_all(None, now.wall)
                    .map(|step| (step, "there is no Secret".to_owned()));
            }
            ObjectState::Present(stored) => stored,
        };
        let Some(leaf) = usable(stored, desired, now.wall) else {
            return self.repair(stored, now.wall);
        };
        let issuer = can_issue(stored.issuer.as_ref(), now.wall);
        if let Some(change) = renewal(leaf, issuer, desired, now.wall) {
            return Some(change);
        }
        self.rotation(stored, leaf, issuer, desired, now)
    }

    /// The step that repairs a Secret without a usable certificate.
    fn repair(&self, stored: &Arc<Stored>, now: SystemTime) -> Option<(Step, String)> {
        let (why, names) = match &stored.leaf {
            Err(error) => (error.to_string(), Vec::new()),
            Ok(leaf) if !leaf.is_valid(now) => ("the certificate is not valid now".to_owned(), Vec::new()),
            // Another replica, of another version or with other flags, may need the names in it.
            Ok(leaf) => (
                "the certificate lacks some of the names".to_owned(),
                leaf.pair.names().to_vec(),
            ),
        };
        // A certificate from the same CA is trusted immediately.
        let step = if can_issue(stored.issuer.as_ref(), now).is_some() {
            Some(Step::Renew { names })
        } else {
            self.issue_all(Some(stored), now)
        };
        step.map(|step| (step, why))
    }

    /// Issues everything again. Every CA that is trusted anywhere stays trusted until all replicas have the new certificate;
    /// while a configuration is unknown, there is no step.
    fn issue_all(&self, stored: Option<&Arc<Stored>>, now: SystemTime) -> Option<Step> {
        if ConfigurationKind::ALL
            .into_iter()
            .any(|kind| self.configuration(kind).is_unknown())
        {
            return None;
        }
        let served = self.served().map(|leaf| leaf.authority.clone());
        let stored = stored.iter().flat_map(|stored| stored.authorities.clone());
        let trusted = served
            .into_iter()
            .chain(self.injected_authorities())
            .chain(stored);
        let retained = bundle::distinct(trusted.filter(|authority| authority.is_valid(now)));
        Some(Step::IssueAll { retained })
    }

    fn rotation(
        &self,
        stored: &Stored,
        leaf: &Leaf,
        issuer: Option<&Issuer>,
        desired: &Desired,
        now: Now,
    ) -> Option<(Step, String)> {
        let settle = desired.lifetimes.settle();
        if let Some(next) = can_issue(stored.next.as_ref(), now.wall) {
            let trusted = self.trusted_for(&next.authority, now.monotonic);
            let is_settled = trusted.is_some_and(|time| time >= settle);
            return is_settled.then(|| (Step::Switch, "every caBundle contains the next CA".to_owned()));
        }
        if issuer.is_none() {
            return Some((
                Step::Prepare,
                "the key of the CA is missing or damaged".to_owned(),
            ));
        }
        if unix_seconds(now.wall) >= due(&leaf.authority, desired) {
            return Some((
                Step::Prepare,
                "two thirds of the validity of the CA are over".to_owned(),
            ));
        }
        let is_over = |time: Option<Duration>| time.is_some_and(|time| time >= 2 * settle);
        let has_settled = is_over(self.signing_for(&leaf.authority, now.monotonic))
            && is_over(self.trusted_for(&leaf.authority, now.monotonic));
        (stored.authorities.len() > 1 && has_settled).then(|| {
            (
                Step::Retire,
                "every replica serves a certificate from the new CA".to_owned(),
            )
        })
    }

    /// How long nothing will be due, if nothing changes.
    fn idle_time(&self, desired: &Desired, now: Now) -> Duration {
        let settle = desired.lifetimes.settle();
        let mut waits = vec![MAX_WAIT];
        if let Some(stored) = self.secret().get() {
            for authority in &stored.authorities {
                let times = [
                    self.trusted_for(authority, now.monotonic),
                    self.signing_for(authority, now.monotonic),
                ];
                let ends = [settle, 2 * settle];
                let rest = |time: Duration| ends.map(|end| end.saturating_sub(time));
                waits.extend(times.into_iter().flatten().flat_map(rest));
                waits.push(until(now.wall, due(authority, desired)));
                waits.push(until(now.wall, authority.not_after()));
            }
            if let Ok(leaf) = &stored.leaf {
                let pair = &leaf.pair;
                let due = desired.lifetimes.due(pair.not_before(), pair.not_after());
                waits.push(until(now.wall, due));
                waits.push(until(now.wall, pair.not_after()));
            }
        }
        waits.extend(self.served().map(|leaf| until(now.wall, leaf.pair.not_after())));
        waits
            .into_iter()
            .filter(|wait| !wait.is_zero())
            .min()
            .unwrap_or(MAX_WAIT)
    }
}

/// The certificate in the Secret, if it can be served now.
fn usable<'s>(stored: &'s Stored, desired: &Desired, now: SystemTime) -> Option<&'s Leaf> {
    let leaf = stored.leaf.as_ref().ok();
    leaf.filter(|leaf| leaf.is_valid(now) && leaf.is_for(&desired.names))
}

/// The CA, if it can issue now.
fn can_issue(issuer: Option<&Issuer>, now: SystemTime) -> Option<&Issuer> {
    issuer.filter(|issuer| issuer.authority.is_valid(now))
}

/// The step that renews a usable certificate from the same CA, if it is due.
fn renewal(
    leaf: &Leaf,
    issuer: Option<&Issuer>,
    desired: &Desired,
    now: SystemTime,
) -> Option<(Step, String)> {
    let issuer = issuer?;
    let pair = &leaf.pair;
    let due = desired.lifetimes.due(pair.not_before(), pair.not_after());
    if pair.not_after() >= issuer.authority.not_after() {
        // A new certificate would not be valid for longer.
        return None;
    }
    let renew = || {
        (
            Step::Renew { names: Vec::new() },
            "two thirds of its validity are over".to_owned(),
        )
    };
    (unix_seconds(now) >= due).then(renew)
}

/// When a CA must be replaced, in seconds since 1970.
fn due(authority: &CaCertificate, desired: &Desired) -> i64 {
    desired
        .lifetimes
        .due(authority.not_before(), authority.not_after())
}
