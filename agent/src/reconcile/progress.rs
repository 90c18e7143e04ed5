//! What the status shows of the life cycle.

use helmops_release::{history::History, record::Failure, report::TestResult};
use k8s_openapi::jiff::Timestamp;

use super::{deployed::Deployed, deployment::Deployment};
use crate::error::AgentError;

/// The records of a release with a life cycle, or of one whose status does not show what runs; `None` for others. After an attempt, the cache
/// may be behind.
///
/// # Errors
/// If they cannot be read.
pub async fn history(
    work: &Deployment<'_>,
    result: &Result<Deployed, AgentError>,
) -> Result<Option<History>, AgentError> {
    let (spec, status) = (&work.wanted.spec, &work.wanted.status);
    let is_captured = matches!(result, Err(AgentError::Helm(failure)) if failure.is_captured())
        || status.lifecycle.is_some();
    if spec.lifecycle.is_none() && !is_captured {
        return Ok(None);
    }
    let is_reported = |deployed: &Deployed| status.release == deployed.id.to_string();
    let history = if result.as_ref().is_ok_and(is_reported) {
        work.context.records.cached_history(&work.release).await?
    } else {
        work.records.history().await?
    };
    Ok(Some(history))
}

/// What failed last and what comes next, and when.
pub fn retry(result: &Result<Deployed, AgentError>) -> Option<(String, Timestamp)> {
    match result {
        Err(AgentError::Retry(next)) => Some((next.text.clone(), next.at)),
        _ => None,
    }
}

/// The result of the tests. If one has failed, the revision has failed with it.
pub fn tests(
    work: &Deployment<'_>,
    tests: Option<TestResult>,
    history: Option<&History>,
) -> Option<TestResult> {
    work.policy.test.as_ref()?;
    let failed = history.and_then(|history| history.failed_attempt(&work.wanted.spec.deployment_id));
    Some(match (failed.map(|failed| failed.failure), tests) {
        (Some(Failure::Test(cause)), _) => TestResult::Failed(cause.clone()),
        (_, Some(tests)) => tests,
        (_, None) => TestResult::Pending,
    })
}
