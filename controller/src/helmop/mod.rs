//! The helmop loop: each HelmOp to its Bundle.
//!
//! ```text
//! observe ─► agenda ─► versions ─► plan ─► apply the Bundle ─► tell: the status
//! what is    time to   on record,  what is
//! there      look?     or looked   to be
//!                      up          written
//! ```

mod agenda;
mod apply;
mod foresight;
mod interest;
mod observe;
mod versions;

use std::{borrow::Cow, time::Instant};

use helmops_shared::{
    admit::ValidHelmOp,
    api::{Bundle, Decoded, HelmOp, labels},
    bundle,
    policy::Policies,
    reason::Reason,
    status::{self, BundleState, Outcome, Polling},
};
use k8s_openapi::jiff::Timestamp;
use kube::{Resource, core::ObjectMeta};
use tracing::{Instrument, Span};

use self::{
    agenda::PollDecision,
    versions::{Task, Versions, versions},
};
pub use self::{agenda::seconds, interest::Interest};
use crate::{
    backoff::Pace,
    context::{Context, RetryKey},
    error::{ReconcileError, shown},
    memory::Failure,
    metrics::Reconciler,
    queue::Next,
    watch::Weight,
    work::HelmOpKey,
    workers::WorkerPermit,
};

/// Brings one HelmOp to what it asks for, and tells in its status what came of it.
///
/// It looks only at how things are, never at what happened, so that it may be called at any time and any number of times.
pub async fn reconcile(key: HelmOpKey, mut place: WorkerPermit, context: &Context) -> Next {
    let Some(object) = context.stores.helmops.get(&key) else {
        // It is gone, and what was noted of it with it.
        context.helmops.forget(&key);
        context.interest.forget(&key);
        return None;
    };
    let seen = object.meta().resource_version.as_deref().unwrap_or_default();
    if context.helmops.written.is_behind(&key, seen) {
        return Some(Pace::CONFLICT.first);
    }
    let span = span(object.meta());
    let helmop = match &*object {
        Decoded::Valid(helmop) => helmop,
        Decoded::Invalid { .. } if object.meta().deletion_timestamp.is_some() => {
            return delete(&key, &object, context).instrument(span).await;
        }
        Decoded::Invalid { error, .. } => {
            context.interest.forget(&key);
            span.in_scope(|| left_alone(object.meta(), error, context));
            return None;
        }
    };
    if helmop.metadata.deletion_timestamp.is_some() {
        return delete(&key, &object, context).instrument(span).await;
    }
    timed(&key, helmop, &mut place, context).instrument(span).await
}

/// Notes what all HelmOps want that are there, before the first of them is worked on.
pub async fn prepare(context: &Context) {
    let helmops = context.stores.helmops.state();
    let policies = |helmop: &HelmOp| observe::policies(context, helmop).ok();
    foresight::note_all(&helmops, policies, &context.interest).await;
}

/// What every line of the log about a HelmOp carries: which one, and whose it is where Rancher tells.
fn span(helmop: &ObjectMeta) -> Span {
    let name = |part: &Option<String>| part.clone().unwrap_or_default();
    let user = helmop
        .labels
        .as_ref()
        .and_then(|labels| labels.get(labels::CREATED_BY));
    // At the level of errors, so that it is there whatever else is told.
    tracing::error_span!(
        "reconcile",
        helmop = format!("{}/{}", name(&helmop.namespace), name(&helmop.name)),
        userID = user.map(String::as_str)
    )
}

/// Reports a HelmOp that cannot be read. Its status stays as it is: it may hold what does not decode.
fn left_alone(metadata: &ObjectMeta, error: &str, context: &Context) {
    let error = shown(error);
    tracing::error!(error, "HelmOp cannot be decoded; skipping it");
    let helmop = HelmOp {
        metadata: metadata.clone().into(),
        ..HelmOp::default()
    };
    context.events.publish(&helmop, vec![status::unreadable(error)]);
}

/// Lets a HelmOp go that is being deleted, whether it decodes or not.
async fn delete(key: &HelmOpKey, helmop: &Decoded<HelmOp>, context: &Context) -> Next {
    context.interest.forget(key);
    let started = Instant::now();
    let result = Box::pin(apply::cleanup(context, key, helmop)).await;
    context.metrics.reconciled(
        Reconciler::HelmOp,
        result.as_ref().err().map(Failure::reason),
        started.elapsed(),
    );
    match result {
        Ok(()) => {
            context.helmops.backoff.forget(key);
            None
        }
        Err(error) => {
            let asked = RetryKey::of_metadata(helmop.meta());
            context.helmops.retry(key, asked, &error)
        }
    }
}

