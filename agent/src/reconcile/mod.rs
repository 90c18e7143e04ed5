//! The reconciliation of a BundleDeployment.
//!
//! ```text
//! held? ─► inputs ─► deploy: state of the release ─► action ─► Helm ─┐
//!          values,     ▲                                            │ until nothing is to be done
//!          copies …    └────────────────────────────────────────────┘
//!      ─► monitor: live objects, drift ─► correct ─► report: the status
//! ```
//!
//! Every decision follows from the BundleDeployment, the records of Helm and the live objects. The status is a report.

mod deploy;
mod remove;
mod status;
mod wait;

use std::{sync::Arc, time::Duration};

use helmops_api::{BundleDeployment, Decoded};
use helmops_release::{
    gate::Held,
    names::{ReleaseKey, SetId},
    object::ObjectId,
    report::{DeployOutcome, Observation, ReleaseObjects},
};
use helmops_runtime::{
    metrics::{Controller, ReconcileMetrics},
    reconciler::{KeyOf, Reconciler},
    retry_state::{Done, Failures, RetryState},
    workers::WorkerPermit,
};
use k8s_openapi::jiff::Timestamp;
use kube::core::ObjectMeta;
use tracing::Span;

pub use self::remove::remove_renamed;
use self::{
    deploy::{Deployed, Deployment},
    wait::Wait,
};
use crate::{
    context::{Context, Key},
    error::AgentError,
    metrics::BUNDLE_DEPLOYMENTS,
    monitor::{Corrections, Installed, Monitor, MonitorError, Monitored, correct},
};

/// When the kinds are read again that the cluster does not have: their CRD may be installed meanwhile.
const UNKNOWN_KIND: Duration = Duration::from_secs(15);

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
        tracing::error_span!("reconcile", bundledeployment = key.name)
    }

    /// Uninstalls what a deleted BundleDeployment has installed.
    async fn deleted(&self, key: &Key) -> Result<(), AgentError> {
        remove::remove(self.0, &key.name).await
    }

    async fn reconcile(
        &self,
        key: &Key,
        deployment: &BundleDeployment,
        _: &mut WorkerPermit,
    ) -> Result<Done, AgentError> {
        let context = self.0;
        if let Some(held) = Held::of(&deployment.spec) {
            tracing::debug!(?held, "held");
            return Ok(Done::UNTIL_CHANGE);
        }
        let release = context.releases.of(&key.name);
        let mut installed = release.lock().await;
        let work = Deployment::new(context, deployment);
        let mut result = work.deploy().await;
        let mut observed = match &result {
            Ok(deployed) => observe(context, deployment, deployed, &mut installed).await,
            Err(_) => Ok(None),
        };
        let mut awaited = None;
        if let (Ok(deployed), Ok(Some(monitored)), Some(installed)) = (&result, &observed, &*installed)
            && wait::is_awaited(deployment)
        {
            let readiness = |id: &ObjectId| monitored.readiness.get(id);
            match wait::state(deployment, installed, readiness, Timestamp::now()) {
                Wait::Over => {}
                Wait::Waiting { remaining, late } => {
                    tracing::info!(late, "waiting for the release");
                    awaited = Some(remaining);
                    result = Err(AgentError::Waiting(remaining));
                    observed = Ok(None);
                }
                Wait::Failed(reason) => {
                    result = Err(work.undo(deployed, reason).await);
                    observed = Ok(None);
                }
            }
        }
        let done = report(context, deployment, installed.as_mut(), result, observed).await?;
        Ok(awaited.map_or(done, until_ready))
    }
}

/// While a release is awaited, earlier failures count: it has not succeeded yet. Otherwise releases that never become ready
/// would be rolled back and upgraded without a pause.
const fn until_ready(remaining: Duration) -> Done {
    Done {
        requeue_after: Some(remaining),
        failures: Failures::Kept,
    }
}

