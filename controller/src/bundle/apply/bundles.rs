//! Writes Bundles: their finalizer and their status.

use std::borrow::Cow;

use helmops_api::{Bundle, Decoded, labels};
use helmops_core::status::{self, RolloutRound, bundle_events, change};
use helmops_runtime::{client::CallError, writes::without_finalizer};
use k8s_openapi::{NamespaceResourceScope, jiff::Timestamp};
use kube::{Api, Resource, ResourceExt};

use crate::{context::Context, work::BundleKey, writes::MANAGER};

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
    let Some(others) = without_finalizer(bundle, labels::BUNDLE_FINALIZER) else {
        return Ok(());
    };
    match MANAGER
        .finalizers(&bundles(context, bundle), bundle, &others)
        .await
    {
        Err(error) if !error.is_not_found() => Err(CallError::of(
            "remove the finalizer from",
            format_args!("Bundle {}", bundle.name_any()),
        )(error)),
        _ => Ok(()),
    }
}

/// Writes the status if it differs from the stored one.
pub async fn status(
    context: &Context,
    key: &BundleKey,
    bundle: &Bundle,
    round: RolloutRound<'_>,
) -> Result<(), CallError> {
    let stored = bundle.status.as_deref().cloned().unwrap_or_default();
    let next = status::bundle(bundle, round, &status::timestamp(Timestamp::now()));
    let Some(change) = change(&stored, &next) else {
        return Ok(());
    };
    match MANAGER.status(&bundles(context, bundle), bundle, &change).await {
        Ok(written) => {
            context
                .retries
                .bundles
                .pending_writes
                .record(key.clone(), bundle, &written);
            context.events.publish(bundle, bundle_events(&stored, &next));
            Ok(())
        }
        Err(error) if error.is_not_found() => Ok(()),
        Err(error) => Err(CallError::of(
            "write the status of",
            format_args!("Bundle {}", bundle.name_any()),
        )(error)),
    }
}

/// The API of the Bundle's namespace, for Bundles that decode and for those that do not.
fn bundles<K>(context: &Context, bundle: &K) -> Api<K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    Api::namespaced(context.client.clone(), &bundle.namespace().unwrap_or_default())
}
