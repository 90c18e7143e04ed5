//! The steps of the reconciliation of one HelmOp.

use std::borrow::Cow;

use helmops_api::{Bundle, Decoded, HelmOp, NamespacedName};
use helmops_core::{
    admit::ValidHelmOp,
    bundle::{self, RequestedCharts},
    policy::Policies,
    status::{self, BundleState, Polling, ReconcileOutcome},
};
use helmops_model::{chart::delivery::Delivery, reason::Reason, validation::FieldErrors};
use helmops_runtime::{
    error_class::ClassifiedError,
    retry_state::{Done, RetryKey},
    workers::WorkerPermit,
};
use helmops_trace::in_span;
use k8s_openapi::jiff::Timestamp;

use super::{
    REQUEST_ANNOTATIONS, apply,
    content::{DeliverInput, deliver},
    error::ReconcileError,
    observe,
    poll_plan::{PollInput, PollPlan},
    trace,
    versions::{ResolveInput, Versions, versions},
};
use crate::{context::Context, work::HelmOpKey};

pub struct HelmOpReconciliation<'r> {
    pub key: &'r HelmOpKey,
    /// Its namespace and name, and those of its Bundle.
    pub name: &'r NamespacedName,
    pub helmop: &'r HelmOp,
    pub context: &'r Context,
}

/// The Bundle is up to date.
struct Applied<'v, 'a, 'b> {
    bundle: Cow<'b, Bundle>,
    versions: Versions<'v, 'a>,
}

