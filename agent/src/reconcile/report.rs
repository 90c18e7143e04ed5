//! Reports what a reconciliation has led to: the status, Events and metrics.

use std::{
    collections::BTreeSet,
    mem::take,
    pin::pin,
    time::{Duration, Instant},
};

use helmops_api::{BundleDeployment, timestamp::timestamp};
use helmops_release::{
    gate::Held,
    history::History,
    lifecycle::Requested,
    record::Failure,
    report::{self, DeployOutcome, Inputs, Observation, Progress, TestResult},
};
use helmops_runtime::{
    client::{CallError, bounded},
    retry_state::Done,
    writes::FieldManager,
};
use helmops_trace::set_attribute;
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use tokio::{join, time::timeout};

use super::{objects, outcome::Outcome, settle::SettledRelease};
use crate::{
    error::{AgentError, until},
    memory::ReleaseMemory,
    monitor::{FIELD_MANAGER, Monitored},
    session::ReleaseSession,
};

/// The field manager of the status: that of Fleet's agent.
const MANAGER: FieldManager = FieldManager(FIELD_MANAGER);

/// How long a cluster may be unreadable before its releases are not ready: an API server that is restarted is back then.
const INTERRUPTION: Duration = Duration::from_secs(5);

/// When objects are read again that no watch has: those of a release that was taken over as it is do not have the label. The next
/// revision adds it.
const UNWATCHED: Duration = Duration::from_secs(30);

/// Changes by others that a report follows. After more of them in a row, the next reconciliation reports.
const MAX_CONFLICTS: usize = 5;

/// Reports a release that nothing may be done with now.
///
/// # Errors
/// If the status cannot be written.
pub async fn held(session: &ReleaseSession<'_>, held: Held) -> Result<(), AgentError> {
    suspension(session, held == Held::Suspended);
    let (outcome, progress) = (DeployOutcome::Held(held), Progress::default());
    write(session, &outcome, &Observation::None, &progress).await
}

/// Reports that the release is suspended, or that it is no longer.
pub fn suspension(session: &ReleaseSession<'_>, is_suspended: bool) {
    let status = session.deployment.status.lifecycle.as_ref();
    let was = status.is_some_and(|lifecycle| lifecycle.suspended);
    let reports = &session.context.reports;
    reports.suspended(session.name(), &session.release, is_suspended, was);
}

/// Does something that deploys the release. If that takes longer than `least`, then the status shows that it is being deployed, instead of
/// the result of an earlier deployment: hooks may take minutes.
pub async fn while_deploying<T>(
    session: &ReleaseSession<'_>,
    least: Duration,
    deploy: impl Future<Output = T>,
) -> T {
    let since = Timestamp::now();
    let mut deploy = pin!(deploy);
    if let Ok(done) = timeout(least, &mut deploy).await {
        return done;
    }
    // Also if it ends meanwhile: the status after it is based on what is written.
    let (done, reported) = join!(deploy, deploying(session, since));
    if let Err(error) = reported {
        tracing::debug!(%error, "cannot report that the release is being deployed");
    }
    done
}

/// Reports that the release is being deployed. The result of an attempt stays while the next one is made without a change, also of one that
/// has failed before Helm wrote a record, such as for a chart that cannot be fetched.
async fn deploying(session: &ReleaseSession<'_>, since: Timestamp) -> Result<(), AgentError> {
    let history = session.records.history().await?;
    let input = session.input();
    let has_failed = history.failed_attempt(&input).is_some()
        || session.context.reports.has_failed(session.name(), &input);
    if has_failed && session.requested == Requested::default() {
        return Ok(());
    }
    let has_lifecycle = session.deployment.spec.lifecycle.is_some();
    let progress = Progress {
        input: Some(&input),
        history: Some(&history).filter(|_| has_lifecycle),
        waiting: Some(format!("Helm has been deploying it since {}", timestamp(since))),
        tests: tests_of(session, None, Some(&history)),
        ..Progress::default()
    };
    write(session, &DeployOutcome::Unchanged, &Observation::None, &progress).await
}

