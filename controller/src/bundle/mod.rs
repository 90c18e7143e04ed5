//! The bundle loop: each Bundle to its clusters.
//!
//! ```text
//! observe ─► targets ─► roll-out ─► sources ─► deliver, each cluster by itself ─► clear away ─► tell: the status
//! what is    which      whose       what is    copies, then the                   what is on
//! there      clusters?  turn?       passed on  BundleDeployment                   no cluster
//! ```
//!
//! What goes wrong with one cluster is told of that cluster, and holds up no other.

mod apply;
mod copies;
mod deliver;
mod error;
mod observe;
mod sources;

use std::time::Instant;

use futures::{FutureExt, StreamExt, stream};
use helmops_shared::{
    api::{Bundle, BundleDeployment, Guarded},
    policy::Policies,
    reason::Reason,
    status::{self, Place as StatusPlace, Round},
    targeting::{self, Rollout, Target},
};

pub use self::error::DeliveryError;
use self::{
    deliver::{Delivered, Delivery},
    error::Refusal,
    observe::Surroundings,
    sources::Sources,
};
use crate::{context::Context, metrics::Loop, queue::Next, watch, work::BundleKey};

/// How many clusters of a Bundle are worked on at a time.
const AT_ONCE: usize = 10;

/// Brings one Bundle to its clusters, and tells in its status how far that is.
///
/// It looks only at how things are, never at what happened, so that it may be called at any time and any number of times.
pub async fn reconcile(key: &BundleKey, delivery: &watch::Delivery, context: &Context) -> Next {
    let Some(object) = context.stores.bundles.get(key) else {
        context.bundles.forget(key);
        return match Box::pin(apply::withdraw_leftovers(context, key)).await {
            Ok(()) => None,
            Err(error) => context.bundles.retry(key, None, &error),
        };
    };
    let bundle = match &*object {
        Guarded::Good(bundle) => bundle,
        Guarded::Odd { error, .. } => {
            tracing::error!(error, "Bundle does not decode and is left alone");
            return None;
        }
    };
    let seen = bundle.metadata.resource_version.as_deref().unwrap_or_default();
    if context.bundles.written.is_behind(key, seen) {
        return Some(crate::backoff::Pace::CONFLICT.first);
    }
    let started = Instant::now();
    let result = Box::pin(bring_about(key, bundle, delivery, context)).await;
    let failure = result.as_ref().err().map(DeliveryError::reason);
    context
        .metrics
        .reconciled(Loop::Bundle, failure, started.elapsed());
    match result {
        Ok(()) => {
            context.bundles.backoff.forget(key);
            None
        }
        Err(error) => context.bundles.retry(key, bundle.metadata.generation, &error),
    }
}

