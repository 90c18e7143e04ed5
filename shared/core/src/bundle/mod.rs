//! Computes the Bundle of a HelmOp from its spec and the resolved versions.

mod desired;
mod lookup;
mod pins;
mod plan;

pub use self::{
    desired::MissingVersion,
    lookup::{Lookup, first_repo, lookups},
    pins::pins,
    plan::{BundleInputs, OwnershipConflict, Plan, check_owner, plan},
};

#[cfg(test)]
mod tests;
