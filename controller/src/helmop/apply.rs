//! Writes Bundles and the status of HelmOps, publishes Events, and cleans up after Fleet's own controller when a HelmOp is
//! deleted: its finalizer and its Bundle.

use std::sync::atomic::Ordering;

use helmops_api::{Bundle, Decoded, HelmOp, HelmOpStatus, NamespacedName, labels};
use helmops_core::{
    bundle::Plan,
    status::{events, without_extras},
};
use helmops_kube::name_of;
use helmops_runtime::{
    client::{ApiError, CallError, bounded},
    writes::{delete_exactly, without_finalizer},
};
use kube::{Api, ResourceExt};

use super::{error::ReconcileError, observe, trace};
use crate::{context::Context, watch::same_name_as, work::HelmOpKey, writes::MANAGER};

/// Executes a plan. Returns the Bundle if it was written.
pub async fn bundle(
    context: &Context,
    helmop: &HelmOp,
    name: &NamespacedName,
    plan: Plan,
) -> Result<Option<Bundle>, ReconcileError> {
    let (bundle, is_new) = match plan {
        Plan::Nothing => return Ok(None),
        Plan::Create(bundle) => (bundle, true),
        Plan::Replace(bundle) => (bundle, false),
    };
    let api = Api::<Bundle>::namespaced(context.client.clone(), &name.namespace);
    let written = if is_new {
        bounded(api.create(&MANAGER.post(), &bundle)).await
    } else {
        bounded(api.replace(&name.name, &MANAGER.post(), &bundle)).await
    };
    let written = written
        .map_err(CallError::of("write", format_args!("Bundle {}", name.name)))
        .map_err(ReconcileError::Bundle)?;
    let stored = context
        .pruned_bundle_fields
        .learn("Bundle", &bundle.spec, &written.spec);
    context
        .events
        .publish(helmop, stored.event().into_iter().collect());
    let version = written.spec.options.helm.as_ref().map(|helm| &*helm.version);
    tracing::info!(version, new = is_new, "Bundle written");
    Ok(Some(written))
}

/// Writes a status if it differs from the stored one.
pub async fn status(
    context: &Context,
    key: &HelmOpKey,
    helmop: &HelmOp,
    next: HelmOpStatus,
) -> Result<(), ReconcileError> {
    let next = if context.stores_own_status_fields.load(Ordering::Relaxed) {
        next
    } else {
        without_extras(next)
    };
    let stored = helmop.status.clone().unwrap_or_default();
    let written = MANAGER
        .write_status(
            &context.client,
            &context.retries.helmops.pending_writes,
            helmop,
            &stored,
            &next,
        )
        .await
        .map_err(ReconcileError::HelmOp)?;
    let Some(written) = written else {
        return Ok(());
    };
    context.events.publish(helmop, events(&stored, &next));
    let bundle = observe::cached_bundle(context, key);
    let bundle = observe::own_bundle(bundle.as_deref()).ok().flatten();
    if let Some(ending) = trace::ending(&context.tracer, helmop, bundle, &next) {
        match ending.root_span(&context.client, &name_of(key)).await {
            Ok(span) => span.into_iter().for_each(|span| context.tracer.record(span)),
            // What is reported does not depend on traces.
            Err(error) => tracing::warn!(%error, "the trace has no root: cannot read when it started"),
        }
    }
    let keeps = written
        .status
        .is_some_and(|status| status.observed_generation.is_some());
    if next.observed_generation.is_some()
        && context.stores_own_status_fields.swap(keeps, Ordering::Relaxed)
        && !keeps
    {
        tracing::info!(
            "the CRD of HelmOp in the cluster lacks status.observedGeneration: it is Fleet's own. The status is written \
             without the fields that it lacks; install the CRDs of helmops to get them"
        );
    }
    Ok(())
}

/// Cleans up what Fleet's own controller has left of a HelmOp that is being deleted: its finalizer, and a Bundle without an owner
/// reference. The garbage collector of the API server does the rest. Only the metadata are used, so that a HelmOp that does not
/// decode can be deleted too.
pub async fn cleanup(
    context: &Context,
    key: &HelmOpKey,
    helmop: &Decoded<HelmOp>,
) -> Result<(), ReconcileError> {
    let Some(others) = without_finalizer(helmop, labels::HELMOP_FINALIZER) else {
        return Ok(());
    };
    let name = name_of(key);
    let cleanup_error = |error| {
        let object = format_args!("HelmOp {}", name.name);
        ReconcileError::HelmOp(CallError::of("remove Fleet's finalizer from", object)(error))
    };
    delete_bundle(context, key, &name).await.map_err(cleanup_error)?;
    let api = Api::<Decoded<HelmOp>>::namespaced(context.client.clone(), &name.namespace);
    match MANAGER.finalizers(&api, helmop, &others).await {
        Err(error) if !error.is_not_found() => Err(cleanup_error(error)),
        _ => Ok(()),
    }
}

async fn delete_bundle(context: &Context, key: &HelmOpKey, name: &NamespacedName) -> Result<(), ApiError> {
    let cached = context.stores.bundles.get(&same_name_as(key));
    let Some(Decoded::Valid(bundle)) = cached.as_deref() else {
        return Ok(());
    };
    let is_of_helmop = bundle.labels().get(labels::HELM_NAME) == Some(&key.name);
    if !is_of_helmop || bundle.spec.helm_op_options.is_none() {
        return Ok(());
    }
    let api = Api::<Bundle>::namespaced(context.client.clone(), &name.namespace);
    match bounded(api.delete(&name.name, &delete_exactly(bundle.as_ref()))).await {
        Err(error) if !error.is_not_found() => Err(error),
        _ => Ok(()),
    }
}