impl HelmOpReconciliation<'_> {
    /// Validates the HelmOp, and writes its Bundle and its status.
    ///
    /// # Errors
    /// If the Bundle or the status is not up to date. The status reports what a user can do about it.
    pub async fn run(&self, permit: &mut WorkerPermit) -> Result<Done, ReconcileError> {
        let policies = observe::policies(self.context, &self.name.namespace)?;
        let completed = policies.apply_defaults(self.helmop);
        let cached = observe::cached_bundle(self.context, self.key);
        let valid = match policies.accept(&completed) {
            Ok(valid) => valid,
            Err(errors) => return self.refuse(&errors, cached.as_deref()).await,
        };
        self.context.interest.record(self.key, &valid);
        // Boxed, so that futures that wait for a worker are small.
        match Box::pin(self.sync(permit, &valid, cached.as_deref())).await {
            // The cache does not have it yet, or it is not watched: it belongs to another owner, or has lost its label.
            Err(error) if error.is_uncached_bundle() => {
                let fetched = Box::pin(observe::fetch_bundle(self.context, self.name)).await?;
                self.check_current(&valid)?;
                Box::pin(self.sync(permit, &valid, fetched.as_ref())).await
            }
            other => other,
        }
    }

    /// Reports that the HelmOp is invalid or violates a Policy.
    async fn refuse(
        &self,
        errors: &FieldErrors,
        found: Option<&Decoded<Bundle>>,
    ) -> Result<Done, ReconcileError> {
        self.context.interest.forget(self.key);
        let outcome = ReconcileOutcome::Refused {
            reason: errors.reason().unwrap_or(Reason::DecodeError),
            message: errors.to_string(),
        };
        let bundle = observe::own_bundle(found).unwrap_or_default();
        self.update_status(bundle, &outcome, &Polling::Off).await?;
        Ok(Done::UNTIL_CHANGE)
    }

    /// Brings the Bundle and the status of a valid HelmOp up to date, given the existing Bundle.
    async fn sync(
        &self,
        permit: &mut WorkerPermit,
        valid: &ValidHelmOp<'_>,
        found: Option<&Decoded<Bundle>>,
    ) -> Result<Done, ReconcileError> {
        let existing = observe::own_bundle(found);
        // A Bundle of another owner has no information about this HelmOp.
        let bundle = existing.as_ref().copied().unwrap_or_default();
        let charts = RequestedCharts::of(valid, bundle);
        let polls = self.poll_plan(valid, bundle, charts.first_repo());
        let applied = match existing {
            Ok(existing) => {
                self.resolve_and_write(permit, valid, existing, charts, &polls)
                    .await
            }
            Err(error) => Err(error),
        };
        match applied {
            Ok(applied) => Box::pin(self.report_accepted(&polls, applied)).await,
            Err(error) if error.is_benign() => Err(error),
            Err(error) => {
                let (reason, message) = (error.reason(), error.to_string());
                let outcome = if error.class().is_transient() {
                    ReconcileOutcome::Retrying { reason, message }
                } else {
                    ReconcileOutcome::Refused { reason, message }
                };
                self.update_status(bundle, &outcome, &polls.condition_after(&error))
                    .await?;
                Err(error)
            }
        }
    }

    fn poll_plan(&self, valid: &ValidHelmOp<'_>, bundle: Option<&Bundle>, repo: Option<&str>) -> PollPlan {
        let (retries, now) = (&self.context.retries.helmops, Timestamp::now());
        let input = PollInput {
            valid,
            bundle,
            repo,
            backoff: retries.remaining(
                self.key,
                &RetryKey::of(&self.helmop.metadata, REQUEST_ANNOTATIONS),
            ),
            min_interval: self.context.min_polling_interval,
            history: self
                .context
                .unrecorded_polls
                .history(self.key, self.helmop, valid.polling, now),
        };
        PollPlan::new(&input, now)
    }

    /// Determines the versions, and writes the Bundle if it differs.
    async fn resolve_and_write<'v, 'a, 'b>(
        &self,
        permit: &mut WorkerPermit,
        valid: &'v ValidHelmOp<'a>,
        existing: Option<&'b Bundle>,
        charts: RequestedCharts<'v, 'a>,
        polls: &PollPlan,
    ) -> Result<Applied<'v, 'a, 'b>, ReconcileError> {
        let context = self.context;
        let recorded = match valid.delivery {
            Delivery::Direct => Vec::new(),
            Delivery::Content => charts.as_slice().to_vec(),
        };
        let rancher_ca = context
            .stores
            .rancher_ca
            .bundle()
            .map_err(ReconcileError::RancherCa)?;
        let input = ResolveInput {
            key: self.key,
            valid,
            charts,
            since: polls.decision.since(),
            rancher_ca: &rancher_ca,
        };
        let mut result = in_span("resolve", versions(context, permit, input)).await;
        if let Ok(versions) = result {
            let input = DeliverInput {
                key: self.key,
                valid,
                bundle: existing,
                recorded: &recorded,
                rancher_ca: &rancher_ca,
            };
            let delivery = deliver(context, permit, input, versions);
            result = Box::pin(in_span("store content", delivery)).await;
        }
        if let Some((failure, lag)) = polls.metric(result.as_ref().map(|versions| &versions.poll)) {
            context.metrics.polled(failure, lag);
        }
        let versions = result?;
        if versions.waited {
            self.check_current(valid)?;
        }
        let traceparent = trace::next(&context.tracer, self.helmop, existing);
        let inputs = bundle::BundleInputs {
            charts: &versions.charts,
            handled_poll: polls.handled_request(&versions.poll),
            ca_bundle: &rancher_ca.base64(),
            pruned: &context.pruned_bundle_fields.get(),
            traceparent: traceparent.as_deref(),
        };
        let plan = bundle::plan(valid, existing, inputs).map_err(ReconcileError::Unresolved)?;
        let bundle = match (
            Box::pin(in_span(
                "write Bundle",
                apply::bundle(context, self.helmop, self.name, plan),
            ))
            .await?,
            existing,
        ) {
            (None, Some(unchanged)) => Cow::Borrowed(unchanged),
            (written, _) => Cow::Owned(written.unwrap_or_default()),
        };
        Ok(Applied { bundle, versions })
    }

    /// Checks that the HelmOp and its Policies have not changed since the reconciliation started, as far as it matters. Otherwise
    /// the versions belong to a request that has changed, or that a Policy forbids now.
    ///
    /// # Errors
    /// If they have changed, or the Policy cache is not synced.
    fn check_current(&self, valid: &ValidHelmOp<'_>) -> Result<(), ReconcileError> {
        let policies = observe::policies(self.context, &self.name.namespace)?;
        let is_current = observe::is_current(self.context, self.key, self.helmop)
            && is_still_allowed(&policies, self.helmop, valid.helmop);
        if is_current {
            Ok(())
        } else {
            Err(ReconcileError::Superseded)
        }
    }

    /// Updates the status after the Bundle is up to date.
    async fn report_accepted(
        &self,
        polls: &PollPlan,
        applied: Applied<'_, '_, '_>,
    ) -> Result<Done, ReconcileError> {
        let Applied { bundle, versions } = applied;
        let helm = bundle.spec.options.helm.as_ref();
        let outcome = ReconcileOutcome::Accepted {
            version: helm.map(|helm| helm.version.clone()).unwrap_or_default(),
            resolved: bundle::deployed_charts(&bundle).unwrap_or_else(|| versions.charts.records()),
        };
        let notices = status::notices(versions.charts.as_slice());
        let ages = &versions.ages;
        let polling = polls.condition(&versions.poll, notices, &ages.note(self.helmop), ages.seen());
        self.update_status(Some(&bundle), &outcome, &polling).await?;
        Ok(polls.done(&versions.poll))
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
        let waiting = deployments
            .as_ref()
            .map(|deployments| observe::waiting(self.context, deployments));
        let state = BundleState {
            bundle,
            deployments: deployments.as_deref(),
            waiting: waiting.as_ref(),
        };
        let now = status::timestamp(Timestamp::now());
        let next = status::next(self.helmop, state, outcome, polling, &now);
        let polls = &self.context.unrecorded_polls;
        if let (Some((start, next_poll)), Some(stored)) = (polling.recordable_later(), &self.helmop.status)
            && status::is_recorded_later(stored, &next, next_poll)
        {
            polls.add(self.key, start);
            return Ok(());
        }
        Box::pin(apply::status(self.context, self.key, self.helmop, next)).await
    }
}

/// Whether Policies, which may have changed during a resolution, still apply the same defaults to a HelmOp and allow it.
fn is_still_allowed(policies: &Policies, helmop: &HelmOp, completed: &HelmOp) -> bool {
    *policies.apply_defaults(helmop) == *completed && policies.accept(completed).is_ok()
}

#[cfg(test)]
mod tests {
    use helmops_api::Policy;
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
