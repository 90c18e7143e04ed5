//! Reads.

use std::sync::Arc;

use helmops_shared::{
    api::{Bundle, Decoded, HelmOp},
    policy::Policies,
};
use kube::{Api, Resource, ResourceExt, runtime::reflector::ObjectRef};

use crate::{client::bounded, context::Context, error::ReconcileError, work::HelmOpKey};

/// The Bundle of a HelmOp's name, as it was last seen.
///
/// It may be out of date, but never harmfully: a write carries the resource version that was seen, or fails because the
/// Bundle exists after all.
pub fn bundle(context: &Context, helmop: &HelmOp) -> Option<Arc<Decoded<Bundle>>> {
    let name = helmop.metadata.name.as_deref().unwrap_or_default();
    let namespace = helmop.metadata.namespace.as_deref().unwrap_or_default();
    context
        .stores
        .bundles
        .get(&ObjectRef::new(name).within(namespace))
}

/// The Bundle, if it can be read at all.
///
/// # Errors
/// Where it does not decode.
pub fn decoded(seen: Option<&Decoded<Bundle>>) -> Result<Option<&Bundle>, ReconcileError> {
    match seen {
        None => Ok(None),
        Some(Decoded::Valid(bundle)) => Ok(Some(bundle)),
        Some(Decoded::Invalid { metadata, error }) => Err(ReconcileError::OddBundle {
            name: metadata.name.clone().unwrap_or_default(),
            error: error.clone(),
        }),
    }
}

/// The Bundle of a HelmOp's name as the API server has it.
///
/// # Errors
/// Where it cannot be asked.
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

/// Whether a HelmOp still asks for what it asked for.
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
/// While it is unknown which there are: nothing is done that one of them might forbid.
pub fn policies(context: &Context, helmop: &HelmOp) -> Result<Arc<Policies>, ReconcileError> {
    let namespace = helmop.metadata.namespace.as_deref().unwrap_or_default();
    context
        .stores
        .policies
        .of(namespace)
        .ok_or(ReconcileError::UnknownPolicies)
}
