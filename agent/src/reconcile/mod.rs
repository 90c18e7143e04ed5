//! The reconciliation of a BundleDeployment.
//!
//! ```text
//! held? ─► converge: observe ─► plan ─► operation ─┐
//!             ▲                                    │ until nothing is to be done
//!             └────────────────────────────────────┘
//!      ─► objects: the live ones, drift ─► settle: wait, test, accept or remediate ─► report: the status, Events
//! ```
//!
//! A deployment that takes longer is reported meanwhile.
//!
//! Every decision follows from the BundleDeployment, the records of Helm and the live objects. The status is a report.

mod converge;
mod objects;
mod observe;
mod outcome;
mod readiness;
mod report;
mod settle;

use std::sync::Arc;

use helmops_api::{BundleDeployment, Decoded, labels, lifecycle::Requests};
use helmops_model::deployment_state::is_up_to_date;
use helmops_release::{gate::Held, lifecycle::requests};
use helmops_runtime::{
    metrics::{Controller, ReconcileMetrics},
    reconciler::{KeyOf, Reconciler},
    retry_state::{Done, RetryState},
    workers::WorkerPermit,
};
use helmops_trace::{TraceContext, Tracer};
use kube::core::ObjectMeta;
use tracing::{Span, field::Empty};

use self::outcome::Outcome;
use crate::{
    context::{Context, Key},
    error::AgentError,
    inputs::{self, ObservedValues},
    memory::ReleaseMemory,
    metrics::BUNDLE_DEPLOYMENTS,
    operations::on_delete,
    removal,
    session::ReleaseSession,
};

/// The reconciler of BundleDeployments.
pub struct BundleDeploymentReconciler<'c>(pub &'c Context);

impl Reconciler for BundleDeploymentReconciler<'_> {
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
    async fn deleted(&self, key: &Key, permit: &mut WorkerPermit) -> Result<Done, AgentError> {
        removal::remove(self.0, &key.name, permit).await
    }

    /// The trace of the last change, until the release is ready.
    fn trace(&self, _: &Key, deployment: &BundleDeployment) -> Option<(&Tracer, TraceContext)> {
        let tracer = &self.0.tracer;
        let parent = tracer.parent(labels::annotation(&deployment.metadata, labels::TRACEPARENT))?;
        (!is_up_to_date(deployment)).then_some((tracer, parent))
    }

    async fn reconcile(
        &self,
        key: &Key,
        deployment: &BundleDeployment,
        permit: &mut WorkerPermit,
    ) -> Result<Done, AgentError> {
        let context = self.0;
        context.guard.saw(&deployment.metadata);
        context.removals.forget(&key.name);
        context.reports.removal(&key.name, &context.namespace, None);
        let release = context.releases.of(&key.name);
        let memory = &mut *release.lock().await;
        let cached = || context.deployments.get(key);
        let running = context.running.begin(deployment, &context.stop, cached);
        let handled = handled(deployment, memory);
        let held = Held::of(&deployment.spec);
        let values = if held.is_some() {
            ObservedValues::default()
        } else {
            context.sources.observe(context, deployment).await
        };
        let session = ReleaseSession::new(
            context,
            deployment,
            &running,
            &values,
            &handled.clone().unwrap_or_default(),
        );
        if let Some(held) = held {
            tracing::debug!(?held, "held");
            inputs::forget_objects(&session);
            on_delete::update(&session).await?;
            report::held(&session, held).await?;
            return Ok(Done::UNTIL_CHANGE);
        }
        report::suspension(&session, false);
        let outcome = converge::deploy(&session, permit).await?;
        if !matches!(outcome, Outcome::Failed(AgentError::AwaitsObject { .. })) {
            inputs::forget_objects(&session);
        }
        // Also without an attempt: while another replica was the leader, it handled newer ones.
        memory.handled = if outcome.is_attempt() {
            requests(deployment).cloned()
        } else {
            handled
        };
        let objects = objects::observe(&session, &outcome, &mut memory.installed, &mut memory.causes).await;
        let settled = settle::settle(&session, outcome, objects, memory, permit).await?;
        if matches!(settled.outcome, Outcome::ReconcileAgain) {
            // What would be reported is not true any more.
            return settled.outcome.done(None);
        }
        on_delete::update(&session).await?;
        report::release(&session, memory, settled).await
    }
}

/// The requests that were handled already, as this process or the status shows it; `None` if there were none. Neither alone does:
/// the status may not be written yet, and while another replica was the leader, this one handled nothing. Of two that differ, the
/// one that is requested counts, or else that of the status.
fn handled(deployment: &BundleDeployment, memory: &ReleaseMemory) -> Option<Requests> {
    let reported = deployment.status.lifecycle.as_ref();
    let reported = reported.and_then(|lifecycle| lifecycle.handled.as_ref());
    let own = memory.handled.as_ref();
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

#[cfg(test)]
mod tests {
    use super::*;

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
            let known = ReleaseMemory {
                handled: Some(force(own)),
                ..ReleaseMemory::default()
            };
            let status = deployment.status.lifecycle.get_or_insert_default();
            status.handled = Some(force(reported));
            let handled = handled(&deployment, &known).unwrap();
            assert_eq!(handled.force, expected, "{own} {reported}");
        }
        deployment.status.lifecycle = None;
        assert_eq!(handled(&deployment, &ReleaseMemory::default()), None);
    }
}
