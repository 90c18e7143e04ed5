//! What is to be done about what was seen. It reaches for nothing: both clocks are parameters.
//!
//! An authority is followed by another in three steps, each of which any replica can take, whoever took the one before:
//!
//! ```text
//! Secret: authorities  certificate of   step      taken when
//! old                  old              Prepare   two thirds of the life of old are over
//! old, next            old              Switch    every caBundle has held next for the settle time
//! next, old            next             Retire    the certificate of next has been there for twice the settle time
//! next                 next
//! ```

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use super::bundle::{self, CaCertificate};
use super::lifetimes::{Lifetimes, until};
use super::sight::{Kind, Known, Now, Observed};
use super::stored::{Issuer, Leaf, Stored};
use crate::pair::unix_seconds;

/// A look at the clock at least this often.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// A change of the Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A new authority and a certificate of it. The authorities that are trusted already stay for a while.
    Anew {
        /// Those that stay.
        retained: Vec<CaCertificate>,
    },
    /// A new certificate of the same authority, for these names beside the wanted ones.
    Renew {
        /// Those that another replica may want.
        names: Vec<String>,
    },
    /// A next authority is made known.
    Prepare,
    /// A certificate of the next authority.
    Switch,
    /// Only the authority of the certificate stays.
    Retire,
}

/// What to do now.
#[derive(Debug)]
pub(crate) struct Plan {
    /// A certificate to serve in place of the one served.
    pub(crate) serve: Option<Leaf>,
    /// A change of the Secret, and why.
    pub(crate) step: Option<(Step, String)>,
    /// The bundle of every caller; `None` while it is not known which.
    pub(crate) bundle: Option<String>,
    /// The configurations that do not have it.
    pub(crate) inject: Vec<Kind>,
    /// Whether callers trust what is served.
    pub(crate) is_injected: bool,
    /// When to look again though nothing has changed.
    pub(crate) again: Instant,
}

/// What is wanted.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    /// The names of the certificate, DNS names and addresses.
    pub(crate) names: Vec<String>,
    pub(crate) lifetimes: Lifetimes,
}

impl Observed {
    /// What to do now.
    pub(crate) fn plan(&self, wanted: &Wanted, now: Now) -> Plan {
        let stored = self.secret().get();
        let usable = stored.and_then(|stored| usable(stored, wanted, now.wall));
        let serve = usable.filter(|leaf| self.takes_up(leaf, wanted, now));
        let bundle = usable.and(stored).map(|stored| bundle::pem(&stored.authorities));
        let inject = bundle
            .as_deref()
            .map(|bundle| self.lacking(bundle))
            .unwrap_or_default();
        Plan {
            serve: serve.cloned(),
            step: self.step(wanted, now),
            inject,
            is_injected: self.is_injected(serve.or(self.served()), now.steady),
            bundle,
            again: now.steady + self.wait(wanted, now),
        }
    }

    /// Whether the certificate in the Secret is to be served in place of the one that is.
    ///
    /// After a mishap it is of an authority that callers do not trust yet. The one that is served still is of one that they
    /// trust, and goes on being served until all of them know better.
    fn takes_up(&self, leaf: &Leaf, wanted: &Wanted, now: Now) -> bool {
        let Some(served) = self.served() else { return true };
        if served.is(leaf) {
            return false;
        }
        let trusted = |leaf: &Leaf| self.trusted_for(&leaf.authority, now.steady);
        served.authority == leaf.authority
            || !served.is_valid(now.wall)
            || trusted(leaf).is_some_and(|time| time >= wanted.lifetimes.settle())
            || (trusted(leaf).is_some() && trusted(served).is_none())
    }

    /// The configurations that lack this bundle.
    fn lacking(&self, bundle: &str) -> Vec<Kind> {
        let lacks = |kind: &Kind| {
            let configuration = self.configuration(*kind).get();
            configuration.is_some_and(|configuration| configuration.is_ours() && !configuration.holds(bundle))
        };
        Kind::ALL.into_iter().filter(lacks).collect()
    }

    /// Whether there is a configuration, and every one that there is trusts this certificate. One that is left to
    /// cert-manager does not.
    fn is_injected(&self, leaf: Option<&Leaf>, now: Instant) -> bool {
        let calling: Vec<_> = Kind::ALL
            .into_iter()
            .filter_map(|kind| self.configuration(kind).get())
            .filter(|configuration| !configuration.hooks.is_empty())
            .collect();
        let is_trusted = |leaf: &Leaf| self.trusted_for(&leaf.authority, now).is_some();
        let are_ours = calling.iter().all(|configuration| configuration.is_ours());
        !calling.is_empty() && are_ours && leaf.is_some_and(is_trusted)
    }

    /// The next change of the Secret, if it is time for one.
    fn step(&self, wanted: &Wanted, now: Now) -> Option<(Step, String)> {
        let stored = match self.secret() {
            Known::Unknown => return None,
            Known::Absent => {
                return self
                    .anew(None, now.wall)
                    .map(|step| (step, "there is no Secret".to_owned()));
            }
            Known::Is(stored) => stored,
        };
        let Some(leaf) = usable(stored, wanted, now.wall) else {
            return self.mend(stored, now.wall);
        };
        let issuer = able(stored.issuer.as_ref(), now.wall);
        if let Some(change) = renewal(leaf, issuer, wanted, now.wall) {
            return Some(change);
        }
        self.rotation(stored, leaf, issuer, wanted, now)
    }

