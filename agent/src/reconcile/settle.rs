//! What follows from the objects of the revision that runs.
//!
//! ```text
//! deployed ─► ready? ─► tested? ─► accept, clear what is not needed any more
//!               │          └─ failed ─► remediate
//!               ├─ late ─► wait         ├─ failed ─► remediate         └─ failed before, and ready after all ─► recover
//! ```

use std::time::Duration;

use helmops_release::{
    deployed::Deployed,
    lifecycle::Policy,
    record::{Acceptance, Failure},
    report::TestResult,
};
use helmops_runtime::workers::WorkerPermit;
use k8s_openapi::jiff::Timestamp;

use super::{
    converge, objects,
    outcome::Outcome,
    readiness::{self, Verdict},
};
use crate::{
    error::AgentError,
    memory::{ReleaseMemory, WatchedRevision},
    monitor::Monitored,
    operations::{
        self, leftovers,
        renamed::{own_releases, remove_renamed},
        test::{self, Tests},
    },
    session::ReleaseSession,
};

/// A release after its objects were observed.
pub struct SettledRelease {
    pub outcome: Outcome,
    /// Its objects; `None` if they are not to be reported now.
    pub objects: Result<Option<Monitored>, AgentError>,
    /// The result of its tests.
    pub tests: Option<TestResult>,
    /// Why something that is not needed any more could not be deleted.
    pub uncleared: Option<AgentError>,
}

/// Decides about the revision that runs, if its objects were observed, and does what follows.
///
/// # Errors
/// If a record cannot be written, or as [`converge::fail`].
pub async fn settle(
    session: &ReleaseSession<'_>,
    outcome: Outcome,
    objects: Result<Option<Monitored>, AgentError>,
    memory: &mut ReleaseMemory,
    permit: &mut WorkerPermit,
) -> Result<SettledRelease, AgentError> {
    let mut settled = SettledRelease {
        outcome,
        objects,
        tests: None,
        uncleared: None,
    };
    let (Ok(Some(monitored)), Some(installed), Some(running)) =
        (&settled.objects, &memory.installed, settled.outcome.running())
    else {
        return Ok(settled);
    };
    let watched = WatchedRevision::of(&mut memory.watched, running);
    let revision = running.id.number;
    let mut verdict = readiness::verdict(
        (session.deployment, session.policy.for_action(running.action).wait),
        &settled.outcome,
        installed,
        watched,
        |id| monitored.readiness.get(id),
        Timestamp::now(),
    );
    let deployed = settled
        .outcome
        .deployed()
        .filter(|_| installed.is_marked())
        .cloned();
    if let (Verdict::Ready, Some(deployed)) = (&verdict, deployed) {
        watched.was_ready = true;
        let tests = test::test(session, &deployed, &mut memory.tests, permit).await;
        verdict = tested(session, &deployed, tests, &mut settled, watched).await?;
    }
    match verdict {
        Verdict::Ready => {
            if let Some(deployed) = settled.outcome.deployed() {
                // What cannot be deleted does not keep the status from being written.
                let cleared = leftovers::clear(session, deployed, watched, &mut memory.copies).await;
                settled.uncleared = cleared.err();
            }
        }
        Verdict::Recovered => {
            operations::recover(session, revision).await?;
            settled.outcome = Outcome::ReconcileAgain;
        }
        Verdict::Waiting { remaining, late } => {
            tracing::info!(late, "waiting for the release");
            settled.outcome = Outcome::Waiting { remaining, late };
            settled.objects = Ok(None);
        }
        Verdict::Failed(failure) => {
            settled.outcome = converge::fail(session, permit, revision, &failure).await?;
            settled.objects = objects::observe(
                session,
                &settled.outcome,
                &mut memory.installed,
                &mut memory.causes,
            )
            .await;
        }
    }
    Ok(settled)
}

/// What tests mean for a revision that is ready. One that has passed them is accepted.
async fn tested(
    session: &ReleaseSession<'_>,
    deployed: &Deployed,
    tests: Result<Tests, AgentError>,
    settled: &mut SettledRelease,
    watched: &mut WatchedRevision,
) -> Result<Verdict, AgentError> {
    match tests {
        Ok(Tests::Disabled) => accept(session, deployed, watched).await?,
        Ok(Tests::Starting(late)) => {
            settled.tests = Some(TestResult::Pending);
            let remaining = Duration::ZERO;
            return Ok(Verdict::Waiting { remaining, late });
        }
        Ok(Tests::Ended(result)) => {
            let failure = failure_of_tests(&session.policy, deployed, &result);
            if failure.is_none() && result != TestResult::Pending {
                accept(session, deployed, watched).await?;
            }
            settled.tests = Some(result);
            return Ok(failure.map_or(Verdict::Ready, Verdict::Failed));
        }
        Ok(Tests::Postponed(wait)) => settled.outcome = Outcome::Postponed(wait),
        Ok(Tests::NoRecord) => settled.outcome = Outcome::ReconcileAgain,
        // They could not run: that is no result of theirs, but has to be reported.
        Err(error) => settled.outcome = Outcome::Failed(error),
    }
    Ok(Verdict::Ready)
}

/// The failure of a revision whose tests have failed. A rollback is no attempt, so that no remediation can follow it.
fn failure_of_tests(policy: &Policy, deployed: &Deployed, tests: &TestResult) -> Option<Failure> {
    let ignores_failures = policy.test.as_ref().is_some_and(|test| test.ignores_failures);
    match tests {
        TestResult::Failed(cause) if !ignores_failures && !deployed.is_rollback => {
            Some(Failure::Test(cause.clone()))
        }
        _ => None,
    }
}

/// Records that a revision was ready and passed its tests: one write for each revision that was awaited. What it has replaced under
/// another name is removed then.
async fn accept(
    session: &ReleaseSession<'_>,
    deployed: &Deployed,
    watched: &mut WatchedRevision,
) -> Result<(), AgentError> {
    let is_awaited = deployed.acceptance == Some(Acceptance::Awaited) && !deployed.is_rollback;
    if watched.is_accepted || !is_awaited {
        return Ok(());
    }
    let context = session.context;
    let accepted = context.records.accept(&session.release, deployed.id.number);
    session.records.changed_by(accepted).await?;
    watched.is_accepted = true;
    let releases = own_releases(context, session.name()).await?;
    remove_renamed(context, session.deployment, &releases).await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use helmops_release::{deployed::RevisionId, names::ReleaseKey, record::AttemptAction};

    use super::*;

    /// Whatever its tests show: the remediation would be that of the attempt whose chart it has.
    #[test]
    fn a_rollback_fails_with_no_test() {
        let policy = |ignores| {
            let test = serde_json::json!({ "enable": true, "ignoreFailures": ignores });
            let lifecycle = serde_json::from_value(serde_json::json!({ "test": test })).unwrap();
            Policy::of(&helmops_api::BundleDeploymentOptions::default(), Some(&lifecycle))
        };
        let deployed = |is_rollback| Deployed {
            id: RevisionId {
                release: ReleaseKey::new("shop", "web"),
                number: 3,
                made_at: None,
            },
            acceptance: None,
            action: AttemptAction::Install,
            is_rollback,
            previous: None,
        };
        let failed = TestResult::Failed("Pod shop/web-check failed".to_owned());
        for (is_rollback, ignores, expected) in [
            (false, false, true),
            (false, true, false),
            (true, false, false),
            (true, true, false),
        ] {
            let failure = failure_of_tests(&policy(ignores), &deployed(is_rollback), &failed);
            assert_eq!(failure.is_some(), expected, "{is_rollback} {ignores}");
        }
    }
}