async fn timed(key: &HelmOpKey, helmop: &HelmOp, place: &mut WorkerPermit, context: &Context) -> Next {
    let started = Instant::now();
    let result = sync(key, helmop, context, place).await;
    context.metrics.reconciled(
        Reconciler::HelmOp,
        result.as_ref().err().map(Failure::reason),
        started.elapsed(),
    );
    match result {
        Ok(next) => next,
        // No failure: nothing was tried.
        Err(ReconcileError::TooSoon(wait)) => Some(wait),
        Err(error) => context.helmops.retry(key, RetryKey::of(helmop), &error),
    }
}

async fn sync(
    key: &HelmOpKey,
    helmop: &HelmOp,
    context: &Context,
    place: &mut WorkerPermit,
) -> Result<Next, ReconcileError> {
    place
        .carry(helmop.weight())
        .await
        .map_err(ReconcileError::Interrupted)?;
    let seen = observe::bundle(context, helmop);
    let run = Run { key, helmop, context };
    // In boxes, so that those who wait for their place are small.
    match Box::pin(run.with(place, seen.as_deref())).await {
        // It has not been seen yet, or is not one that is watched: somebody else's, or one that lost its label.
        Err(error) if error.is_unseen_bundle() => {
            let fetched = Box::pin(observe::fetch_bundle(context, helmop)).await?;
            Box::pin(run.with(place, fetched.as_ref())).await
        }
        other => other,
    }
}

/// One reconciliation.
struct Run<'r> {
    key: &'r HelmOpKey,
    helmop: &'r HelmOp,
    context: &'r Context,
}

/// What was brought about.
struct Done<'b> {
    bundle: Cow<'b, Bundle>,
    versions: Versions,
}

