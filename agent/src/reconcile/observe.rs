//! Reads what the plan of a release follows from.

use std::{collections::BTreeSet, time::Duration};

use helmops_model::validation::names;
use helmops_release::{dependencies, history::History, names::ReleaseKey, plan::ObservedRelease};
use k8s_openapi::jiff::Timestamp;

use crate::{
    error::{AgentError, Lacking},
    inputs, removal,
    session::ReleaseSession,
};

/// Checks what a release needs to be deployed or kept at all.
///
/// # Errors
/// If something of that is missing, or cannot be read.
pub async fn check_prerequisites(session: &ReleaseSession<'_>) -> Result<(), AgentError> {
    let spec = &session.deployment.spec;
    if removal::deploys_fleets_agent(session.deployment) {
        return Err(Lacking::FleetsAgent.into());
    }
    let ReleaseKey {
        namespace, storage, ..
    } = &session.release;
    for namespace in BTreeSet::from([namespace, storage]) {
        if let Err(invalid) = names::namespace(namespace) {
            return Err(Lacking::NamespaceName {
                namespace: namespace.clone(),
                invalid,
            }
            .into());
        }
        // An account that may not deploy to a namespace may not write Secrets there either.
        inputs::check_selector(&session.context.downstream, &spec.options, namespace).await?;
    }
    Ok(())
}

/// What the cache shows. It may be behind: it only proves that nothing is to be done.
///
/// # Errors
/// If a record or the ConfigMap of the agent cannot be read.
pub async fn cached(session: &ReleaseSession<'_>) -> Result<ObservedRelease, AgentError> {
    let history = session.context.records.cached_history(&session.release).await?;
    with_others(session, history).await
}

/// What the API server shows: the basis of everything that changes the release.
///
/// # Errors
/// As [`cached`].
pub async fn current(session: &ReleaseSession<'_>) -> Result<ObservedRelease, AgentError> {
    let history = session.records.history().await?;
    with_others(session, history).await
}

/// With the releases that the BundleDeployment has under other names. Not by the records of all releases: this happens in each reconciliation.
async fn with_others(session: &ReleaseSession<'_>, history: History) -> Result<ObservedRelease, AgentError> {
    let context = session.context;
    let mut others = Vec::new();
    for other in context.owned.of_deployment(session.name()).await? {
        if other.release.records() != session.release.records() {
            others.push(context.records.cached_history(&other.release).await?);
        }
    }
    Ok(ObservedRelease {
        history,
        others,
        now: Timestamp::now(),
    })
}

/// How long the next attempt is delayed by the failures before it.
///
/// # Errors
/// If the last runs of Helm ended with the agent, or other Bundles or objects have to be ready first.
pub async fn delay(session: &ReleaseSession<'_>) -> Result<Option<Duration>, AgentError> {
    let backoff = session.backoff()?;
    if backoff.is_some() {
        return Ok(backoff);
    }
    if dependencies::has_any(session.deployment) {
        let all = session.context.deployments.state();
        let all: Vec<_> = all.iter().filter_map(|deployment| deployment.valid()).collect();
        dependencies::check(session.deployment, &all)?;
    }
    inputs::check_objects(session).await?;
    Ok(None)
}
