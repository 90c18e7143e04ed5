//! The HelmOp loop: writes the Bundle of each HelmOp.
//!
//! ```text
//! observe ─► poll_decision ─► versions ─► plan ─► apply the Bundle ─► update the status
//! (caches)   is a poll due?   recorded,   what to
//!                             or resolved write?
//! ```

mod apply;
mod interest;
mod observe;
mod poll_decision;
mod versions;
mod warm_up;

use std::{borrow::Cow, time::Instant};

use helmops_shared::{
    admit::ValidHelmOp,
    api::{Bundle, Decoded, HelmOp, labels},
    bundle,
    policy::Policies,
    reason::Reason,
    status::{self, BundleState, Polling, ReconcileOutcome},
};
use k8s_openapi::jiff::Timestamp;
use kube::{Resource, core::ObjectMeta};
use tracing::{Instrument, Span};

pub use self::{interest::Interest, poll_decision::seconds};
use self::{
    poll_decision::PollDecision,
    versions::{ResolveInput, Versions, versions},
};
use crate::{
    backoff::BackoffPolicy,
    context::{Context, RetryKey},
    error::{ReconcileError, cut_error},
    error_class::ClassifiedError,
    metrics::Reconciler,
    queue::RequeueAfter,
    watch::Weight,
    work::HelmOpKey,
    workers::WorkerPermit,
};

/// Reconciles one HelmOp, and reports the result in its status.
///
/// It is level-triggered: it depends only on the current state, never on the event, so it may be called at any time and any
/// number of times.
pub async fn reconcile(key: HelmOpKey, mut permit: WorkerPermit, context: &Context) -> RequeueAfter {
    let Some(object) = context.stores.helmops.get(&key) else {
        // It is deleted.
        context.helmops.forget(&key);
        context.interest.forget(&key);
        return None;
    };
    let cached = object.meta().resource_version.as_deref().unwrap_or_default();
    if context.helmops.pending_writes.is_stale(&key, cached) {
        return Some(BackoffPolicy::CONFLICT.initial_delay);
    }
    let span = span(object.meta());
    let helmop = match &*object {
        Decoded::Valid(helmop) => helmop,
        Decoded::Invalid { .. } if object.meta().deletion_timestamp.is_some() => {
            return finalize(&key, &object, context).instrument(span).await;
        }
        Decoded::Invalid { error, .. } => {
            context.interest.forget(&key);
            span.in_scope(|| report_invalid(object.meta(), error, context));
            return None;
        }
    };
    if helmop.metadata.deletion_timestamp.is_some() {
        return finalize(&key, &object, context).instrument(span).await;
    }
    sync_timed(&key, helmop, &mut permit, context)
        .instrument(span)
        .await
}

/// Records the charts of all HelmOps, before the first reconciliation.
pub async fn prepare(context: &Context) {
    let helmops = context.stores.helmops.state();
    let policies = |helmop: &HelmOp| observe::policies(context, helmop).ok();
    warm_up::record_all(&helmops, policies, &context.interest).await;
}

/// The span of all log lines about a HelmOp: its name, and its user if Rancher's label names one.
fn span(helmop: &ObjectMeta) -> Span {
    let name = |part: &Option<String>| part.clone().unwrap_or_default();
    let user = helmop
        .labels
        .as_ref()
        .and_then(|labels| labels.get(labels::CREATED_BY));
    // At level `error`, so that every log level includes it.
    tracing::error_span!(
        "reconcile",
        helmop = format!("{}/{}", name(&helmop.namespace), name(&helmop.name)),
        userID = user.map(String::as_str)
    )
}

/// Reports a HelmOp that does not decode. Its status is not written: it may be the part that does not decode.
fn report_invalid(metadata: &ObjectMeta, error: &str, context: &Context) {
    let error = cut_error(error);
    tracing::error!(error, "HelmOp cannot be decoded; skipping it");
    let helmop = HelmOp {
        metadata: metadata.clone().into(),
        ..HelmOp::default()
    };
    context
        .events
        .publish(&helmop, vec![status::decode_failed(error)]);
}

/// Cleans up a HelmOp that is being deleted, whether it decodes or not.
async fn finalize(key: &HelmOpKey, helmop: &Decoded<HelmOp>, context: &Context) -> RequeueAfter {
    context.interest.forget(key);
    let started = Instant::now();
    let result = Box::pin(apply::cleanup(context, key, helmop)).await;
    context.metrics.reconciled(
        Reconciler::HelmOp,
        result.as_ref().err().map(ClassifiedError::reason),
        started.elapsed(),
    );
    match result {
        Ok(()) => {
            context.helmops.backoff.forget(key);
            None
        }
        Err(error) => {
            let retry_key = RetryKey::of_metadata(helmop.meta());
            context.helmops.retry_after(key, retry_key, &error)
        }
    }
}

