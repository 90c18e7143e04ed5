//! The Helm tests of a release, after its installation or upgrade.

use std::time::Duration;

use helmops_api::timestamp::timestamp;
use helmops_release::{
    deployed::Deployed,
    lifecycle::TestPolicy,
    record::{FailedTest, TestState},
    report::TestResult,
};
use helmops_runtime::workers::WorkerPermit;
use k8s_openapi::jiff::Timestamp;

use crate::{
    error::AgentError,
    memory::{EndedTests, KnownTests},
    release_tests::{ReleaseTests, TestRun},
    session::ReleaseSession,
};

/// The tests of a revision.
#[derive(Debug)]
pub enum Tests {
    /// They are not to run.
    Disabled,
    /// They run in the next reconciliation, after this was reported: they may take long.
    Starting(String),
    /// They have ended, or there are none.
    Ended(TestResult),
    /// They failed to run, and are tried again after this time.
    Postponed(Duration),
    /// The revision has no record any more.
    NoRecord,
}

/// The result of the tests of a revision, which run if they have not ended yet. They do not run for a rollback: its record
/// has those of the revision that it restores. `known` has what is known of earlier looks: a record is read once. While they
/// run, other releases are reconciled with the permit.
///
/// # Errors
/// If they cannot be run.
pub async fn test(
    session: &ReleaseSession<'_>,
    deployed: &Deployed,
    known: &mut KnownTests,
    permit: &mut WorkerPermit,
) -> Result<Tests, AgentError> {
    let Some(policy) = &session.policy.test else {
        return Ok(Tests::Disabled);
    };
    if let Some(tested) = &known.ended
        && tested.is(&deployed.id, &policy.filters)
    {
        return Ok(Tests::Ended(tested.result.clone()));
    }
    let (context, release) = (session.context, &session.release);
    let Some(record) = context.records.read(release, deployed.id.number).await? else {
        return Ok(Tests::NoRecord);
    };
    let tests = record.test_hooks(&policy.filters).len();
    let result = match record.tests(&policy.filters) {
        TestState::NotRun if deployed.is_rollback => TestResult::NoTests,
        TestState::NotRun if known.reported.as_ref() == Some(&deployed.id) => {
            if let Some(wait) = session.backoff()? {
                return Ok(Tests::Postponed(wait));
            }
            run_tests(session, deployed, policy, tests, permit).await?
        }
        TestState::NotRun => {
            known.reported = Some(deployed.id.clone());
            let (revision, now) = (deployed.id.number, timestamp(Timestamp::now()));
            return Ok(Tests::Starting(format!(
                "the tests of revision {revision} are running (since {now})"
            )));
        }
        state => ended(&state, tests),
    };
    if result != TestResult::Pending {
        known.ended = Some(EndedTests {
            id: deployed.id.clone(),
            filters: policy.filters.clone(),
            result: result.clone(),
        });
    }
    Ok(Tests::Ended(result))
}

async fn run_tests(
    session: &ReleaseSession<'_>,
    deployed: &Deployed,
    policy: &TestPolicy,
    tests: usize,
    permit: &mut WorkerPermit,
) -> Result<TestResult, AgentError> {
    let (context, release) = (session.context, &session.release);
    let (identity, client) = session.deployer().await?;
    let set = session.set();
    let run = ReleaseTests {
        helm: &context.helm,
        records: &context.records,
        client: &client,
        set: &set,
        stop: &session.work.tests,
    };
    tracing::info!(%release, tests, "running the tests");
    let tests_of_revision = TestRun {
        release: release.clone(),
        revision: deployed.id.number,
        identity,
        filters: policy.filters.clone(),
        timeout: policy.timeout,
    };
    let tested = Box::pin(run.run(tests_of_revision, context.kubeconfig()?));
    let tested = permit
        .release_during(session.records.changed_by(tested))
        .await??;
    let result = match tested.failure {
        Some(failure) => TestResult::Failed(failure.to_string()),
        None => ended(&tested.state, tests),
    };
    context.reports.tested(release, deployed.id.number, &result);
    Ok(result)
}

fn ended(state: &TestState, tests: usize) -> TestResult {
    match state {
        TestState::NoTests => TestResult::NoTests,
        TestState::NotRun => TestResult::Pending,
        TestState::Succeeded => TestResult::Succeeded { tests },
        TestState::Failed(FailedTest {
            kind,
            name,
            namespace,
            completed_at,
        }) => TestResult::Failed(format!("{kind} {namespace}/{name} failed at {completed_at}")),
    }
}
