//! Writes Bundles: their finalizer and their status.

use std::borrow::Cow;

use helmops_api::{Bundle, Decoded, labels};
use helmops_core::status::{self, RolloutRound, bundle_events};
use helmops_runtime::client::CallError;
use k8s_openapi::{NamespaceResourceScope, jiff::Timestamp};
use kube::{Api, Resource, ResourceExt};

use crate::{context::Context, writes::MANAGER};

/// The Bundle with the finalizer that keeps it until its deployments are deleted; `None` if the Bundle does not exist any more.
pub async fn with_finalizer<'b>(
    context: &Context,
    bundle: &'b Bundle,
) -> Result<Option<Cow<'b, Bundle>>, CallError> {
    let mut finalizers = bundle.finalizers().to_vec();
    if finalizers
        .iter()
        .any(|finalizer| finalizer == labels::BUNDLE_FINALIZER)
    {
        return Ok(Some(Cow::Borrowed(bundle)));
    }
    finalizers.push(labels::BUNDLE_FINALIZER.to_owned());
    match MANAGER
        .finalizers(&bundles(context, bundle), bundle, &finalizers)
        .await
    {
        Ok(bundle) => Ok(Some(Cow::Owned(bundle))),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(CallError::of(
            "add a finalizer to",
            format_args!("Bundle {}", bundle.name_any()),
        )(error)),
    }
}

/// Removes the finalizer of a Bundle that is being deleted.
pub async fn remove_finalizer(context: &Context, bundle: &Decoded<Bundle>) -> Result<(), CallError> {
    let api = bundles(context, bundle);
    let removed = MANAGER.remove_finalizer(&api, bundle, labels::BUNDLE_FINALIZER);
    removed.await.map_err(CallError::of(
        "remove the finalizer from",
        format_args!("Bundle {}", bundle.name_any()),
    ))
}

/// Writes the status if it differs from the stored one.
pub async fn status(context: &Context, bundle: &Bundle, round: RolloutRound<'_>) -> Result<(), CallError> {
    let stored = bundle.status.as_deref().cloned().unwrap_or_default();
    let next = status::bundle(bundle, round, &status::timestamp(Timestamp::now()));
    let pending_writes = &context.retries.bundles.pending_writes;
    let written = MANAGER
        .write_status(&context.client, pending_writes, bundle, &stored, &next)
        .await?;
    if written.is_some() {
        context.events.publish(bundle, bundle_events(&stored, &next));
    }
    Ok(())
}

/// The API of the Bundle's namespace, for Bundles that decode and for those that do not.
fn bundles<K>(context: &Context, bundle: &K) -> Api<K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    Api::namespaced(context.client.clone(), &bundle.namespace().unwrap_or_default())
}