async fn bring_about(
    key: &BundleKey,
    bundle: &Bundle,
    delivery: &watch::Delivery,
    context: &Context,
) -> Result<(), DeliveryError> {
    if bundle.metadata.deletion_timestamp.is_some() {
        return apply::withdraw(context, key, bundle).await;
    }
    let Some(bundle) = apply::with_finalizer(context, bundle).await? else {
        // It is gone.
        return Ok(());
    };
    let policies = observe::policies(context, &bundle)?;
    let surroundings = observe::surroundings(context, &delivery.clusters, key, &bundle);
    let existing = surroundings.existing();
    let mut targets = match targets(&bundle, &policies, &surroundings, &existing) {
        Ok(targets) => targets,
        Err(refusal) => return refuse(context, key, &bundle, &refusal).await,
    };
    let sources = Sources::read(context, &bundle, &targets).await;
    let to_clusters = Delivery {
        context,
        copies: &delivery.copies,
        bundle: &bundle,
        sources: &sources,
    };
    // Before the plan: who cannot be given anything takes nobody's turn.
    let mut failures: Vec<DeliveryError> = targets
        .iter_mut()
        .filter_map(|target| to_clusters.check(target))
        .collect();
    let rollout = match targeting::plan(&bundle.spec, &targets) {
        Ok(rollout) => rollout,
        Err(error) => {
            return refuse(
                context,
                key,
                &bundle,
                &Refusal::new(Reason::InvalidRollout, &error),
            )
            .await;
        }
    };
    let round = RoundOf { targets, rollout };
    let mut delivered = round.deliver(&to_clusters).await;
    failures.extend(clear_away(context, &surroundings, &round.targets, &existing).await);
    round.tell(context, key, &bundle, &delivered).await?;
    failures.extend(
        delivered
            .iter_mut()
            .filter_map(|delivered| delivered.failure.take()),
    );
    // The worst is told of and decides when to try again.
    match failures.into_iter().max_by_key(DeliveryError::weight) {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

async fn refuse(
    context: &Context,
    key: &BundleKey,
    bundle: &Bundle,
    Refusal { reason, message }: &Refusal,
) -> Result<(), DeliveryError> {
    tracing::info!(reason = reason.as_str(), message, "not deployed");
    apply::status(context, key, bundle, Round::Refused(*reason, message)).await
}

fn targets<'a>(
    bundle: &Bundle,
    policies: &Policies,
    surroundings: &'a Surroundings,
    existing: &[&'a BundleDeployment],
) -> Result<Vec<Target<'a>>, Refusal> {
    error::check(bundle, policies)?;
    let forbids = policies.forbid_namespace_creation();
    targeting::targets(bundle, surroundings.members(), existing, forbids)
        .map_err(|error| Refusal::new(Reason::InvalidSelector, &error))
}

/// Withdraws the Bundle from clusters that it does not go to any more.
async fn clear_away(
    context: &Context,
    surroundings: &Surroundings,
    targets: &[Target<'_>],
    existing: &[&BundleDeployment],
) -> Vec<DeliveryError> {
    let orphans = targeting::orphans(targets, existing);
    if orphans.is_empty() {
        return Vec::new();
    }
    if let Some(odd) = surroundings.odd() {
        tracing::warn!("{odd}: nothing is withdrawn from clusters meanwhile");
        return Vec::new();
    }
    let mut failures = Vec::new();
    for orphan in orphans {
        failures.extend(apply::withdraw_orphan(context, surroundings, orphan).await.err());
    }
    failures
}

/// One round of a roll-out.
struct RoundOf<'a> {
    targets: Vec<Target<'a>>,
    rollout: Rollout,
}

impl RoundOf<'_> {
    /// Brings each cluster what it is its turn for.
    async fn deliver(&self, delivery: &Delivery<'_>) -> Vec<Delivered> {
        let turns = self.targets.iter().zip(&self.rollout.turns);
        let each: Vec<_> = turns
            .map(|(target, turn)| delivery.to(target, *turn).boxed())
            .collect();
        stream::iter(each).buffered(AT_ONCE).collect().await
    }

    async fn tell(
        &self,
        context: &Context,
        key: &BundleKey,
        bundle: &Bundle,
        delivered: &[Delivered],
    ) -> Result<(), DeliveryError> {
        let left_out = |place: usize| {
            let is_left_out = self.rollout.unassigned.contains(&place);
            is_left_out.then_some("no partition of spec.rolloutStrategy has this cluster; add it to one")
        };
        let places: Vec<_> = self
            .targets
            .iter()
            .zip(delivered)
            .enumerate()
            .map(|(place, (target, delivered))| StatusPlace {
                target,
                deployment: delivered.deployment.as_ref().or(target.existing),
                problem: delivered.problem.as_deref().or_else(|| left_out(place)),
            })
            .collect();
        apply::status(context, key, bundle, Round::Done(&self.rollout, &places)).await
    }
}

/// The status, as it follows from a round.
fn next_status(bundle: &Bundle, round: Round<'_>) -> helmops_shared::api::bundle::BundleStatus {
    let now = crate::helmop::seconds(k8s_openapi::jiff::Timestamp::now());
    status::bundle(bundle, round, &now)
}
