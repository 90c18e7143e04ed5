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
mod report;

use std::sync::Arc;

use helmops_api::{BundleDeployment, Decoded};
use helmops_core::reason::Reason;
use helmops_release::{
    gate::Held,
    report::{DeployOutcome, Observation},
};
use helmops_runtime::{
    metrics::{Controller, ReconcileMetrics},
    reconciler::{KeyOf, Reconciler},
    retry_state::{Done, RetryState},
    workers::WorkerPermit,
};
use kube::core::ObjectMeta;
use tracing::Span;

use self::deploy::Deployment;
pub use self::remove::remove_renamed;
use crate::{
    context::{Context, Key},
    error::AgentError,
    monitor::{Installed, Monitor, MonitorError, correct},
};

/// The reconciler of BundleDeployments.
pub struct BundleDeployments<'c>(pub &'c Context);

impl Reconciler for BundleDeployments<'_> {
    type Object = BundleDeployment;
    type Error = AgentError;
    const CONTROLLER: Controller = Controller {
        label: "bundledeployment",
        failures: || Reason::AGENT.to_vec(),
    };

    fn get(&self, key: &Key) -> Option<Arc<Decoded<BundleDeployment>>> {
        self.0.deployments.get(key)
    }

    fn retry_state(&self) -> &RetryState<Key> {
        &self.0.retries
    }

    fn metrics(&self) -> &ReconcileMetrics {
        &self.0.metrics
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
        let result = Deployment::new(context, deployment).deploy().await;
        let outcome = match &result {
            Ok(deployed) => DeployOutcome::Deployed {
                release: deployed.to_string(),
            },
            Err(error) => error.outcome(),
        };
        let observed = observe(context, deployment, result.as_ref().ok(), &mut installed).await;
        let (observation, monitored) = match observed {
            Ok(observation) => (observation, Ok(())),
            Err(error) => {
                let failed = Observation::Failed {
                    error: error.to_string(),
                };
                (failed, Err(error))
            }
        };
        report::write(context, deployment, &outcome, &observation).await?;
        result?;
        monitored?;
        Ok(Done {
            requeue_after: report::recheck(&observation),
            ..Done::UNTIL_CHANGE
        })
    }
}

/// Observes the objects of the deployed revision, and corrects them if that is wanted.
async fn observe(
    context: &Context,
    deployment: &BundleDeployment,
    deployed: Option<&deploy::Deployed>,
    installed: &mut Option<Installed>,
) -> Result<Observation, AgentError> {
    let Some(deployed) = deployed else {
        return Ok(Observation::None);
    };
    let set = context.set_of(deployment.metadata.name.as_deref().unwrap_or_default());
    let monitor = Monitor {
        client: &context.downstream,
        records: &context.records,
        live: &context.live,
        deployment,
        set: &set,
    };
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
        return Ok(Observation::None);
    };
    let mut objects = monitor.compare(installed).await?.objects;
    let correction = deployment.spec.correct_drift.as_ref().or(deployment
        .spec
        .options
        .correct_drift
        .as_ref());
    if let Some(correction) = correction.filter(|correction| correction.enabled)
        && !objects.drift.is_empty()
    {
        let errors = correct(&monitor, installed, &objects.drift, correction).await?;
        objects.correction_error = (!errors.is_empty()).then(|| errors.join("; "));
    }
    Ok(Observation::Objects(objects))
}
