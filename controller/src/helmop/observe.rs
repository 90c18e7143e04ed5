//! Reads.

use std::sync::Arc;

use helmops_shared::api::{Bundle, Guarded, HelmOp};
use k8s_openapi::jiff::Timestamp;
use kube::runtime::reflector::ObjectRef;

use crate::{context::Context, error::ReconcileError};

/// The Bundle of a HelmOp's name, as it was last seen.
///
/// It may be out of date, but never harmfully: a write carries the resource version that was seen, or fails because the
/// Bundle exists after all.
pub fn bundle(context: &Context, helmop: &HelmOp) -> Option<Arc<Guarded<Bundle>>> {
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
pub fn decoded(seen: Option<&Guarded<Bundle>>) -> Result<Option<&Bundle>, ReconcileError> {
    match seen {
        None => Ok(None),
        Some(Guarded::Good(bundle)) => Ok(Some(bundle)),
        Some(Guarded::Odd { metadata, error }) => Err(ReconcileError::OddBundle {
            name: metadata.name.clone().unwrap_or_default(),
            error: error.clone(),
        }),
    }
}

/// The time, in RFC 3339 and whole seconds, as conditions have it.
pub fn now() -> String {
    Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
