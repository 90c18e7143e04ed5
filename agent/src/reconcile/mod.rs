//! The reconciliation of a BundleDeployment.
//!
//! ```text
//! held? ─► inputs ─► deploy: state of the release ─► step ─► Helm ─┐
//!          values,     ▲  ▲                                          │ until nothing is to be done
//!          copies …    │  └──────────────────────────────────────────┘
//!                      │ failed: remediate, and no other attempt before that is reported
//!      ─► monitor: live objects, drift ─► wait, test ─► correct ─► report: the status
//! ```
//!
//! Every decision follows from the BundleDeployment, the records of Helm and the live objects. The status is a report.

mod adopt;
mod copies;
mod deploy;
mod deployed;
mod deployment;
mod end;
mod existing;
mod fields;
mod leftovers;
mod namespace;
mod prepare;
mod progress;
mod prune;
mod recorded;
mod release_records;
mod remediate;
mod remove;
mod renamed;
mod run;
mod status;
mod test;
mod wait;

use std::{
    collections::BTreeSet,
    sync::Arc,
    time::{Duration, Instant},
};

use helmops_api::{BundleDeployment, Decoded, labels, lifecycle::Requests};
use helmops_release::{
    drift::DriftMode,
    gate::Held,
    lifecycle::Policy,
    names::{ReleaseKey, SetId},
    object::ObjectId,
    record::Failure,
    report::{DeployOutcome, Observation, Progress, ReleaseObjects, TestResult},
};
use helmops_runtime::{
    metrics::{Controller, ReconcileMetrics},
    reconciler::{KeyOf, Reconciler},
    retry_state::{Done, Failures, RetryState},
    workers::WorkerPermit,
};
use helmops_trace::{TraceContext, Tracer};
use k8s_openapi::jiff::Timestamp;
use kube::core::ObjectMeta;
use tracing::{Span, field::Empty};

pub use self::{
    copies::prune_copies,
    deployed::Deployed,
    remove::is_fleets_own,
    renamed::{is_renamed, remove_renamed},
    wait::Watched,
};
use self::{deploy::Check, deployment::Deployment, test::Tests, wait::Wait};
use crate::{
    context::{Context, Key, Known},
    error::{AgentError, until},
    helm::{Helm, outcome::FailureReason, run_scope::RunScope},
    metrics::BUNDLE_DEPLOYMENTS,
    monitor::{Corrections, Installed, Monitor, MonitorError, Monitored, correct},
};

/// How long objects may be unreadable before their release is not ready: an API server that is restarted is back then.
const INTERRUPTION: Duration = Duration::from_secs(5);

/// When objects are read again that no watch has: those of a release that was taken over as it is do not have the label. The next
/// revision adds it.
const UNWATCHED: Duration = Duration::from_secs(30);

/// The reconciler of BundleDeployments.
pub struct BundleDeployments<'c>(pub &'c Context);

