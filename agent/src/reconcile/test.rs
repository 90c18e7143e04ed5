//! The Helm tests of a release, after its installation or upgrade.

use helmops_release::{
    lifecycle::TestPolicy,
    record::{FailedTest, TestState},
    report::TestResult,
};

use super::{deployed::Deployed, deployment::Deployment};
use crate::{
    context::Tested,
    error::AgentError,
    helm::request::Identity,
    inputs,
    release_tests::{ReleaseTests, TestRun},
};

impl Deployment<'_> {
    /// The result of the tests of a revision, which run if they have not ended yet; `None` if they are not to run. `known` is what is
    /// known of an earlier look: a record is read once.
    ///
    /// # Errors
    /// If they cannot be run.
    pub(super) async fn test(
        &self,
        deployed: &Deployed,
        known: &mut Option<Tested>,
    ) -> Result<Option<TestResult>, AgentError> {
        let Some(policy) = &self.policy.test else {
            return Ok(None);
        };
        if let Some(known) = known
            && known.is(&deployed.id, &policy.filters)
        {
            return Ok(Some(known.result.clone()));
        }
        let result = self.result(deployed, policy).await?;
        if result != TestResult::Pending {
            *known = Some(Tested {
                id: deployed.id.clone(),
                filters: policy.filters.clone(),
                result: result.clone(),
            });
        }
        Ok(Some(result))
    }

    async fn result(&self, deployed: &Deployed, policy: &TestPolicy) -> Result<TestResult, AgentError> {
        let (context, release) = (self.context, &self.release);
        let Some(record) = context.records.read(release, deployed.id.number).await? else {
            return Err(AgentError::Changed);
        };
        let tests = record.test_hooks(&policy.filters).len();
        match record.tests(&policy.filters) {
            TestState::NotRun => {}
            state => return Ok(ended(&state, tests)),
        }
        let account = &self.wanted.spec.options.service_account;
        let identity = inputs::identity(&context.downstream, &context.namespace, account).await?;
        let client = context.deployer(&identity)?;
        let set = context.set_of(super::deployment::name(self.wanted));
        let run = ReleaseTests {
            helm: &context.helm,
            records: &context.records,
            client: &client,
            set: &set,
            stop: &context.stop,
        };
        tracing::info!(%release, tests, "running the tests");
        let tested = run.run(self.test_run(deployed, policy, identity), context.kubeconfig()?);
        let tested = tested.await?;
        let result = match tested.failure {
            Some(failure) => TestResult::Failed(failure.to_string()),
            None => ended(&tested.state, tests),
        };
        context.reports.tested(release, deployed.id.number, &result);
        Ok(result)
    }

    fn test_run(&self, deployed: &Deployed, policy: &TestPolicy, identity: Identity) -> TestRun {
        TestRun {
            release: self.release.clone(),
            revision: deployed.id.number,
            identity,
            filters: policy.filters.clone(),
            timeout: policy.timeout,
        }
    }
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