/// Corrects drift if that is wanted, reports the release, and returns when it is reconciled again.
///
/// # Errors
/// If the deployment has failed, or something else that is to be repeated.
pub async fn release(
    session: &ReleaseSession<'_>,
    memory: &mut ReleaseMemory,
    settled: SettledRelease,
) -> Result<Done, AgentError> {
    let SettledRelease {
        outcome,
        objects,
        tests,
        uncleared,
    } = settled;
    events(session, &outcome);
    let mut reported = outcome.reported();
    let is_interrupted = matches!(&outcome, Outcome::Failed(error) if error.is_interruption());
    let is_lasting = is_lasting(memory, is_interrupted || objects.is_err());
    if is_interrupted && !is_lasting {
        reported = DeployOutcome::Unchanged;
    }
    let (observation, next_correction) = observed(session, memory, objects, is_lasting).await;
    let history = history(session, &outcome).await?;
    let input = session.input();
    let progress = Progress {
        input: Some(&input),
        history: history.as_ref(),
        retry: match &outcome {
            Outcome::Retry(next) => Some((next.text.clone(), next.at)),
            _ => None,
        },
        waiting: match &outcome {
            Outcome::Waiting { late, .. } => Some(late.clone()),
            _ => None,
        },
        tests: tests_of(session, tests, history.as_ref()),
        handled: memory.handled.as_ref(),
        without_attempt: !outcome.is_attempt(),
    };
    write(session, &reported, &observation, &progress).await?;
    let mut recheck = None;
    if matches!(outcome, Outcome::Retry(_)) {
        recheck = memory.causes.next();
    } else if matches!(outcome, Outcome::Deployed(_) | Outcome::Waiting { .. }) {
        recheck = next_change(session, memory, &observation, next_correction?);
        uncleared.map_or(Ok(()), Err)?;
    }
    outcome.done(recheck)
}

fn events(session: &ReleaseSession<'_>, outcome: &Outcome) {
    let (reports, name) = (&session.context.reports, session.name());
    if let Outcome::Retry(next) = outcome {
        set_attribute("helmops.failure", || next.text.clone());
    }
    if outcome.deployed().is_some() {
        reports.deployed(name);
    }
    reports.failed(name, &session.input(), &session.release, outcome.failure());
}

/// Whether the release could not be observed for longer than an interruption.
fn is_lasting(memory: &mut ReleaseMemory, is_unknown: bool) -> bool {
    let since = is_unknown.then(|| memory.unknown_since.unwrap_or_else(Instant::now));
    memory.unknown_since = since;
    since.is_some_and(|since| since.elapsed() >= INTERRUPTION)
}

/// What was observed of the objects after their drift was corrected, and when more of it is to be corrected.
async fn observed(
    session: &ReleaseSession<'_>,
    memory: &mut ReleaseMemory,
    objects: Result<Option<Monitored>, AgentError>,
    is_lasting: bool,
) -> (Observation, Result<Option<Timestamp>, AgentError>) {
    let mut objects = match objects {
        Ok(objects) => objects,
        Err(error) => {
            let observation = Observation::Failed {
                error: error.to_string(),
                is_lasting,
            };
            return (observation, Err(error));
        }
    };
    let Some(Monitored { objects, .. }) = &mut objects else {
        return (Observation::None, Ok(None));
    };
    let corrected = objects::correct_drift(session, memory.installed.as_mut(), objects).await;
    if let Err(error) = &corrected {
        objects.correction_error = Some(error.to_string());
    }
    (Observation::Objects(take(objects)), corrected)
}

/// When something of a deployed release changes by itself.
fn next_change(
    session: &ReleaseSession<'_>,
    memory: &ReleaseMemory,
    observation: &Observation,
    next_correction: Option<Timestamp>,
) -> Option<Duration> {
    let installed = memory.installed.as_ref();
    let groups =
        |are_present| installed.map_or_else(BTreeSet::new, |installed| installed.groups(are_present));
    let kinds = &session.context.kinds;
    let kinds = kinds.set_groups(session.name(), &groups(true), groups(false));
    let is_unwatched = installed.is_some_and(|installed| !installed.is_marked());
    health_changes(observation)
        .into_iter()
        .chain(next_correction.map(until))
        .chain(kinds)
        .chain(is_unwatched.then_some(UNWATCHED))
        .chain(memory.causes.next())
        .min()
}