impl Reconciler for BundleDeployments<'_> {
    type Object = BundleDeployment;
    type Error = AgentError;
    const CONTROLLER: Controller = BUNDLE_DEPLOYMENTS;

    fn get(&self, key: &Key) -> Option<Arc<Decoded<BundleDeployment>>> {
        self.0.deployments.get(key)
    }

    fn retry_state(&self) -> &RetryState<Key> {
        &self.0.retries
    }

    fn metrics(&self) -> &ReconcileMetrics {
        &self.0.metrics.reconciles
    }

    fn span(&self, key: &KeyOf<Self>, _: Option<&ObjectMeta>) -> Span {
        tracing::error_span!("reconcile", bundledeployment = key.name, trace_id = Empty)
    }

    /// Uninstalls what a deleted BundleDeployment has installed.
    async fn deleted(&self, key: &Key, permit: &mut WorkerPermit) -> Result<(), AgentError> {
        remove::remove(self.0, &key.name, permit).await
    }

    /// The trace of the last change, until the release is ready.
    fn trace(&self, _: &Key, deployment: &BundleDeployment) -> Option<(&Tracer, TraceContext)> {
        let annotations = deployment.metadata.annotations.as_ref();
        let traceparent = annotations.and_then(|annotations| annotations.get(labels::TRACEPARENT));
        let tracer = &self.0.tracer;
        let parent = tracer.parent(traceparent.map(String::as_str))?;
        (!is_ready(deployment)).then_some((tracer, parent))
    }

    async fn reconcile(
        &self,
        key: &Key,
        deployment: &BundleDeployment,
        permit: &mut WorkerPermit,
    ) -> Result<Done, AgentError> {
        let context = self.0;
        context.guard.saw(&deployment.metadata);
        context.reports.removal(&key.name, &context.namespace, None);
        let release = context.releases.of(&key.name);
        let mut guard = release.lock().await;
        let known = &mut *guard;
        let cached = || context.deployments.get(key);
        let running_work = context.running.begin(deployment, &context.stop, cached);
        if let Some(held) = Held::of(&deployment.spec) {
            tracing::debug!(?held, "held");
            let work = Deployment::new(context, deployment, &running_work, &Requests::default());
            work.set_on_delete().await?;
            work.report_suspension(held == Held::Suspended);
            let outcome = DeployOutcome::Held(held);
            status::write(
                &context.upstream,
                &context.retries.pending_writes,
                deployment,
                &outcome,
                &Observation::None,
                &Progress::default(),
            )
            .await?;
            return Ok(Done::UNTIL_CHANGE);
        }
        let mut handled = handled(deployment, known);
        let work = Deployment::new(
            context,
            deployment,
            &running_work,
            &handled.clone().unwrap_or_default(),
        );
        work.report_suspension(false);
        let mut result = deploy(&work, permit).await?;
        if is_attempt(&result) {
            handled = requests(deployment).cloned();
        }
        // Also without an attempt: while another replica was the leader, it handled newer ones.
        known.handled = handled;
        let mut observed = observe(context, deployment, &result, &mut known.installed).await;
        let (mut awaited, mut tests, mut uncleared) = (None, None, None);
        if let (Ok(Some(monitored)), Some(installed), Some(running)) =
            (&observed, &known.installed, running(&result))
        {
            let watched = watch(&mut known.watched, running);
            let mut phase = phase(&work, &result, installed, monitored, watched);
            if let (Phase::Over, Ok(deployed), true) = (&phase, &result, installed.is_marked()) {
                watched.was_ready = true;
                match work.test(deployed, &mut known.tests, permit).await {
                    Ok(Tests::Disabled) => work.accept(deployed, watched).await?,
                    Ok(Tests::Starting(late)) => {
                        tests = Some(TestResult::Pending);
                        let remaining = Duration::ZERO;
                        phase = Phase::Waiting { remaining, late };
                    }
                    Ok(Tests::Ended(result)) => {
                        phase = tested(&work.policy, deployed, &result);
                        if matches!(phase, Phase::Over) && result != TestResult::Pending {
                            work.accept(deployed, watched).await?;
                        }
                        tests = Some(result);
                    }
                    // They could not run: that is no result of theirs, but has to be reported.
                    Err(error) => result = Err(error),
                }
            }
            match phase {
                Phase::Over => {
                    if let Ok(deployed) = &result {
                        // What cannot be deleted does not keep the status from being written.
                        uncleared = work.clear(deployed, watched, &mut known.copies).await.err();
                    }
                }
                Phase::Recovered(deployed) => {
                    work.recover(&deployed).await?;
                    return Err(AgentError::Changed);
                }
                Phase::Waiting { remaining, late } => {
                    tracing::info!(late, "waiting for the release");
                    awaited = Some((remaining, late));
                    result = Err(AgentError::Waiting(remaining));
                    observed = Ok(None);
                }
                Phase::Failed(deployed, failure) => {
                    let failed = with_helm(&work, permit, || work.fail(&deployed, failure)).await?;
                    result = failed.map(|never| match never {});
                    observed = observe(context, deployment, &result, &mut known.installed).await;
                }
            }
        }
        work.set_on_delete().await?;
        let step = StepResult {
            result,
            observed,
            waiting: awaited.as_ref().map(|(_, late)| late.clone()),
            tests,
        };
        let done = report(&work, known, step).await?;
        uncleared.map_or(Ok(()), Err)?;
        Ok(awaited.map_or(done, |(remaining, _)| until_ready(remaining, done)))
    }
}

