//! The objects of the revision that runs: observed, and corrected.

use std::time::Duration;

use helmops_release::{
    deployed::Deployed, drift::DriftMode, names::SetId, record::Acceptance, report::ReleaseObjects,
};
use k8s_openapi::jiff::Timestamp;

use super::outcome::Outcome;
use crate::{
    error::{AgentError, until},
    monitor::{Corrections, Installed, Monitor, MonitorError, Monitored, correct},
    pods::{self, LookAt, PodCauses, Wait},
    session::ReleaseSession,
};

/// Observes the objects of the revision that runs, and why they are not ready; `None` if none does, or if it is not known which one.
///
/// # Errors
/// If the record or the objects cannot be read.
pub async fn observe(
    session: &ReleaseSession<'_>,
    outcome: &Outcome,
    installed: &mut Option<Installed>,
    causes: &mut PodCauses,
) -> Result<Option<Monitored>, AgentError> {
    let Some(deployed) = outcome.running() else {
        return Ok(None);
    };
    let context = session.context;
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
    let set = session.set();
    let mut monitored = monitor(session, &set).compare(installed).await?;
    let look_at = LookAt {
        kinds: &context.kinds,
        revision: &installed.id,
        wait: wait(session.policy.for_action(deployed.action).wait, outcome, deployed),
        shows_logs: context.shows_pod_logs,
    };
    let client = async || session.deployer().await.map(|(_, client)| client);
    pods::explain(causes, &mut monitored, look_at, client).await;
    Ok(Some(monitored))
}

/// Whether the objects of the revision that runs are waited for.
fn wait(timeout: Option<Duration>, outcome: &Outcome, deployed: &Deployed) -> Wait {
    let made_at = deployed.id.made_at.unwrap_or(Timestamp::MAX);
    match (outcome, timeout) {
        (Outcome::Retry(next), _) if next.may_recover => Wait::Now,
        (_, None) => Wait::Never,
        (Outcome::Deployed(_), Some(timeout)) if deployed.acceptance != Some(Acceptance::Accepted) => {
            match made_at.checked_add(timeout) {
                Ok(end) if until(end).is_zero() => Wait::Over,
                _ => Wait::Now,
            }
        }
        _ => Wait::Done,
    }
}

/// Corrects drift, if that is wanted, and returns when more of it is to be corrected. The objects are those from before: the change of
/// the live object leads to the next reconciliation, which shows whether it helped.
///
/// # Errors
/// If an object cannot be written.
pub async fn correct_drift(
    session: &ReleaseSession<'_>,
    installed: Option<&mut Installed>,
    objects: &mut ReleaseObjects,
) -> Result<Option<Timestamp>, AgentError> {
    let (context, spec) = (session.context, &session.deployment.spec);
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
            let set = session.set();
            // As the account that deploys: a correction needs the same permissions.
            let (_, deployer) = session.deployer().await?;
            let monitor = Monitor {
                client: &deployer,
                ..monitor(session, &set)
            };
            correct(&monitor, installed, &objects.drift, correction).await?
        };
        objects.correction_error = (!done.errors.is_empty()).then(|| done.errors.join("; "));
        corrections = Some(done);
    }
    let corrected = corrections.as_ref();
    let reports = &context.reports;
    reports.compared(session.name(), &session.release, objects, corrected);
    Ok(corrections.and_then(|corrections| corrections.next))
}

fn monitor<'m>(session: &'m ReleaseSession<'_>, set: &'m SetId) -> Monitor<'m> {
    let context = session.context;
    Monitor {
        client: &context.downstream,
        kinds: &context.kinds,
        records: &context.records,
        live: &context.live,
        deployment: session.deployment,
        set,
    }
}
