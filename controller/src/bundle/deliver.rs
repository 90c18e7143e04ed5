//! Delivers a Bundle to one cluster: observe, plan, apply.

use std::{borrow::Cow, collections::BTreeSet, sync::Arc};

use helmops_api::BundleDeployment;
use helmops_core::targeting::{
    Blocked, RolloutStep, Target,
    delivery::{Action, BundleDelivery, ClusterState},
};
use helmops_runtime::error_class::ClassifiedError;
use helmops_trace::{in_span, set_attribute};

use super::{
    DeliveryError,
    apply::{self, ActionError, Applied},
    observe,
};
use crate::{context::Context, watch::Copies};

/// What is the same for all clusters of a Bundle.
pub struct Delivery<'d> {
    pub context: &'d Context,
    /// The cache of copies in the namespaces of clusters.
    pub copies: &'d Copies,
    /// The Bundle, and the sources of its copies.
    pub decisions: &'d BundleDelivery<'d>,
}

/// The result for one cluster.
#[derive(Default)]
pub struct Delivered {
    /// Its deployment, if it was written.
    pub deployment: Option<BundleDeployment>,
    /// For the status: why the desired deployment is not applied.
    pub problem: Option<String>,
    /// The error, if it is to be retried.
    pub error: Option<DeliveryError>,
}

impl Delivery<'_> {
    /// Why the desired state of a cluster cannot be delivered, as far as the caches show it.
    pub fn blocked(&self, target: &Target<'_>) -> Option<Blocked> {
        let state = if BundleDelivery::may_conflict(target) {
            self.observed(target)
        } else {
            ClusterState::default()
        };
        self.decisions.blocked(target, &state)
    }

    /// Applies the next step of the rollout to a cluster.
    pub async fn deliver_to(&self, target: &Target<'_>, step: RolloutStep) -> Delivered {
        // Deployments that are up to date are handled without waiting, and there may be thousands with large values.
        tokio::task::yield_now().await;
        let mut delivered = Delivered::default();
        if let Err(error) = &target.desired {
            delivered.problem = Some(error.to_string());
            return delivered;
        }
        match Box::pin(self.apply_step(target, step, &mut delivered.deployment)).await {
            Ok(None) => {}
            Ok(Some(blocked)) => {
                delivered.error = DeliveryError::of_blocked(&blocked);
                delivered.problem = Some(blocked.message);
            }
            Err(error) => {
                delivered.problem = (!error.is_benign()).then(|| error.to_string());
                delivered.error = Some(error);
            }
        }
        if let Some(deployment) = &mut delivered.deployment {
            // The status of the Bundle does not need the options, and there may be thousands of deployments.
            deployment.spec.options = Arc::default();
            deployment.spec.staged_options = Arc::default();
        }
        delivered
    }

    /// Observes, plans and applies. Again at most twice: once if a write shows that the observed state was stale, and once after
    /// the deployment was created, if it has to own copies. Returns why the desired state cannot be delivered.
    async fn apply_step(
        &self,
        target: &Target<'_>,
        step: RolloutStep,
        written: &mut Option<BundleDeployment>,
    ) -> Result<Option<Blocked>, DeliveryError> {
        let mut stale_copies = BTreeSet::new();
        loop {
            let current = match &*written {
                Some(deployment) => Cow::Owned(target.with_existing(deployment)),
                None => Cow::Borrowed(target),
            };
            let mut state = self.observed(&current);
            state.stale.clone_from(&stale_copies);
            let reads = self.decisions.reads(&current, step, &state);
            observe::read(self.context, self.copies, reads, &mut state).await?;
            let plan = match self.decisions.plan(&current, step, &state) {
                Ok(plan) => plan,
                Err(blocked) => return Ok(Some(blocked)),
            };
            drop(current);
            let applied = self.apply(target, &plan.actions).await;
            if applied.deployment.is_some() {
                *written = applied.deployment;
            }
            match applied.error {
                Some(ActionError {
                    stale: Some(copy), ..
                }) if stale_copies.is_empty() => {
                    stale_copies.insert(copy);
                }
                Some(failed) => return Err(failed.error),
                None if plan.has_new_owner => {}
                None => return Ok(None),
            }
        }
    }

    /// Writes, as a span of the trace if there is anything to write.
    async fn apply(&self, target: &Target<'_>, actions: &[Action]) -> Applied {
        let work = apply::execute(self.context, self.copies, actions);
        if actions.is_empty() {
            return work.await;
        }
        let work = async {
            set_attribute("helmops.cluster", || {
                format!("{}/{}", target.member.namespace(), target.member.name())
            });
            work.await
        };
        Box::pin(in_span("deliver", work)).await
    }

    fn observed(&self, target: &Target<'_>) -> ClusterState {
        observe::cluster(self.context, self.copies, self.decisions, target)
    }
}
