//! The Helm tests of a release.
//!
//! ```text
//! record ─► which tests ─► delete what earlier runs have left ─► helm test ─► record: how they ended ─► log of the failed one
//! ```

mod leftovers;
mod log;

use std::{fmt, time::Duration};

use helmops_helm::{
    Failure, FailureReason,
    request::{Action, Identity, Request, Test},
    run_scope::RunScope,
};
use helmops_release::{
    names::{ReleaseKey, SetId},
    record::{FailedTest, Record, TestFilters, TestState},
};
use helmops_runtime::client::CallError;
use kube::Client;
use thiserror::Error;

use crate::{
    helm::HelmRuns,
    records::{RecordStoreError, Records, Reserved},
};

/// The tests of a revision.
#[derive(Clone, Debug)]
pub struct TestRun {
    pub release: ReleaseKey,
    /// The revision: the newest one, of which alone Helm runs tests.
    pub revision: u64,
    /// The account that runs the tests.
    pub identity: Identity,
    pub filters: TestFilters,
    /// The maximum time of each test.
    pub timeout: Duration,
}

/// Runs the tests of releases.
#[derive(Clone, Copy)]
pub struct ReleaseTests<'t> {
    pub helm: &'t HelmRuns,
    pub records: &'t Records,
    /// The cluster, as the account that deploys.
    pub client: &'t Client,
    /// The identity of the objects of the release.
    pub set: &'t SetId,
    /// Ends the tests early.
    pub stop: &'t RunScope,
}

/// The result of the tests of a revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tested {
    /// The state of the tests in the record.
    pub state: TestState,
    /// The first test that failed, with its error.
    pub failure: Option<FailedRun>,
}

/// Why a test failed, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedRun {
    pub test: FailedTest,
    /// The error of Helm.
    pub error: Failure,
    /// The end of its log, or why its pod did not start.
    pub log: Option<String>,
}

/// Why tests could not be run. None of them has failed.
#[derive(Debug, Error)]
pub enum TestError {
    /// A record cannot be used.
    #[error(transparent)]
    Record(#[from] RecordStoreError),
    /// What an earlier run has left cannot be deleted.
    #[error(transparent)]
    Call(#[from] CallError),
    /// Helm failed before it ran a test, or was interrupted.
    #[error(transparent)]
    Helm(#[from] Failure),
}

impl ReleaseTests<'_> {
    /// Runs tests, whether they ran before or not.
    ///
    /// # Errors
    /// If they could not be run.
    pub async fn run(&self, run: TestRun, kubeconfig: Vec<u8>) -> Result<Tested, TestError> {
        let before = self.record(&run).await?;
        let tests = before.test_hooks(&run.filters);
        if tests.is_empty() {
            return Ok(Tested {
                state: TestState::NoTests,
                failure: None,
            });
        }
        leftovers::delete(self.client, &tests, &run.release.namespace, self.set).await?;
        let request = Request {
            release: run.release.clone(),
            identity: run.identity.clone(),
            action: Action::Test(Test {
                filters: run.filters.clone(),
                count: u32::try_from(tests.len()).unwrap_or(u32::MAX),
            }),
            hook_timeout: run.timeout,
        };
        let ended = self.helm.run(request, kubeconfig, self.stop).await;
        if !run.filters.is_empty() {
            // If it was interrupted, the hooks that the filters exclude are gone from the record.
            self.records
                .restore_hooks(&run.release, run.revision, &before.hooks)
                .await?;
        }
        let was = before.tests(&run.filters);
        let state = self.record(&run).await?.tests(&run.filters);
        match (ended, state) {
            (Ok(_), state) => Ok(Tested { state, failure: None }),
            // The next run finds in the record what has ended.
            (Err(error), _) if error.reason.is_interruption() => Err(error.into()),
            // An earlier run does not count.
            (Err(error), TestState::Failed(test)) if was != TestState::Failed(test.clone()) => {
                let log = log::excerpt(self.client, &test).await;
                Ok(Tested {
                    state: TestState::Failed(test.clone()),
                    failure: Some(FailedRun { test, error, log }),
                })
            }
            (Err(error), _) => Err(error.into()),
        }
    }

    async fn record(&self, run: &TestRun) -> Result<Reserved<Record>, TestError> {
        let found = self.records.read(&run.release, run.revision).await?;
        found.ok_or_else(|| {
            let message = format!(
                "release {} has no revision {} any more",
                run.release, run.revision
            );
            Failure::new(FailureReason::NoRecord, message).into()
        })
    }
}

/// The test, what Helm reports, and the end of the log.
impl fmt::Display for FailedRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FailedTest {
            kind,
            name,
            namespace,
            ..
        } = &self.test;
        let how = if self.error.reason == FailureReason::HookTimeout {
            "did not end in time"
        } else {
            "failed"
        };
        write!(f, "{kind} {namespace}/{name} {how}: {}", self.error.message)?;
        match &self.log {
            Some(log) => write!(f, "\n{log}"),
            None => Ok(()),
        }
    }
}
