//! What this process remembers of each release between reconciliations. It may be lost: then reads, waits and looks at
//! tests begin again.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use helmops_api::lifecycle::Requests;
use helmops_process::lock;
use helmops_release::{
    deployed::{Deployed, RevisionId},
    record::TestFilters,
    report::TestResult,
};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use tokio::sync::Mutex as AsyncMutex;

use crate::{inputs::CopyId, monitor::Installed, pods::PodCauses};

/// What is known of the release of each BundleDeployment.
#[derive(Debug, Default)]
pub struct Releases(Mutex<HashMap<String, Release>>);

/// What is known of the release of a BundleDeployment. It is locked while it is used: by its reconciliation, or by its removal.
pub type Release = Arc<AsyncMutex<ReleaseMemory>>;

/// What is known of the release of a BundleDeployment.
#[derive(Debug, Default)]
pub struct ReleaseMemory {
    /// The installed revision.
    pub installed: Option<Installed>,
    /// Since when it cannot be observed.
    pub unknown_since: Option<Instant>,
    /// The requests that were handled last: the cache may not show the status with them yet.
    pub handled: Option<Requests>,
    /// What is known of its tests.
    pub tests: KnownTests,
    /// What was seen of the deployed revision.
    pub watched: Option<WatchedRevision>,
    /// Why workloads are not ready.
    pub causes: PodCauses,
    /// The copies of the last release that was settled.
    pub copies: Option<BTreeSet<CopyId>>,
}

/// What is known of tests.
#[derive(Debug, Default)]
pub struct KnownTests {
    /// The revision whose tests are reported as running.
    pub reported: Option<RevisionId>,
    /// The tests that have ended.
    pub ended: Option<EndedTests>,
}

/// Tests that have ended.
#[derive(Debug)]
pub struct EndedTests {
    /// The revision.
    pub id: RevisionId,
    /// Which tests.
    pub filters: TestFilters,
    /// Their result.
    pub result: TestResult,
}

impl EndedTests {
    /// Whether it is the result of these tests of this revision.
    pub fn is(&self, revision: &RevisionId, filters: &TestFilters) -> bool {
        (&self.id, &self.filters) == (revision, filters)
    }
}

impl Releases {
    /// What is known of the release of a BundleDeployment.
    pub fn of(&self, deployment: &str) -> Release {
        Arc::clone(lock(&self.0).entry(deployment.to_owned()).or_default())
    }

    /// Forgets a BundleDeployment.
    pub fn forget(&self, deployment: &str) {
        lock(&self.0).remove(deployment);
    }
}

/// What this process has seen of a revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchedRevision {
    /// Which one.
    pub id: RevisionId,
    /// When it was seen first.
    first: Timestamp,
    /// It was ready once.
    pub was_ready: bool,
    /// Its record shows that it was accepted; the cache may be behind.
    pub is_accepted: bool,
    /// What only failed attempts before it had is deleted.
    pub is_cleared: bool,
}

impl WatchedRevision {
    /// What was seen of the revision that runs: from now on, if it is another one.
    pub fn of<'w>(watched: &'w mut Option<Self>, running: &Deployed) -> &'w mut Self {
        let same = watched.take().filter(|watched| watched.id == running.id);
        watched.insert(same.unwrap_or_else(|| Self::new(running.id.clone(), Timestamp::now())))
    }

    /// A revision that is seen now.
    pub const fn new(id: RevisionId, now: Timestamp) -> Self {
        Self {
            id,
            first: now,
            was_ready: false,
            is_accepted: false,
            is_cleared: false,
        }
    }

    /// When the wait for it ends. If the time was over when the revision was seen first, then nothing is known of that time: hooks took
    /// long, or the agent was away. So the time starts then.
    pub fn deadline(&self, timeout: Duration) -> Timestamp {
        let timeout = timeout_of(timeout);
        let after = |time: Timestamp| time.saturating_add(timeout).unwrap_or(Timestamp::MAX);
        let until = after(self.id.made_at.unwrap_or(Timestamp::UNIX_EPOCH));
        if self.first < until {
            until
        } else {
            after(self.first)
        }
    }

    /// Whether its time was over when it was seen first.
    pub fn is_seen_late(&self, timeout: Duration) -> bool {
        self.id
            .made_at
            .is_none_or(|made_at| self.deadline(timeout).duration_since(made_at) > timeout_of(timeout))
    }
}

fn timeout_of(timeout: Duration) -> SignedDuration {
    SignedDuration::try_from(timeout).unwrap_or(SignedDuration::MAX)
}

#[cfg(test)]
mod tests {
    use helmops_release::names::ReleaseKey;

    use super::*;

    #[test]
    fn tests_of_a_revision_are_no_result_of_the_next_one_with_its_number() {
        let revision = |number, made_at| RevisionId {
            release: ReleaseKey::new("shop", "web"),
            number,
            made_at: Timestamp::from_second(made_at).ok(),
        };
        let tested = EndedTests {
            id: revision(2, 100),
            filters: TestFilters::default(),
            result: TestResult::NoTests,
        };
        let all = TestFilters::default();
        let some = TestFilters {
            include: vec!["smoke".to_owned()],
            ..TestFilters::default()
        };
        assert!(tested.is(&revision(2, 100), &all));
        assert!(!tested.is(&revision(2, 200), &all));
        assert!(!tested.is(&revision(3, 100), &all));
        assert!(!tested.is(&revision(2, 100), &some));
    }
}