async fn sync_timed(
    key: &HelmOpKey,
    helmop: &HelmOp,
    permit: &mut WorkerPermit,
    context: &Context,
) -> RequeueAfter {
    let started = Instant::now();
    let result = sync(key, helmop, context, permit).await;
    context.metrics.reconciled(
        Reconciler::HelmOp,
        result.as_ref().err().map(ClassifiedError::reason),
        started.elapsed(),
    );
    match result {
        Ok(next) => next,
        Err(error) => context.helmops.retry_after(key, RetryKey::of(helmop), &error),
    }
}

async fn sync(
    key: &HelmOpKey,
    helmop: &HelmOp,
    context: &Context,
    permit: &mut WorkerPermit,
) -> Result<RequeueAfter, ReconcileError> {
    permit
        .declare_size(helmop.weight())
        .await
        .map_err(ReconcileError::Interrupted)?;
    let cached = observe::bundle(context, helmop);
    let reconciliation = HelmOpReconciliation { key, helmop, context };
    // Boxed, so that futures that wait for a worker are small.
    match Box::pin(reconciliation.run(permit, cached.as_deref())).await {
        // The cache does not have it yet, or it is not watched: it belongs to another owner, or has lost its label.
        Err(error) if error.is_uncached_bundle() => {
            let fetched = Box::pin(observe::fetch_bundle(context, helmop)).await?;
            Box::pin(reconciliation.run(permit, fetched.as_ref())).await
        }
        other => other,
    }
}

/// The reconciliation of a HelmOp.
struct HelmOpReconciliation<'r> {
    key: &'r HelmOpKey,
    helmop: &'r HelmOp,
    context: &'r Context,
}

/// The result of a successful reconciliation.
struct Reconciled<'b> {
    bundle: Cow<'b, Bundle>,
    versions: Versions,
}

impl HelmOpReconciliation<'_> {
    /// Reconciles the HelmOp with its existing Bundle, if there is one.
    async fn run(
        &self,
        permit: &mut WorkerPermit,
        found: Option<&Decoded<Bundle>>,
    ) -> Result<RequeueAfter, ReconcileError> {
        let decoded = observe::decoded(found).ok().flatten();
        // A Bundle of another owner has no information about this HelmOp.
        let bundle = decoded.filter(|bundle| bundle::check_owner(bundle).is_ok());
        let policies = observe::policies(self.context, self.helmop)?;
        let completed = policies.apply_defaults(self.helmop);
        let valid = match policies.accept(&completed) {
            Ok(valid) => {
                self.context.interest.record(self.key, &valid);
                valid
            }
            Err(errors) => {
                self.context.interest.forget(self.key);
                let reason = errors.reason().unwrap_or(Reason::DecodeError);
                let message = errors.to_string();
                let outcome = ReconcileOutcome::Refused { reason, message };
                self.update_status(bundle, &outcome, &Polling::Off).await?;
                self.context.helmops.backoff.forget(self.key);
                return Ok(None);
            }
        };
        let decision = self.poll_decision(&valid, bundle);
        match self.resolve_and_apply(permit, &valid, found, &decision).await {
            Ok(reconciled) => Box::pin(self.accepted(&decision, reconciled)).await,
            Err(error) if error.is_benign() => Err(error),
            Err(error) => {
                let (reason, message) = (error.reason(), error.to_string());
                let outcome = if error.class().is_transient() {
                    ReconcileOutcome::Retrying { reason, message }
                } else {
                    ReconcileOutcome::Refused { reason, message }
                };
                self.update_status(bundle, &outcome, &decision.condition_after(&error))
                    .await?;
                Err(error)
            }
        }
    }

    fn poll_decision(&self, valid: &ValidHelmOp<'_>, bundle: Option<&Bundle>) -> PollDecision {
        let backoff = self
            .context
            .helmops
            .backoff
            .remaining(self.key, &RetryKey::of(self.helmop));
        PollDecision::of(
            valid,
            bundle,
            backoff,
            self.context.min_polling_interval,
            Timestamp::now(),
        )
    }

    /// Determines the versions, and writes the Bundle if it differs.
    async fn resolve_and_apply<'b>(
        &self,
        permit: &mut WorkerPermit,
        valid: &ValidHelmOp<'_>,
        found: Option<&'b Decoded<Bundle>>,
        decision: &PollDecision,
    ) -> Result<Reconciled<'b>, ReconcileError> {
        let context = self.context;
        let existing = observe::decoded(found)?;
        if let Some(existing) = existing {
            bundle::check_owner(existing).map_err(ReconcileError::OwnershipConflict)?;
        }
        let rancher_ca = context
            .stores
            .rancher_ca
            .bundle()
            .map_err(ReconcileError::RancherCa)?;
        let input = ResolveInput {
            key: self.key,
            valid,
            pins: bundle::pins(valid, existing),
            since: decision.since(),
            rancher_ca: &rancher_ca,
        };
        let result = versions(context, permit, input).await;
        if let Some((failure, lag)) = decision.poll_metric(&result) {
            context.metrics.polled(failure, lag);
        }
        let versions = result?;
        if versions.waited && !self.is_still_valid(valid)? {
            // The versions belong to a request that has changed, or that a Policy forbids now.
            return Err(ReconcileError::Superseded);
        }
        let parts = bundle::BundleInputs {
            resolved: &versions.resolved,
            polled: decision.record(&versions),
            ca_bundle: &rancher_ca.base64(),
        };
        let plan = bundle::plan(valid, existing, parts).map_err(ReconcileError::Unresolved)?;
        let bundle = match (Box::pin(apply::bundle(context, plan)).await?, existing) {
            (None, Some(unchanged)) => Cow::Borrowed(unchanged),
            (written, _) => Cow::Owned(written.unwrap_or_default()),
        };
        Ok(Reconciled { bundle, versions })
    }

    /// Whether the HelmOp and its Policies have not changed since the resolution started, as far as it matters.
    ///
    /// # Errors
    /// While the Policy cache is not synced.
    fn is_still_valid(&self, valid: &ValidHelmOp<'_>) -> Result<bool, ReconcileError> {
        let policies = observe::policies(self.context, self.helmop)?;
        Ok(observe::is_current(self.context, self.key, self.helmop)
            && is_still_allowed(&policies, self.helmop, valid.helmop))
    }

    /// Updates the status after the Bundle is up to date, and returns when to poll again.
    async fn accepted(
        &self,
        decision: &PollDecision,
        reconciled: Reconciled<'_>,
    ) -> Result<RequeueAfter, ReconcileError> {
        let helm = reconciled.bundle.spec.options.helm.as_ref();
        let outcome = ReconcileOutcome::Accepted {
            version: helm.map(|helm| helm.version.clone()).unwrap_or_default(),
            resolved: reconciled.versions.resolved.clone(),
        };
        self.update_status(
            Some(&reconciled.bundle),
            &outcome,
            &decision.condition(&reconciled.versions),
        )
        .await?;
        let retry_after = match &reconciled.versions.failure {
            Some(error) => {
                let policy = error.class().backoff_policy().unwrap_or(BackoffPolicy::SLOW);
                let retry_key = RetryKey::of(self.helmop);
                let backoff = &self.context.helmops.backoff;
                Some(backoff.failed(self.key.clone(), retry_key, policy))
            }
            // The failure of a poll that is still backing off still counts.
            None if decision.is_backing_off() => None,
            None => {
                self.context.helmops.backoff.forget(self.key);
                None
            }
        };
        Ok(decision.next(&reconciled.versions, retry_after))
    }

    /// Writes the status if it has changed.
    async fn update_status(
        &self,
        bundle: Option<&Bundle>,
        outcome: &ReconcileOutcome,
        polling: &Polling,
    ) -> Result<(), ReconcileError> {
        if let ReconcileOutcome::Refused { reason, message }
        | ReconcileOutcome::Retrying { reason, message } = outcome
        {
            tracing::info!(reason = reason.as_str(), message, "not accepted");
        }
        let deployments = self.context.stores.deployments.of_helmop(self.key);
        let deployments: Option<Vec<_>> = deployments
            .as_ref()
            .map(|deployments| deployments.iter().map(|deployment| &**deployment).collect());
        let state = BundleState {
            bundle,
            deployments: deployments.as_deref(),
        };
        let now = seconds(Timestamp::now());
        let next = status::next(self.helmop, state, outcome, polling, &now);
        Box::pin(apply::status(self.context, self.key, self.helmop, next)).await
    }
}