    /// What to do about a Secret without a certificate that can be served.
    fn mend(&self, stored: &Arc<Stored>, now: SystemTime) -> Option<(Step, String)> {
        let (why, names) = match &stored.leaf {
            Err(flaw) => (flaw.to_string(), Vec::new()),
            Ok(leaf) if !leaf.is_valid(now) => ("the certificate is not valid now".to_owned(), Vec::new()),
            // Another replica, of another version or with other flags, may want those that are in it.
            Ok(leaf) => (
                "the certificate is not for all names".to_owned(),
                leaf.pair.names().to_vec(),
            ),
        };
        // A certificate of the same authority is trusted at once.
        let step = if able(stored.issuer.as_ref(), now).is_some() {
            Some(Step::Renew { names })
        } else {
            self.anew(Some(stored), now)
        };
        step.map(|step| (step, why))
    }

    /// From the beginning. Whoever is trusted anywhere stays trusted until all replicas have the new certificate; while it is
    /// not known who is, nothing is done.
    fn anew(&self, stored: Option<&Arc<Stored>>, now: SystemTime) -> Option<Step> {
        if Kind::ALL
            .into_iter()
            .any(|kind| self.configuration(kind).is_unknown())
        {
            return None;
        }
        let served = self.served().map(|leaf| leaf.authority.clone());
        let stored = stored.iter().flat_map(|stored| stored.authorities.clone());
        let trusted = served.into_iter().chain(self.injected()).chain(stored);
        let retained = bundle::distinct(trusted.filter(|authority| authority.is_valid(now)));
        Some(Step::Anew { retained })
    }

    fn rotation(
        &self,
        stored: &Stored,
        leaf: &Leaf,
        issuer: Option<&Issuer>,
        wanted: &Wanted,
        now: Now,
    ) -> Option<(Step, String)> {
        let settle = wanted.lifetimes.settle();
        if let Some(next) = able(stored.next.as_ref(), now.wall) {
            let trusted = self.trusted_for(&next.authority, now.steady);
            let is_settled = trusted.is_some_and(|time| time >= settle);
            return is_settled.then(|| (Step::Switch, "every caller trusts the next CA".to_owned()));
        }
        if issuer.is_none() {
            return Some((
                Step::Prepare,
                "the key of the CA is missing or damaged".to_owned(),
            ));
        }
        if unix_seconds(now.wall) >= due(&leaf.authority, wanted) {
            return Some((Step::Prepare, "two thirds of the CA's life are over".to_owned()));
        }
        let is_over = |time: Option<Duration>| time.is_some_and(|time| time >= 2 * settle);
        let has_settled = is_over(self.signs_for(&leaf.authority, now.steady))
            && is_over(self.trusted_for(&leaf.authority, now.steady));
        (stored.authorities.len() > 1 && has_settled).then(|| {
            (
                Step::Retire,
                "every replica serves a certificate of the new CA".to_owned(),
            )
        })
    }

    /// How long nothing will be to do, if nothing changes.
    fn wait(&self, wanted: &Wanted, now: Now) -> Duration {
        let settle = wanted.lifetimes.settle();
        let mut waits = vec![LONGEST_WAIT];
        if let Some(stored) = self.secret().get() {
            for authority in &stored.authorities {
                let times = [
                    self.trusted_for(authority, now.steady),
                    self.signs_for(authority, now.steady),
                ];
                let ends = [settle, 2 * settle];
                let rest = |time: Duration| ends.map(|end| end.saturating_sub(time));
                waits.extend(times.into_iter().flatten().flat_map(rest));
                waits.push(until(now.wall, due(authority, wanted)));
                waits.push(until(now.wall, authority.not_after()));
            }
            if let Ok(leaf) = &stored.leaf {
                let pair = &leaf.pair;
                let due = wanted.lifetimes.due(pair.not_before(), pair.not_after());
                waits.push(until(now.wall, due));
                waits.push(until(now.wall, pair.not_after()));
            }
        }
        waits.extend(self.served().map(|leaf| until(now.wall, leaf.pair.not_after())));
        waits
            .into_iter()
            .filter(|wait| !wait.is_zero())
            .min()
            .unwrap_or(LONGEST_WAIT)
    }
}

/// The certificate in the Secret, if it can be served now.
fn usable<'s>(stored: &'s Stored, wanted: &Wanted, now: SystemTime) -> Option<&'s Leaf> {
    let leaf = stored.leaf.as_ref().ok();
    leaf.filter(|leaf| leaf.is_valid(now) && leaf.is_for(&wanted.names))
}

/// One that can issue now.
fn able(issuer: Option<&Issuer>, now: SystemTime) -> Option<&Issuer> {
    issuer.filter(|issuer| issuer.authority.is_valid(now))
}

/// Whether a certificate that can be served is to be followed by another of the same authority.
fn renewal(leaf: &Leaf, issuer: Option<&Issuer>, wanted: &Wanted, now: SystemTime) -> Option<(Step, String)> {
    let issuer = issuer?;
    let pair = &leaf.pair;
    let due = wanted.lifetimes.due(pair.not_before(), pair.not_after());
    if pair.not_after() >= issuer.authority.not_after() {
        // It could not be longer, only sooner.
        return None;
    }
    let renew = || {
        (
            Step::Renew { names: Vec::new() },
            "two thirds of its life are over".to_owned(),
        )
    };
    (unix_seconds(now) >= due).then(renew)
}

/// When an authority is to be followed by another, in seconds since 1970.
fn due(authority: &CaCertificate, wanted: &Wanted) -> i64 {
    wanted
        .lifetimes
        .due(authority.not_before(), authority.not_after())
}