/// Deploys what is wanted, if it is not deployed.
async fn deploy(
    work: &Deployment<'_>,
    permit: &mut WorkerPermit,
) -> Result<Result<Deployed, AgentError>, AgentError> {
    match work.check().await {
        Ok(Check::Settled(deployed, outdated)) => Ok(work.maintain(deployed, outdated).await),
        Ok(Check::Due { deployed, copies }) => match work.provide(deployed, copies.outdated).await {
            Ok(()) => with_helm(work, permit, || work.deploy(copies.content)).await,
            Err(error) => Ok(Err(error)),
        },
        Err(error) => Ok(Err(error)),
    }
}

/// Does something that runs Helm for a deployment.
async fn with_helm<T, W: Future<Output = Result<T, AgentError>>>(
    work: &Deployment<'_>,
    permit: &mut WorkerPermit,
    run: impl FnOnce() -> W,
) -> Result<Result<T, AgentError>, AgentError> {
    let helm = &work.context.helm;
    let is_slow = helm.is_slow(&work.release, &work.wanted.spec.deployment_id);
    without_worker(helm, &work.running.deployment, is_slow, permit, run).await
}

/// Does something that runs Helm, after a preparation is free. Other releases are reconciled with the permit meanwhile: those that wait for
/// Helm would use up the workers, and nothing would be observed, corrected or reported.
async fn without_worker<T, W: Future<Output = Result<T, AgentError>>>(
    helm: &Helm,
    stop: &RunScope,
    is_slow: bool,
    permit: &mut WorkerPermit,
    run: impl FnOnce() -> W,
) -> Result<Result<T, AgentError>, AgentError> {
    let result = permit.release_during(async {
        let _preparation = helm.prepare(stop, is_slow).await?;
        // On the heap only from here on: many may wait.
        Box::pin(run()).await
    });
    Ok(result.await?)
}

/// Whether the wanted deployment is there and ready.
pub fn is_ready(deployment: &BundleDeployment) -> bool {
    let status = &deployment.status;
    status.ready && status.applied_deployment_id == deployment.spec.deployment_id
}

/// What a reconciliation has led to.
struct StepResult {
    result: Result<Deployed, AgentError>,
    observed: Result<Option<Monitored>, AgentError>,
    /// What the release waits for.
    waiting: Option<String>,
    /// The result of its tests.
    tests: Option<TestResult>,
}

/// What follows from the objects of a revision that Helm has deployed.
enum Phase {
    /// Nothing.
    Over,
    /// The revision had failed because it was not ready in time, and is ready now.
    Recovered(Deployed),
    /// It is not ready yet.
    Waiting { remaining: Duration, late: String },
    /// It failed.
    Failed(Deployed, Failure),
}

fn phase(
    work: &Deployment<'_>,
    result: &Result<Deployed, AgentError>,
    installed: &Installed,
    monitored: &Monitored,
    watched: &Watched,
) -> Phase {
    let state = |timeout| {
        let readiness = |id: &ObjectId| monitored.readiness.get(id);
        wait::state(timeout, installed, watched, readiness, Timestamp::now())
    };
    match (result, work.policy.wait) {
        // What was taken over as it is was not deployed now, so that its state is no result of an attempt.
        (Ok(_), Some(_)) if !installed.is_marked() => Phase::Over,
        (Ok(deployed), Some(timeout)) if wait::is_awaited(work.wanted, deployed, watched, timeout) => {
            match state(timeout) {
                Wait::Over => Phase::Over,
                Wait::Waiting { remaining, late } => Phase::Waiting { remaining, late },
                Wait::Failed(reason) => Phase::Failed(deployed.clone(), Failure::NotReady(reason)),
            }
        }
        (Err(AgentError::Retry(next)), timeout) if next.may_recover => {
            match (state(timeout.unwrap_or_default()), &next.running) {
                (Wait::Over, Some(running)) => Phase::Recovered(running.clone()),
                _ => Phase::Over,
            }
        }
        _ => Phase::Over,
    }
}

/// What follows from the tests of a revision. A rollback is no attempt, so that no remediation can follow it.
fn tested(policy: &Policy, deployed: &Deployed, tests: &TestResult) -> Phase {
    let ignores_failures = policy.test.as_ref().is_some_and(|test| test.ignores_failures);
    match tests {
        TestResult::Failed(cause) if !ignores_failures && !deployed.is_rollback => {
            Phase::Failed(deployed.clone(), Failure::Test(cause.clone()))
        }
        _ => Phase::Over,
    }
}

