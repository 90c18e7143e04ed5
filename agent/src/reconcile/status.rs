//! Writes the status.

use std::time::Duration;

use helmops_api::BundleDeployment;
use helmops_release::report::{self, DeployOutcome, Inputs, Observation, Progress};
use helmops_runtime::client::{ApiError, CallError, bounded};
use k8s_openapi::jiff::Timestamp;
use kube::{
    Api,
    api::{Patch, PatchParams},
};

use crate::{
    context::Context,
    error::{AgentError, until},
    monitor::FIELD_MANAGER,
};

/// Writes the status, if it changes.
///
/// # Errors
/// If the API server does not accept it.
pub async fn write(
    context: &Context,
    deployment: &BundleDeployment,
    outcome: &DeployOutcome,
    observation: &Observation,
    progress: &Progress<'_>,
) -> Result<(), AgentError> {
    let is_copied = matches!(outcome, DeployOutcome::Deployed { .. });
    let inputs = Inputs {
        previous: &deployment.status,
        spec: &deployment.spec,
        outcome,
        is_copied,
        observation,
        progress,
    };
    let status = report::next(inputs, Timestamp::now());
    let Some(patch) = report::changed(&deployment.status, &status) else {
        return Ok(());
    };
    let namespace = deployment.metadata.namespace.as_deref().unwrap_or_default();
    let name = deployment.metadata.name.as_deref().unwrap_or_default();
    let api = Api::<BundleDeployment>::namespaced(context.upstream.clone(), namespace);
    let params = PatchParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    };
    let object = format!("BundleDeployment {namespace}/{name}");
    match bounded(api.patch_status(name, &params, &Patch::Merge(patch))).await {
        Ok(_) => Ok(()),
        // It was deleted meanwhile; its removal follows.
        Err(error) if ApiError::is_not_found(&error) => Ok(()),
        Err(error) => Err(CallError::of("write the status of", object)(error).into()),
    }
}

/// When the health of an object changes by itself, as time passes.
pub fn recheck(observation: &Observation) -> Option<Duration> {
    let Observation::Objects(release) = observation else {
        return None;
    };
    let times = release.objects.iter().filter_map(|object| object.health.recheck);
    Some(until(times.min()?))
}