impl Run<'_> {
    /// Does it all, with a Bundle that is there or none.
    async fn with(
        &self,
        place: &mut WorkerPermit,
        seen: Option<&Decoded<Bundle>>,
    ) -> Result<Next, ReconcileError> {
        let decoded = observe::decoded(seen).ok().flatten();
        // What somebody else's Bundle says is nothing of this HelmOp's.
        let bundle = decoded.filter(|bundle| bundle::check_owner(bundle).is_ok());
        let policies = observe::policies(self.context, self.helmop)?;
        let completed = policies.complete(self.helmop);
        let valid = match policies.accept(&completed) {
            Ok(valid) => {
                self.context.interest.note(self.key, &valid);
                valid
            }
            Err(errors) => {
                self.context.interest.forget(self.key);
                let reason = errors.reason().unwrap_or(Reason::DecodeError);
                let message = errors.to_string();
                let outcome = Outcome::Refused { reason, message };
                self.tell(bundle, &outcome, &Polling::Off).await?;
                self.context.helmops.backoff.forget(self.key);
                return Ok(None);
            }
        };
        let agenda = self.agenda(&valid, bundle);
        match self.advance(place, &valid, seen, &agenda).await {
            Ok(done) => Box::pin(self.accepted(&agenda, done)).await,
            Err(error) if error.is_benign() => Err(error),
            Err(error) => {
                let (reason, message) = (error.reason(), error.to_string());
                let outcome = if error.is_transient() {
                    Outcome::Retrying { reason, message }
                } else {
                    Outcome::Refused { reason, message }
                };
                self.tell(bundle, &outcome, &agenda.told_of(&error)).await?;
                Err(error)
            }
        }
    }

    fn agenda(&self, valid: &ValidHelmOp<'_>, bundle: Option<&Bundle>) -> PollDecision {
        let pause = self
            .context
            .helmops
            .backoff
            .remaining(self.key, &RetryKey::of(self.helmop));
        PollDecision::of(
            valid,
            bundle,
            pause,
            self.context.min_polling_interval,
            Timestamp::now(),
        )
    }

    /// Finds versions and writes the Bundle if it must be.
    async fn advance<'b>(
        &self,
        place: &mut WorkerPermit,
        valid: &ValidHelmOp<'_>,
        seen: Option<&'b Decoded<Bundle>>,
        agenda: &PollDecision,
    ) -> Result<Done<'b>, ReconcileError> {
        let context = self.context;
        let existing = observe::decoded(seen)?;
        if let Some(existing) = existing {
            bundle::check_owner(existing).map_err(ReconcileError::OwnershipConflict)?;
        }
        let rancher_ca = context
            .stores
            .rancher_ca
            .bundle()
            .map_err(ReconcileError::RancherCa)?;
        let task = Task {
            key: self.key,
            valid,
            pins: bundle::pins(valid, existing),
            since: agenda.since(),
            rancher_ca: &rancher_ca,
        };
        let looked = versions(context, place, task).await;
        if let Some((failure, lag)) = agenda.count(&looked) {
            context.metrics.polled(failure, lag);
        }
        let versions = looked?;
        if versions.waited && !self.still_holds(valid)? {
            // What was found answers a question that nobody asks any more, or a Policy forbids now.
            return Err(ReconcileError::Superseded);
        }
        let parts = bundle::Parts {
            resolved: &versions.resolved,
            polled: agenda.record(&versions),
            ca_bundle: &rancher_ca.encoded(),
        };
        let plan = bundle::plan(valid, existing, parts).map_err(ReconcileError::Unresolved)?;
        let bundle = match (Box::pin(apply::bundle(context, plan)).await?, existing) {
            (None, Some(unchanged)) => Cow::Borrowed(unchanged),
            (written, _) => Cow::Owned(written.unwrap_or_default()),
        };
        Ok(Done { bundle, versions })
    }

    /// Whether the HelmOp and its Policies are still what the look-up began with, as far as it matters.
    ///
    /// # Errors
    /// While it is unknown which Policies there are.
    fn still_holds(&self, valid: &ValidHelmOp<'_>) -> Result<bool, ReconcileError> {
        let policies = observe::policies(self.context, self.helmop)?;
        Ok(observe::is_current(self.context, self.key, self.helmop)
            && is_still_allowed(&policies, self.helmop, valid.helmop))
    }

    /// Tells of a Bundle that is as the HelmOp asks, and says when to look for newer versions again.
    async fn accepted(&self, agenda: &PollDecision, done: Done<'_>) -> Result<Next, ReconcileError> {
        let helm = done.bundle.spec.options.helm.as_ref();
        let outcome = Outcome::Accepted {
            version: helm.map(|helm| helm.version.clone()).unwrap_or_default(),
            resolved: done.versions.resolved.clone(),
        };
        self.tell(Some(&done.bundle), &outcome, &agenda.told(&done.versions))
            .await?;
        let retry = match &done.versions.failure {
            Some(error) => {
                let pace = error.pace().unwrap_or(Pace::SLOW);
                let asked = RetryKey::of(self.helmop);
                Some(self.context.helmops.backoff.failed(self.key.clone(), asked, pace))
            }
            // A look that has failed and is not to be tried again yet is still a failure.
            None if agenda.is_paused() => None,
            None => {
                self.context.helmops.backoff.forget(self.key);
                None
            }
        };
        Ok(agenda.next(&done.versions, retry))
    }

    /// Writes the status, if it says anything new.
    async fn tell(
        &self,
        bundle: Option<&Bundle>,
        outcome: &Outcome,
        polling: &Polling,
    ) -> Result<(), ReconcileError> {
        if let Outcome::Refused { reason, message } | Outcome::Retrying { reason, message } = outcome {
            tracing::info!(reason = reason.as_str(), message, "not accepted");
        }
        let deployments = self.context.stores.deployments.of_helmop(self.key);
        let deployments: Option<Vec<_>> = deployments
            .as_ref()
            .map(|deployments| deployments.iter().map(|deployment| &**deployment).collect());
        let seen = BundleState {
            bundle,
            deployments: deployments.as_deref(),
        };
        let now = seconds(Timestamp::now());
        let next = status::next(self.helmop, seen, outcome, polling, &now);
        Box::pin(apply::status(self.context, self.key, self.helmop, next)).await
    }
}

/// Whether Policies, which may have changed during a look-up, still complete a HelmOp in the same way and allow it.
fn is_still_allowed(policies: &Policies, helmop: &HelmOp, completed: &HelmOp) -> bool {
    *policies.complete(helmop) == *completed && policies.accept(completed).is_ok()
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
    fn policies_that_changed_during_a_look_up_count() {
        let object = json!({
            "metadata": { "name": "web", "namespace": "default" },
            "spec": { "helm": { "repo": "https://charts.example.com", "chart": "web", "version": "1.x" } },
        });
        let helmop: HelmOp = serde_json::from_str(&object.to_string()).unwrap();
        for (fields, holds) in [
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
            let completed = before.complete(&helmop);
            assert_eq!(
                is_still_allowed(&policies(&fields), &helmop, &completed),
                holds,
                "{fields}"
            );
        }
    }
}