fn requests(deployment: &BundleDeployment) -> Option<&Requests> {
    deployment.spec.lifecycle.as_ref()?.requests.as_ref()
}

/// The requests that were handled already, as this process or the status shows it; `None` if there were none. Neither alone does:
/// the status may not be written yet, and while another replica was the leader, this one handled nothing. Of two that differ, the
/// one that is requested counts, or else that of the status.
fn handled(deployment: &BundleDeployment, known: &Known) -> Option<Requests> {
    let reported = deployment.status.lifecycle.as_ref();
    let reported = reported.and_then(|lifecycle| lifecycle.handled.as_ref());
    let own = known.handled.as_ref();
    let first = reported.or(own)?;
    let requested = requests(deployment);
    let either = |token: fn(&Requests) -> &String| {
        let mut handled = [Some(first), own].into_iter().flatten().map(token);
        let same = handled.find(|handled| Some(*handled) == requested.map(token));
        same.unwrap_or_else(|| token(first)).clone()
    };
    Some(Requests {
        reconcile: either(|requests| &requests.reconcile),
        force: either(|requests| &requests.force),
        reset: either(|requests| &requests.reset),
        ..Requests::default()
    })
}

/// Whether requests had their effect: nothing that the deployment needs was missing, and Helm could begin.
const fn is_attempt(result: &Result<Deployed, AgentError>) -> bool {
    match result {
        Ok(_) | Err(AgentError::NotReady(_) | AgentError::Retry(_)) => true,
        Err(AgentError::Helm(failure)) => !matches!(
            failure.reason,
            FailureReason::Stopped
                | FailureReason::Superseded
                | FailureReason::NotStarted
                | FailureReason::OtherHelm
                | FailureReason::Crashed
                | FailureReason::Unreachable
                | FailureReason::Unauthorized
        ),
        Err(_) => false,
    }
}

/// While a release is awaited, earlier failures count: it has not succeeded yet. Otherwise releases that never become ready
/// would be rolled back and upgraded without a pause. What is looked at again before the end of the wait may be what is late.
fn until_ready(remaining: Duration, done: Done) -> Done {
    let sooner = done.requeue_after.map_or(remaining, |other| other.min(remaining));
    Done {
        requeue_after: Some(sooner),
        failures: Failures::Kept,
    }
}

/// Corrects drift if that is wanted, and writes the status.
async fn report(work: &Deployment<'_>, known: &mut Known, step: StepResult) -> Result<Done, AgentError> {
    let (context, deployment) = (work.context, work.wanted);
    let StepResult {
        result,
        observed,
        waiting,
        tests,
    } = step;
    let outcome = match &result {
        Ok(deployed) => DeployOutcome::Deployed {
            release: deployed.id.to_string(),
        },
        Err(error) => error.outcome(),
    };
    let name = deployment.metadata.name.as_deref().unwrap_or_default();
    match &result {
        Ok(_) => context.reports.deployed(name),
        Err(error) => {
            let id = &deployment.spec.deployment_id;
            context.reports.failed(name, id, &work.release, error);
        }
    }
    let mut next_correction = None;
    let (observation, error) = match observed {
        Ok(Some(Monitored { mut objects, .. })) => {
            let corrected = correct_drift(context, deployment, known.installed.as_mut(), &mut objects).await;
            let error = match corrected {
                Ok(next) => {
                    next_correction = next;
                    None
                }
                Err(error) => {
                    objects.correction_error = Some(error.to_string());
                    Some(error)
                }
            };
            (Observation::Objects(objects), error)
        }
        Ok(None) => (Observation::None, None),
        Err(error) => (failed(&error, &mut known.unknown_since), Some(error)),
    };
    if !matches!(observation, Observation::Failed { .. }) {
        known.unknown_since = None;
    }
    let history = progress::history(work, &result).await?;
    let progress = Progress {
        history: history.as_ref(),
        retry: progress::retry(&result),
        waiting,
        tests: progress::tests(work, tests, history.as_ref()),
        handled: known.handled.as_ref(),
    };
    let pending_writes = &context.retries.pending_writes;
    status::write(
        &context.upstream,
        pending_writes,
        deployment,
        &outcome,
        &observation,
        &progress,
    )
    .await?;
    match result {
        Ok(_) | Err(AgentError::Waiting(_)) => {}
        Err(error) => return Err(error),
    }
    error.map_or(Ok(()), Err)?;
    let groups = |are_present| {
        let installed = known.installed.as_ref();
        installed.map_or_else(BTreeSet::new, |installed| installed.groups(are_present))
    };
    let kinds = context.kinds.set_groups(name, &groups(true), groups(false));
    let is_unwatched = known
        .installed
        .as_ref()
        .is_some_and(|installed| !installed.is_marked());
    let times = status::recheck(&observation).into_iter();
    let times = times
        .chain(next_correction.map(until))
        .chain(kinds)
        .chain(is_unwatched.then_some(UNWATCHED));
    Ok(Done {
        requeue_after: times.min(),
        ..Done::UNTIL_CHANGE
    })
}

