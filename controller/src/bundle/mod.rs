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
    api::{Bundle, Guarded},
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
    let round = match round(&bundle, &policies, &surroundings) {
        Ok(round) => round,
        Err(Refusal { reason, message }) => {
            tracing::info!(reason = reason.as_str(), message, "not deployed");
            return apply::status(context, key, &bundle, Round::Refused(reason, &message)).await;
        }
    };
    let delivered = round.deliver(context, &delivery.copies, &bundle).await;
    let orphans = targeting::orphans(&round.targets, &surroundings.existing());
    let mut failure = None;
    for orphan in orphans {
        if let Err(error) = apply::withdraw_one(context, orphan).await {
            failure = Some(error);
        }
    }
    round.tell(context, key, &bundle, &delivered).await?;
    let failures = delivered.into_iter().filter_map(|delivered| delivered.failure);
    // The worst is told of and decides when to try again.
    match failures.chain(failure).max_by_key(|error| !error.is_passing()) {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

/// One round of a roll-out.
struct RoundOf<'a> {
    targets: Vec<Target<'a>>,
    rollout: Rollout,
}

fn round<'a>(
    bundle: &Bundle,
    policies: &Policies,
    surroundings: &'a Surroundings,
) -> Result<RoundOf<'a>, Refusal> {
    error::check(bundle, policies)?;
    let existing = surroundings.existing();
    let forbids = policies.forbid_namespace_creation();
    let targets = targeting::targets(bundle, surroundings.members(), &existing, forbids)
        .map_err(|error| Refusal::new(Reason::InvalidSelector, &error))?;
    let rollout = targeting::plan(&bundle.spec, &targets)
        .map_err(|error| Refusal::new(Reason::InvalidRollout, &error))?;
    Ok(RoundOf { targets, rollout })
}

impl RoundOf<'_> {
    /// Brings each cluster what it is its turn for.
    async fn deliver(&self, context: &Context, copies: &watch::Copies, bundle: &Bundle) -> Vec<Delivered> {
        let sources = Sources::read(context, bundle, &self.targets).await;
        let delivery = Delivery {
            context,
            copies,
            bundle,
            sources: &sources,
        };
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
