//! Reads the caches, and Bundles from the API server.

use std::sync::Arc;

use helmops_api::{Bundle, Decoded, HelmOp};
use helmops_core::policy::Policies;
use kube::{Api, Resource, ResourceExt, runtime::reflector::ObjectRef};

use crate::{client::bounded, context::Context, error::ReconcileError, work::HelmOpKey};

/// The cached Bundle with the name of a HelmOp.
///
/// It may be stale, which does no harm: an update with an old resource version fails, and so does the creation of a Bundle that
/// already exists.
pub fn bundle(context: &Context, helmop: &HelmOp) -> Option<Arc<Decoded<Bundle>>> {
    let name = helmop.metadata.name.as_deref().unwrap_or_default();
    let namespace = helmop.metadata.namespace.as_deref().unwrap_or_default();
    context
        .stores
        .bundles
        .get(&ObjectRef::new(name).within(namespace))
}

/// The decoded Bundle.
///
/// # Errors
/// If it does not decode.
pub fn decoded(cached: Option<&Decoded<Bundle>>) -> Result<Option<&Bundle>, ReconcileError> {
    match cached {
        None => Ok(None),
        Some(Decoded::Valid(bundle)) => Ok(Some(bundle)),
        Some(Decoded::Invalid { metadata, error }) => Err(ReconcileError::InvalidBundle {
            name: metadata.name.clone().unwrap_or_default(),
            error: error.clone(),
        }),
    }
}

/// The Bundle with the name of a HelmOp, read from the API server.
///
/// # Errors
/// If the request fails.
pub async fn fetch_bundle(
    context: &Context,
    helmop: &HelmOp,
) -> Result<Option<Decoded<Bundle>>, ReconcileError> {
    let name = helmop.name_any();
    let api =
        Api::<Decoded<Bundle>>::namespaced(context.client.clone(), &helmop.namespace().unwrap_or_default());
    bounded(api.get_opt(&name))
        .await
        .map_err(|source| ReconcileError::Bundle { name, source })
}

/// Whether the spec of a HelmOp is unchanged since the reconciliation started.
pub fn is_current(context: &Context, key: &HelmOpKey, helmop: &HelmOp) -> bool {
    let latest = context.stores.helmops.get(key);
    latest.is_some_and(|latest| {
        let latest = latest.meta();
        (&latest.uid, latest.generation) == (&helmop.metadata.uid, helmop.metadata.generation)
    })
}

/// The Policies of a HelmOp's namespace.
///
/// # Errors
/// While the Policy cache is not synced: nothing is done that a Policy might forbid.
pub fn policies(context: &Context, helmop: &HelmOp) -> Result<Arc<Policies>, ReconcileError> {
    let namespace = helmop.metadata.namespace.as_deref().unwrap_or_default();
    context
        .stores
        .policies
        .of(namespace)
        .ok_or(ReconcileError::UnknownPolicies)
}