/// The observation that objects cannot be read; `since` is when that began.
fn failed(error: &AgentError, since: &mut Option<Instant>) -> Observation {
    let since = since.get_or_insert_with(Instant::now);
    Observation::Failed {
        error: error.to_string(),
        is_lasting: since.elapsed() >= INTERRUPTION,
    }
}

fn monitor<'m>(context: &'m Context, deployment: &'m BundleDeployment, set: &'m SetId) -> Monitor<'m> {
    Monitor {
        client: &context.downstream,
        kinds: &context.kinds,
        records: &context.records,
        live: &context.live,
        deployment,
        set,
    }
}

fn set_of(context: &Context, deployment: &BundleDeployment) -> SetId {
    context.set_of(deployment.metadata.name.as_deref().unwrap_or_default())
}

/// The revision that runs; `None` if none does, or if it is not known which one.
fn running(result: &Result<Deployed, AgentError>) -> Option<&Deployed> {
    match result {
        Ok(deployed) => Some(deployed),
        Err(AgentError::Retry(next)) => next.running.as_ref(),
        Err(AgentError::Copies { deployed, .. }) => Some(deployed),
        Err(_) => None,
    }
}

/// What was seen of a revision, from now on if it is another one.
fn watch<'w>(watched: &'w mut Option<Watched>, running: &Deployed) -> &'w mut Watched {
    let same = watched.take().filter(|watched| watched.id == running.id);
    watched.insert(same.unwrap_or_else(|| Watched::new(running.id.clone(), Timestamp::now())))
}

/// Observes the objects of the revision that runs; `None` if none does, or if it is not known which one.
async fn observe(
    context: &Context,
    deployment: &BundleDeployment,
    result: &Result<Deployed, AgentError>,
    installed: &mut Option<Installed>,
) -> Result<Option<Monitored>, AgentError> {
    let Some(deployed) = running(result) else {
        return Ok(None);
    };
    if let Some(installed) = installed {
        let looked_up = installed.look_up_kinds(&context.kinds).await;
        looked_up.map_err(MonitorError::from)?;
    }
    let is_known = installed
        .as_ref()
        .is_some_and(|installed| installed.id == deployed.id && installed.is_complete());
    if !is_known {
        let read = Installed::read(
            &context.records,
            &context.kinds,
            &deployed.id.release,
            deployed.id.number,
            deployed.previous,
        );
        let mut read = read.await.map_err(MonitorError::from)?;
        let same = installed.take();
        if let Some(same) = same.filter(|same| same.id == deployed.id) {
            read.corrections = same.corrections;
        }
        *installed = Some(read);
    }
    let Some(installed) = installed else {
        return Ok(None);
    };
    let set = set_of(context, deployment);
    Ok(Some(monitor(context, deployment, &set).compare(installed).await?))
}

