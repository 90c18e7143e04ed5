//! The helmop loop: each HelmOp to its Bundle.

mod apply;
mod interest;
mod observe;
mod run;

use std::{borrow::Cow, sync::Arc, time::Instant};

use helmops_shared::{
    admit::ValidHelmOp,
    api::{Bundle, Guarded, HelmOp, ResolvedChart},
    bundle,
    reason::Reason,
    status::{self, Outcome},
};
use kube::{
    ResourceExt,
    runtime::{controller::Action, reflector::ObjectRef},
};

pub use self::run::{Stores, run, stores};
use crate::{
    context::Context,
    error::ReconcileError,
    resolve::{Authority, Surroundings},
    workers::Place,
};

/// Brings one HelmOp to what it asks for, and tells in its status what came of it.
///
/// It looks only at how things are, never at what happened, so that it may be called at any time and any number of times.
async fn reconcile(object: Arc<Guarded<HelmOp>>, context: Arc<Context>) -> Result<Action, ReconcileError> {
    if let Guarded::Odd { error, .. } = &*object {
        tracing::error!(helmop = %ObjectRef::from_obj(&*object), error, "HelmOp does not decode and is left alone");
        return Ok(Action::await_change());
    }
    let Ok(mut place) = context.workers.place().await else {
        return Ok(Action::await_change());
    };
    // It may have waited for long, as the replica that stands by: what is worked on is how things are now.
    let newest = context.stores.helmops.get(&ObjectRef::from_obj(&*object));
    let Some(Guarded::Good(helmop)) = newest.as_deref() else {
        return Ok(Action::await_change());
    };
    let started = Instant::now();
    // In a box, so that those who wait for their place are small.
    let result = Box::pin(bring_about(helmop, &context, &mut place)).await;
    context.metrics.reconciled(
        result.as_ref().err().map(ReconcileError::reason),
        started.elapsed(),
    );
    if result.is_ok() {
        context.backoff.forget(&ObjectRef::from_obj(&*object));
    }
    result.map(|()| Action::await_change())
}

async fn bring_about(helmop: &HelmOp, context: &Context, place: &mut Place) -> Result<(), ReconcileError> {
    if helmop.metadata.deletion_timestamp.is_some() {
        return apply::cleanup(context, helmop).await;
    }
    let seen = observe::bundle(context, helmop);
    let decoded = observe::decoded(seen.as_deref()).ok().flatten();
    // What somebody else's Bundle says is nothing of this HelmOp's.
    let bundle = decoded.filter(|bundle| bundle::check_owner(bundle).is_ok());
    let valid = match ValidHelmOp::try_from(helmop) {
        Ok(valid) => valid,
        Err(errors) => {
            let reason = errors.reason().unwrap_or(Reason::Undecodable);
            let outcome = Outcome::Refused {
                reason,
                message: errors.to_string(),
            };
            return tell(context, helmop, bundle, &outcome).await;
        }
    };
    match advance(context, place, &valid, seen.as_deref()).await {
        Ok((bundle, outcome)) => tell(context, helmop, Some(&bundle), &outcome).await,
        Err(error) if error.is_passing() => Err(error),
        Err(error) => {
            let (reason, message) = (error.reason(), error.to_string());
            let outcome = if error.may_pass() {
                Outcome::Retrying { reason, message }
            } else {
                Outcome::Refused { reason, message }
            };
            tell(context, helmop, bundle, &outcome).await?;
            Err(error)
        }
    }
}

/// Looks up what is not known yet and writes the Bundle if it must be. Gives the Bundle as it is then.
async fn advance<'b>(
    context: &Context,
    place: &mut Place,
    valid: &ValidHelmOp<'_>,
    seen: Option<&'b Guarded<Bundle>>,
) -> Result<(Cow<'b, Bundle>, Outcome), ReconcileError> {
    let existing = observe::decoded(seen)?;
    let known = match existing {
        Some(existing) => {
            bundle::check_owner(existing).map_err(ReconcileError::Foreign)?;
            bundle::pins(valid, existing)
        }
        None => Vec::new(),
    };
    let rancher_ca = context
        .stores
        .rancher_ca
        .bundle()
        .map_err(ReconcileError::RancherCa)?;
    let resolved = resolve(context, place, valid, known, &rancher_ca.authorities()).await?;
    let plan = bundle::plan(valid, existing, &resolved, &rancher_ca.encoded());
    let plan = plan.map_err(ReconcileError::Unresolved)?;
    let bundle = match (apply::bundle(context, plan).await?, existing) {
        (None, Some(unchanged)) => Cow::Borrowed(unchanged),
        (written, _) => Cow::Owned(written.unwrap_or_default()),
    };
    let helm = bundle.spec.options.helm.as_ref();
    let version = helm.map(|helm| helm.version.clone()).unwrap_or_default();
    Ok((bundle, Outcome::Accepted { version, resolved }))
}

/// Looks up what is not known yet. Others work meanwhile.
async fn resolve(
    context: &Context,
    place: &mut Place,
    valid: &ValidHelmOp<'_>,
    known: Vec<ResolvedChart>,
    authorities: &[Authority],
) -> Result<Vec<ResolvedChart>, ReconcileError> {
    if bundle::lookups(valid)
        .iter()
        .all(|(lookup, _)| known.iter().any(|record| lookup.is_answered_by(record)))
    {
        return Ok(known);
    }
    let around = Surroundings {
        client: &context.client,
        metrics: &context.metrics,
        authorities,
        interest: &|repo| interest::charts(&context.stores.helmops, repo),
        since: Instant::now(),
    };
    let looked_up = place
        .step_aside(context.resolver.complete(around, valid, known))
        .await;
    looked_up
        .map_err(ReconcileError::Interrupted)?
        .map_err(|error| ReconcileError::Resolve(Box::new(error)))
}

/// Writes the status, if it says anything new.
async fn tell(
    context: &Context,
    helmop: &HelmOp,
    bundle: Option<&Bundle>,
    outcome: &Outcome,
) -> Result<(), ReconcileError> {
    let now = observe::now();
    let next = status::next(helmop, bundle, outcome, &now);
    if let Outcome::Refused { reason, message } | Outcome::Retrying { reason, message } = outcome {
        let name = helmop.name_any();
        tracing::info!(
            namespace = helmop.namespace(),
            name,
            reason = reason.as_str(),
            message,
            "not accepted"
        );
    }
    apply::status(context, helmop, next).await
}