/// Corrects drift if that is wanted, and writes the status.
async fn report(
    context: &Context,
    deployment: &BundleDeployment,
    mut installed: Option<&mut Installed>,
    result: Result<Deployed, AgentError>,
    observed: Result<Option<Monitored>, AgentError>,
) -> Result<Done, AgentError> {
    let outcome = match &result {
        Ok(deployed) => DeployOutcome::Deployed {
            release: deployed.to_string(),
        },
        Err(error) => error.outcome(),
    };
    let name = deployment.metadata.name.as_deref().unwrap_or_default();
    match &result {
        Ok(_) => context.reports.deployed(name),
        Err(error) => {
            let release = ReleaseKey::of(name, &deployment.spec.options);
            context.reports.failed(name, &release, error);
        }
    }
    let (observation, error) = match observed {
        Ok(Some(monitored)) => {
            let objects = corrected(context, deployment, installed.as_deref_mut(), monitored.objects).await;
            match objects {
                Ok(objects) => (Observation::Objects(objects), None),
                Err(error) => (failed(&error), Some(error)),
            }
        }
        Ok(None) => (Observation::None, None),
        Err(error) => (failed(&error), Some(error)),
    };
    status::write(context, deployment, &outcome, &observation).await?;
    match result {
        Ok(_) | Err(AgentError::Waiting(_)) => {}
        Err(error) => return Err(error),
    }
    error.map_or(Ok(()), Err)?;
    let is_incomplete = installed.is_some_and(|installed| !installed.is_complete());
    let recheck = status::recheck(&observation).into_iter();
    Ok(Done {
        requeue_after: recheck.chain(is_incomplete.then_some(UNKNOWN_KIND)).min(),
        ..Done::UNTIL_CHANGE
    })
}

fn failed(error: &AgentError) -> Observation {
    Observation::Failed {
        error: error.to_string(),
    }
}

fn monitor<'m>(context: &'m Context, deployment: &'m BundleDeployment, set: &'m SetId) -> Monitor<'m> {
    Monitor {
        client: &context.downstream,
        records: &context.records,
        live: &context.live,
        deployment,
        set,
    }
}

fn set_of(context: &Context, deployment: &BundleDeployment) -> SetId {
    context.set_of(deployment.metadata.name.as_deref().unwrap_or_default())
}

/// Observes the objects of the deployed revision.
async fn observe(
    context: &Context,
    deployment: &BundleDeployment,
    deployed: &Deployed,
    installed: &mut Option<Installed>,
) -> Result<Option<Monitored>, AgentError> {
    let is_known = installed.as_ref().is_some_and(|installed| {
        installed.is(&deployed.release, deployed.revision) && installed.is_complete()
    });
    if !is_known {
        let read = Installed::read(
            &context.records,
            &context.kinds,
            &deployed.release,
            deployed.revision,
            deployed.previous,
        );
        *installed = Some(read.await.map_err(MonitorError::from)?);
    }
    let Some(installed) = installed else {
        return Ok(None);
    };
    let set = set_of(context, deployment);
    Ok(Some(monitor(context, deployment, &set).compare(installed).await?))
}

/// Corrects drift, if that is wanted. The objects are those from before: the change of the live object leads to the next
/// reconciliation, which shows whether it helped.
async fn corrected(
    context: &Context,
    deployment: &BundleDeployment,
    installed: Option<&mut Installed>,
    mut objects: ReleaseObjects,
) -> Result<ReleaseObjects, AgentError> {
    let spec = &deployment.spec;
    let correction = spec
        .correct_drift
        .as_ref()
        .or(spec.options.correct_drift.as_ref());
    let mut corrections = None;
    if let (Some(correction), Some(installed)) =
        (correction.filter(|correction| correction.enabled), installed)
    {
        let done = if objects.drift.is_empty() {
            Corrections::default()
        } else {
            let set = set_of(context, deployment);
            let monitor = monitor(context, deployment, &set);
            correct(&monitor, installed, &objects.drift, correction).await?
        };
        objects.correction_error = (!done.errors.is_empty()).then(|| done.errors.join("; "));
        corrections = Some(done);
    }
    let name = deployment.metadata.name.as_deref().unwrap_or_default();
    let release = ReleaseKey::of(name, &spec.options);
    context
        .reports
        .compared(name, &release, &objects, corrections.as_ref());
    Ok(objects)
}

#[cfg(test)]
mod tests {
    use helmops_runtime::retry_state::RetryKey;
    use kube::runtime::reflector::ObjectRef;

    use super::*;

    #[test]
    fn attempts_that_only_fail_after_a_wait_are_retried_more_and_more_slowly() {
        let retries = RetryState::<Key>::default();
        let key = ObjectRef::new("web").within("cluster");
        let wait = Duration::from_secs(5);
        let mut delays = Vec::new();
        for _ in 0..4 {
            let waiting =
                retries.requeue_after(&key, RetryKey::default(), Ok::<_, AgentError>(until_ready(wait)));
            assert_eq!(waiting, Some(wait));
            let failed = AgentError::NotReady("not ready in time".to_owned());
            delays.push(
                retries
                    .requeue_after(&key, RetryKey::default(), Err(failed))
                    .unwrap(),
            );
        }
        assert!(delays.is_sorted() && delays[3] > 4 * delays[0], "{delays:?}");
    }
}
