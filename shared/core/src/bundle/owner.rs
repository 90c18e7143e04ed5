//! Which Bundles belong to a HelmOp.

use helmops_api::{Bundle, HelmOp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube_core::Resource;
use thiserror::Error;

/// A Bundle with the HelmOp's name exists that was not created from a HelmOp.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error(
    "a non-helmops bundle already exists with name {name}; rename the HelmOp, or delete that Bundle if nothing needs it"
)]
pub struct OwnershipConflict {
    /// Name of the Bundle and of the HelmOp.
    pub name: String,
}

/// Checks that a Bundle was created from a HelmOp; any other Bundle must not be changed.
///
/// # Errors
/// If it was not created from a HelmOp.
pub fn check_owner(bundle: &Bundle) -> Result<(), OwnershipConflict> {
    match bundle.spec.helm_op_options {
        Some(_) => Ok(()),
        None => Err(OwnershipConflict {
            name: bundle.metadata.name.clone().unwrap_or_default(),
        }),
    }
}

/// Whether a Bundle belongs to this HelmOp, not to a deleted HelmOp of the same name. A Bundle of Fleet's controller has no
/// owner reference, and belongs to it.
pub fn belongs_to(bundle: &Bundle, helmop: &HelmOp) -> bool {
    owners(bundle).all(|owner| Some(&owner.uid) == helmop.metadata.uid.as_ref())
}

/// Whether an owner is a HelmOp.
pub fn is_helmop(owner: &OwnerReference) -> bool {
    owner.kind == HelmOp::kind(&()) && owner.api_version == HelmOp::api_version(&())
}

fn owners(bundle: &Bundle) -> impl Iterator<Item = &OwnerReference> {
    bundle
        .metadata
        .owner_references
        .iter()
        .flatten()
        .filter(|owner| is_helmop(owner))
}
