//! What must be written for the Bundle to be as the HelmOp asks.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube_core::Resource;
use thiserror::Error;

use super::desired::{self, MissingVersion};
use crate::{
    admit::ValidHelmOp,
    api::{Bundle, HelmOp, ResolvedChart, labels},
};

/// What to do with the Bundle.
#[derive(Clone, Debug, PartialEq)]
pub enum Plan {
    /// It is as it should be.
    Nothing,
    /// There is none.
    Create(Box<Bundle>),
    /// It differs. The resource version in its metadata is the one that was looked at, so that the write fails if
    /// somebody else was quicker.
    Replace(Box<Bundle>),
}

/// The Bundle of the HelmOp's name is somebody else's.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error(
    "a non-helmops bundle already exists with name {name}; rename the HelmOp, or delete that Bundle if nothing needs it"
)]
pub struct OwnershipConflict {
    /// Name of the Bundle and of the HelmOp.
    pub name: String,
}

/// Refuses to touch a Bundle that was not made from a HelmOp.
///
/// # Errors
/// Where it was made from something else.
pub fn check_owner(bundle: &Bundle) -> Result<(), OwnershipConflict> {
    match bundle.spec.helm_op_options {
        Some(_) => Ok(()),
        None => Err(OwnershipConflict {
            name: bundle.metadata.name.clone().unwrap_or_default(),
        }),
    }
}

/// Whether a Bundle belongs to this very HelmOp: Fleet's own controller names no owner, and a HelmOp of the same name
/// that is gone was another one.
pub fn belongs_to(bundle: &Bundle, helmop: &HelmOp) -> bool {
    owners(bundle).all(|owner| Some(&owner.uid) == helmop.metadata.uid.as_ref())
}

/// What a Bundle is made of besides the HelmOp.
#[derive(Clone, Copy, Debug, Default)]
pub struct Parts<'a> {
    /// The versions of all [lookups](super::lookups).
    pub resolved: &'a [ResolvedChart],
    /// The token of the last look that was asked for and had, see [`labels::LAST_HANDLED_POLL`].
    pub polled: Option<&'a str>,
    /// The authorities that agents trust besides their own, PEM in Base64.
    pub ca_bundle: &'a str,
}

/// Decides what to write.
///
/// # Errors
/// Where a version is missing.
pub fn plan(
    valid: &ValidHelmOp<'_>,
    existing: Option<&Bundle>,
    parts: Parts<'_>,
) -> Result<Plan, MissingVersion> {
    let spec = desired::spec(valid, parts.resolved, parts.ca_bundle)?;
    let metadata = metadata(valid, existing.map(|bundle| &*bundle.metadata), parts);
    let bundle = Bundle {
        metadata: metadata.into(),
        spec,
        ..Bundle::default()
    };
    Ok(match existing {
        None => Plan::Create(Box::new(bundle)),
        Some(existing) if existing.spec == bundle.spec && existing.metadata == bundle.metadata => {
            Plan::Nothing
        }
        Some(_) => Plan::Replace(Box::new(bundle)),
    })
}

/// The Bundle's metadata: ours over what is there. Labels are ours alone, annotations and finalizers are shared.
fn metadata(valid: &ValidHelmOp<'_>, existing: Option<&ObjectMeta>, parts: Parts<'_>) -> ObjectMeta {
    let mut metadata = existing.cloned().unwrap_or_default();
    metadata.name.clone_from(&valid.helmop.metadata.name);
    metadata.namespace.clone_from(&valid.helmop.metadata.namespace);
    metadata.labels = Some(desired::bundle_labels(valid));
    let annotations = metadata.annotations.get_or_insert_default();
    annotations.insert(labels::RESOLVED.to_owned(), record(parts.resolved));
    match parts.polled {
        Some(token) => annotations.insert(labels::LAST_HANDLED_POLL.to_owned(), token.to_owned()),
        None => annotations.remove(labels::LAST_HANDLED_POLL),
    };
    if let Some(owner) = valid.helmop.controller_owner_ref(&()) {
        let others = metadata.owner_references.take().unwrap_or_default();
        let others = others.into_iter().filter(|other| !is_helmop(other));
        metadata.owner_references = Some(others.chain([owner]).collect());
    }
    metadata
}

fn record(resolved: &[ResolvedChart]) -> String {
    // Strings alone always serialise.
    serde_json::to_string(resolved).unwrap_or_default()
}

fn owners(bundle: &Bundle) -> impl Iterator<Item = &OwnerReference> {
    bundle
        .metadata
        .owner_references
        .iter()
        .flatten()
        .filter(|owner| is_helmop(owner))
}

fn is_helmop(owner: &OwnerReference) -> bool {
    owner.kind == HelmOp::kind(&()) && owner.api_version == HelmOp::api_version(&())
}