/// The records of a release with a life cycle, or of one whose status does not show what runs; `None` for others. After an attempt, the
/// cache may be behind.
async fn history(session: &ReleaseSession<'_>, outcome: &Outcome) -> Result<Option<History>, AgentError> {
    let (spec, status) = (&session.deployment.spec, &session.deployment.status);
    let is_captured = matches!(outcome, Outcome::Failed(AgentError::Helm(failure)) if failure.is_captured())
        || status.lifecycle.is_some();
    if spec.lifecycle.is_none() && !is_captured {
        return Ok(None);
    }
    let is_reported = outcome
        .deployed()
        .is_some_and(|deployed| status.release == deployed.id.to_string());
    let history = if is_reported {
        session.context.records.cached_history(&session.release).await?
    } else {
        session.records.history().await?
    };
    Ok(Some(history))
}

/// The result of the tests. If one has failed, the revision has failed with it.
fn tests_of(
    session: &ReleaseSession<'_>,
    tests: Option<TestResult>,
    history: Option<&History>,
) -> Option<TestResult> {
    session.policy.test.as_ref()?;
    let input = session.input();
    let failed = history.and_then(|history| history.failed_attempt(&input));
    Some(match (failed.map(|failed| failed.failure), tests) {
        (Some(Failure::Test(cause)), _) => TestResult::Failed(cause.clone()),
        (_, Some(tests)) => tests,
        (_, None) => TestResult::Pending,
    })
}

/// Writes the status, if it changes. The BundleDeployment is not reconciled again before the cache shows what was written.
///
/// Others change its metadata while Helm runs for minutes. What has happened is true all the same, and the next reconciliation does not
/// know it. So the status is based on the BundleDeployment of now, as long as that wants the same.
async fn write(
    session: &ReleaseSession<'_>,
    outcome: &DeployOutcome,
    observation: &Observation,
    progress: &Progress<'_>,
) -> Result<(), AgentError> {
    let context = session.context;
    let mut conflicts = 0;
    loop {
        let latest = session.latest();
        let deployment = latest.as_deref().unwrap_or(session.deployment);
        let inputs = Inputs {
            previous: &deployment.status,
            spec: &deployment.spec,
            outcome,
            observation,
            progress,
        };
        let status = report::next(inputs, Timestamp::now());
        let pending_writes = &context.retries.pending_writes;
        let write = MANAGER.write_status(
            &context.upstream,
            pending_writes,
            deployment,
            &deployment.status,
            &status,
        );
        match write.await {
            Ok(Some(written)) => session.set_latest(written),
            Ok(None) => {}
            Err(error) if error.is_conflict() && conflicts < MAX_CONFLICTS => {
                conflicts += 1;
                let current = current(session).await?;
                let current = current.filter(|current| is_same_spec(current, deployment));
                session.set_latest(current.ok_or(error)?);
                continue;
            }
            Err(error) => return Err(error.into()),
        }
        return Ok(());
    }
}

/// The BundleDeployment of now; `None` if it does not exist.
async fn current(session: &ReleaseSession<'_>) -> Result<Option<BundleDeployment>, CallError> {
    let (context, name) = (session.context, session.name());
    let namespace = &context.deployment_namespace;
    let api = Api::<BundleDeployment>::namespaced(context.upstream.clone(), namespace);
    let found = bounded(api.get_opt(name)).await;
    found.map_err(CallError::of(
        "read",
        format_args!("BundleDeployment {namespace}/{name}"),
    ))
}

/// Whether a report about one is true for the other: it is the same object with the same spec.
fn is_same_spec(current: &BundleDeployment, before: &BundleDeployment) -> bool {
    let (current, before) = (&current.metadata, &before.metadata);
    (&current.uid, current.generation) == (&before.uid, before.generation)
}

/// When the health of an object changes by itself, as time passes.
fn health_changes(observation: &Observation) -> Option<Duration> {
    let Observation::Objects(release) = observation else {
        return None;
    };
    let times = release.objects.iter().filter_map(|object| object.health.recheck);
    Some(until(times.min()?))
}
