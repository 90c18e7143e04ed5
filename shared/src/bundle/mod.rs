//! HelmOp and version to Bundle.

mod desired;
mod lookup;
mod pins;
mod plan;

pub use self::{
    desired::MissingVersion,
    lookup::{Key, Lookup, by_key, first_repo, lookups},
    pins::pins,
    plan::{OwnershipConflict, Parts, Plan, check_owner, plan},
};

#[cfg(test)]
mod tests;