/// Corrects drift, if that is wanted, and returns when more of it is to be corrected. The objects are those from before: the change of
/// the live object leads to the next reconciliation, which shows whether it helped.
async fn correct_drift(
    context: &Context,
    deployment: &BundleDeployment,
    installed: Option<&mut Installed>,
    objects: &mut ReleaseObjects,
) -> Result<Option<Timestamp>, AgentError> {
    let spec = &deployment.spec;
    let mode = DriftMode::of(spec);
    if mode == DriftMode::Disabled {
        objects.drift.clear();
    }
    let correction = mode.correction();
    let mut corrections = None;
    if let (Some(correction), Some(installed)) = (correction.as_ref(), installed) {
        let done = if objects.drift.is_empty() {
            Corrections::default()
        } else {
            let set = set_of(context, deployment);
            // As the account that deploys: a correction needs the same permissions.
            let account = &spec.options.service_account;
            let (_, deployer) = context.accounts.deployer(account).await?;
            let monitor = Monitor {
                client: &deployer,
                ..monitor(context, deployment, &set)
            };
            correct(&monitor, installed, &objects.drift, correction).await?
        };
        objects.correction_error = (!done.errors.is_empty()).then(|| done.errors.join("; "));
        corrections = Some(done);
    }
    let name = deployment.metadata.name.as_deref().unwrap_or_default();
    let release = ReleaseKey::of(name, &spec.options);
    context
        .reports
        .compared(name, &release, objects, corrections.as_ref());
    Ok(corrections.and_then(|corrections| corrections.next))
}

#[cfg(test)]
mod tests {
    use helmops_runtime::retry_state::RetryKey;
    use kube::runtime::reflector::ObjectRef;

    use super::*;
    use crate::revision::RevisionId;

    #[test]
    fn a_request_is_handled_if_this_process_or_the_status_shows_it() {
        let force = |token: &str| Requests {
            force: token.to_owned(),
            ..Requests::default()
        };
        let lifecycle = |token| helmops_api::Lifecycle {
            requests: Some(force(token)),
            ..helmops_api::Lifecycle::default()
        };
        let mut deployment = BundleDeployment::default();
        deployment.spec.lifecycle = Some(Box::new(lifecycle("2")));
        for (own, reported, expected) in [
            ("", "", ""),
            ("2", "1", "2"),
            // Another replica was the leader meanwhile.
            ("1", "2", "2"),
            ("0", "1", "1"),
            ("1", "1", "1"),
        ] {
            let known = Known {
                handled: Some(force(own)),
                ..Known::default()
            };
            let status = deployment.status.lifecycle.get_or_insert_default();
            status.handled = Some(force(reported));
            let handled = handled(&deployment, &known).unwrap();
            assert_eq!(handled.force, expected, "{own} {reported}");
        }
        deployment.status.lifecycle = None;
        assert_eq!(handled(&deployment, &Known::default()), None);
    }

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
                release: ReleaseKey {
                    namespace: "shop".to_owned(),
                    name: "web".to_owned(),
                },
                number: 3,
                made_at: None,
            },
            acceptance: None,
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
            let phase = tested(&policy(ignores), &deployed(is_rollback), &failed);
            let has_failed = matches!(phase, Phase::Failed(_, Failure::Test(_)));
            assert_eq!(has_failed, expected, "{is_rollback} {ignores}");
        }
    }

    /// Such as a kind that the cluster does not have yet.
    #[test]
    fn what_is_due_before_the_end_of_a_wait_is_not_delayed_by_it() {
        let seconds = Duration::from_secs;
        for (other, expected) in [(None, 60), (Some(15), 15), (Some(120), 60)] {
            let done = Done {
                requeue_after: other.map(seconds),
                ..Done::UNTIL_CHANGE
            };
            let waiting = until_ready(seconds(60), done);
            assert_eq!(waiting.requeue_after, Some(seconds(expected)), "{other:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn attempts_that_only_fail_after_a_wait_are_retried_more_and_more_slowly() {
        let retries = RetryState::<Key>::default();
        let key = ObjectRef::new("web").within("cluster");
        let wait = Duration::from_secs(5);
        let mut delays = Vec::new();
        for _ in 0..4 {
            let waiting = retries.requeue_after(
                &key,
                RetryKey::default(),
                Ok::<_, AgentError>(until_ready(wait, Done::UNTIL_CHANGE)),
            );
            assert_eq!(waiting, Some(wait));
            let failed = AgentError::NotReady("not ready in time".to_owned());
            let delay = retries.requeue_after(&key, RetryKey::default(), Err(failed));
            delays.extend(delay);
            tokio::time::advance(delay.unwrap()).await;
        }
        assert!(delays.is_sorted() && delays[3] > 4 * delays[0], "{delays:?}");
    }
}