/// Whether Policies, which may have changed during a resolution, still apply the same defaults to a HelmOp and allow it.
fn is_still_allowed(policies: &Policies, helmop: &HelmOp, completed: &HelmOp) -> bool {
    *policies.apply_defaults(helmop) == *completed && policies.accept(completed).is_ok()
}

#[cfg(test)]
mod tests {
    use helmops_shared::api::Policy;
    use serde_json::{Value, json};

    use super::*;

    fn policies(fields: &Value) -> Policies {
        let policy: Policy = serde_json::from_str(&fields.to_string()).unwrap();
        Policies::of([&policy])
    }

    #[test]
    fn policies_that_changed_during_a_resolution_are_enforced() {
        let object = json!({
            "metadata": { "name": "web", "namespace": "default" },
            "spec": { "helm": { "repo": "https://charts.example.com", "chart": "web", "version": "1.x" } },
        });
        let helmop: HelmOp = serde_json::from_str(&object.to_string()).unwrap();
        for (fields, is_allowed) in [
            (json!({}), true),
            (
                json!({ "helmOp": { "allowedHelmRepoPatterns": ["https://charts\\.example\\.com"] } }),
                true,
            ),
            (json!({ "helmOp": { "allowedChartPatterns": ["db"] } }), false),
            (json!({ "requireServiceAccount": true }), false),
            // The Bundle would lack the new default.
            (
                json!({ "requireServiceAccount": true, "helmOp": { "defaultServiceAccount": "deployer" } }),
                false,
            ),
        ] {
            let before = Policies::default();
            let completed = before.apply_defaults(&helmop);
            assert_eq!(
                is_still_allowed(&policies(&fields), &helmop, &completed),
                is_allowed,
                "{fields}"
            );
        }
    }
}
