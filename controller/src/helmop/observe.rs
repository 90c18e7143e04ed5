//! Reads the caches, and Bundles from the API server.

use std::sync::Arc;

use helmops_api::{Bundle, BundleDeployment, Decoded, HelmOp, NamespacedName, labels};
use helmops_core::{bundle, policy::Policies, schedule::Waiting};
use helmops_runtime::client::{CallError, bounded};
use kube::{Api, Resource};

use super::error::ReconcileError;
use crate::{context::Context, watch::same_name_as, work::HelmOpKey};

/// The cached Bundle with the name of a HelmOp.
///
/// It may be stale, which does no harm: an update with an old resource version fails, and so does the creation of a Bundle that
/// already exists.
pub fn cached_bundle(context: &Context, key: &HelmOpKey) -> Option<Arc<Decoded<Bundle>>> {
    context.stores.bundles.get(&same_name_as(key))
}

/// The Bundle with the name of a HelmOp, read from the API server.
///
/// # Errors
/// If the request fails.
pub async fn fetch_bundle(
    context: &Context,
    name: &NamespacedName,
) -> Result<Option<Decoded<Bundle>>, ReconcileError> {
    let api = Api::<Decoded<Bundle>>::namespaced(context.client.clone(), &name.namespace);
    bounded(api.get_opt(&name.name))
        .await
        .map_err(CallError::of("read", format_args!("Bundle {}", name.name)))
        .map_err(ReconcileError::Bundle)
}

/// The existing Bundle, if it was created from a HelmOp.
///
/// # Errors
/// If it does not decode, or was not created from a HelmOp.
pub fn own_bundle(found: Option<&Decoded<Bundle>>) -> Result<Option<&Bundle>, ReconcileError> {
    match found {
        None => Ok(None),
        Some(Decoded::Valid(bundle)) => {
            bundle::check_owner(bundle).map_err(ReconcileError::OwnershipConflict)?;
            Ok(Some(bundle))
        }
        Some(Decoded::Invalid { metadata, error }) => Err(ReconcileError::InvalidBundle {
            name: metadata.name.clone().unwrap_or_default(),
            error: error.clone(),
        }),
    }
}

/// The clusters that wait for a window. When that begins is known if this process reads Clusters.
pub fn waiting(context: &Context, deployments: &[&Decoded<BundleDeployment>]) -> Waiting {
    Waiting::of(deployments, |metadata| {
        let clusters = &context.stores.delivery.as_ref()?.clusters;
        let namespace = labels::of(metadata, labels::CLUSTER_NAMESPACE)?;
        let cluster = clusters.all.value(&NamespacedName::new(
            namespace,
            labels::of(metadata, labels::CLUSTER)?,
        ))?;
        let window = cluster.valid()?.status.awaited_window()?;
        Some(window.until.clone())
    })
}

/// Whether the spec of a HelmOp is unchanged since the reconciliation started.
pub fn is_current(context: &Context, key: &HelmOpKey, helmop: &HelmOp) -> bool {
    let latest = context.stores.helmops.get(key);
    latest.is_some_and(|latest| {
        let latest = latest.meta();
        (&latest.uid, latest.generation) == (&helmop.metadata.uid, helmop.metadata.generation)
    })
}

/// The Policies of a namespace.
///
/// # Errors
/// While the Policy cache is not synced: nothing is done that a Policy might forbid.
pub fn policies(context: &Context, namespace: &str) -> Result<Arc<Policies>, ReconcileError> {
    let policies = context.stores.policies.of(namespace);
    policies.ok_or(ReconcileError::UnknownPolicies)
}
