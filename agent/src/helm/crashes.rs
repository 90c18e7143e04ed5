//! Runs during which the agent ended without a chance to stop them: its container was out of memory, for example.
//!
//! ```text
//! mark in the workspace ─► Helm ─┬─► the workspace is removed
//!                                └─► crash ─► next start: what is left ─► Crashes ─► the next attempt waits
//! ```
//!
//! Templates are rendered before Helm writes a record, and the backoff of a reconciliation is in memory. So without this, a release
//! that takes too much memory would end the container immediately again, and no other release would get its turn.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use helmops_fair::ExponentialBackoff;
use helmops_helm::{RunMark, request::Request};
use helmops_process::lock;
use helmops_release::{names::ReleaseKey, record};
use k8s_openapi::jiff::Timestamp;

/// The delays from the second crash on: any process may be killed once.
const BACKOFF: ExponentialBackoff = ExponentialBackoff {
    initial_delay: Duration::from_secs(10),
    max_delay: Duration::from_mins(30),
};

/// A release whose last run ended with the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crash {
    /// How many runs ended like that, one after the other.
    pub count: u32,
    /// When the next attempt may follow. It is in a message, which does not change while it waits.
    pub until: Timestamp,
}

/// The runs of this deployment that ended with the agent. They are forgotten with the first one that ends otherwise.
#[derive(Clone, Debug, Default)]
pub(super) struct Crashes(Arc<Mutex<HashMap<ReleaseKey, Known>>>);

#[derive(Debug)]
struct Known {
    deployment_id: String,
    count: u32,
    until: Timestamp,
}

impl Crashes {
    /// From the marks that were left.
    pub(super) fn of(marks: &[RunMark], now: Timestamp) -> Self {
        let known = marks.iter().filter_map(|mark| {
            tracing::warn!(
                ?mark,
                "the agent ended while Helm ran, without a chance to stop it"
            );
            let count = mark.crashes.saturating_add(1);
            let delay = count.checked_sub(2).map(|before| BACKOFF.after(before));
            let known = Known {
                deployment_id: mark.deployment_id.clone(),
                count,
                until: now.saturating_add(delay.unwrap_or_default()).unwrap_or(now),
            };
            Some((ReleaseKey::parse(&mark.release)?, known))
        });
        Self(Arc::new(Mutex::new(known.collect())))
    }

    /// The mark of a run; `None` if it deploys nothing.
    pub(super) fn mark(&self, request: &Request) -> Option<RunMark> {
        let attempt = request.action.deploy()?.origin.attempt.as_ref()?;
        let deployment_id = record::deployment_id(&attempt.deployment_id);
        let known = lock(&self.0);
        let known = known.get(&request.release);
        let crashes = known.filter(|known| known.deployment_id == deployment_id);
        Some(RunMark {
            release: request.release.to_string(),
            deployment_id: deployment_id.to_owned(),
            crashes: crashes.map_or(0, |known| known.count),
        })
    }

    /// Whether the last run of a deployment ended with the agent.
    pub(super) fn get(&self, release: &ReleaseKey, deployment_id: &str) -> Option<Crash> {
        let known = lock(&self.0);
        let known = known
            .get(release)
            .filter(|known| known.deployment_id == deployment_id)?;
        Some(Crash {
            count: known.count,
            until: known.until,
        })
    }

    /// A run of a release has ended, or the release was removed.
    pub(super) fn forget(&self, release: &ReleaseKey) {
        lock(&self.0).remove(release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn web() -> ReleaseKey {
        ReleaseKey::parse("shop/web").unwrap()
    }

    fn crashes(before: u32, now: Timestamp) -> Crashes {
        let mark = RunMark {
            release: web().to_string(),
            deployment_id: ":a".to_owned(),
            crashes: before,
        };
        Crashes::of(&[mark], now)
    }

    #[test]
    fn the_delay_starts_with_the_second_crash_and_grows() {
        let now = Timestamp::UNIX_EPOCH;
        let waits = [0, 1, 2, 3, 100].map(|before| {
            let crash = crashes(before, now).get(&web(), ":a").unwrap();
            (crash.count, crash.until.as_second())
        });
        assert_eq!(waits, [(1, 0), (2, 10), (3, 20), (4, 40), (101, 1800)]);
    }

    #[test]
    fn another_deployment_or_an_end_is_no_crash() {
        let crashes = crashes(4, Timestamp::UNIX_EPOCH);
        assert_eq!(crashes.get(&web(), ":b"), None);
        crashes.forget(&web());
        assert_eq!(crashes.get(&web(), ":a"), None);
    }
}
