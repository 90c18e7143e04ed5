//! Writes Bundles and the status of HelmOps, publishes Events, and cleans up after Fleet's own controller when a HelmOp is
//! deleted: its finalizer and its Bundle.

use helmops_api::{Bundle, Decoded, HelmOp, HelmOpStatus, NamespacedName, labels};
use helmops_core::{bundle::Plan, status::events};
use helmops_kube::name_of;
use helmops_runtime::{
    client::{ApiError, CallError, bounded},
    writes::{delete_exactly, without_finalizer},
};
use kube::{Api, Resource as _, api::ListParams};

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
    let next = context.own_status.storable(next);
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
    context.own_status.learn(&next, written.status.as_ref());
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
    if without_finalizer(helmop, labels::HELMOP_FINALIZER).is_none() {
        return Ok(());
    }
    let name = name_of(key);
    let cleanup_error = |error| {
        let object = format_args!("HelmOp {}", name.name);
        ReconcileError::HelmOp(CallError::of("remove Fleet's finalizer from", object)(error))
    };
    let api = Api::<Decoded<HelmOp>>::namespaced(context.client.clone(), &name.namespace);
    // The Bundle may belong to a new HelmOp of this name. A list, because the permission for watches includes list, but not get.
    let one = ListParams::default().fields(&format!("metadata.name={}", name.name));
    let current = bounded(api.list(&one)).await.map_err(cleanup_error)?.items;
    if current
        .iter()
        .any(|current| current.meta().uid != helmop.meta().uid)
    {
        return Ok(());
    }
    delete_bundle(context, key, &name).await.map_err(cleanup_error)?;
    let removed = MANAGER.remove_finalizer(&api, helmop, labels::HELMOP_FINALIZER);
    removed.await.map_err(cleanup_error)
}

async fn delete_bundle(context: &Context, key: &HelmOpKey, name: &NamespacedName) -> Result<(), ApiError> {
    let Some(bundle) = context.stores.bundles.get(&same_name_as(key)) else {
        return Ok(());
    };
    if !is_of_helmop(&bundle, &key.name) {
        return Ok(());
    }
    let api = Api::<Bundle>::namespaced(context.client.clone(), &name.namespace);
    match bounded(api.delete(&name.name, &delete_exactly(&*bundle))).await {
        Err(error) if !error.is_not_found() => Err(error),
        _ => Ok(()),
    }
}

/// Whether a Bundle was made from the HelmOp of this name. The label decides about one whose content is unknown: it does not decode, or
/// the memory budget has no room for it. Nothing else would ever delete it, since such a Bundle of Fleet has no owner reference.
fn is_of_helmop(bundle: &Decoded<Bundle>, name: &str) -> bool {
    let labels = bundle.meta().labels.as_ref();
    let is_named = labels
        .and_then(|labels| labels.get(labels::HELM_NAME))
        .map(String::as_str)
        == Some(name);
    let content = bundle.valid();
    is_named && content.is_none_or(|bundle| bundle.spec.helm_op_options.is_some())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_bundle_of_the_helmop_is_known_without_its_content_too() {
        let bundle = |helmop: &str, spec: Value| {
            let metadata =
                json!({ "name": "web", "namespace": "team", "labels": { labels::HELM_NAME: helmop } });
            let bundle = json!({ "metadata": metadata, "spec": spec });
            serde_json::from_str::<Decoded<Bundle>>(&bundle.to_string()).unwrap()
        };
        for (helmop, spec, expected) in [
            ("web", json!({ "helmOpOptions": {} }), true),
            ("web", json!({}), false),
            ("web", json!({ "helmOpOptions": {}, "targets": "none" }), true),
            ("other", json!({ "helmOpOptions": {} }), false),
            ("other", json!({ "targets": "none" }), false),
        ] {
            assert_eq!(is_of_helmop(&bundle(helmop, spec), "web"), expected);
        }
    }
}
